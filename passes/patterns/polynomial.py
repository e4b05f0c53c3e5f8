"""Arithmetic in a normal form: a node as a polynomial in nodes, so that the order it was written in does not matter.

0.5 * x * (1 + erf(u))   x * (0.5 + 0.5 * erf(u))   0.5 * x + x * erf(u) / 2     =>     {x: 0.5, x erf: 0.5}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sexpgpu.passes.patterns.matching import Node, close, number

Term = tuple[Node, ...]
"""The nodes whose product a term is, with repetition, in the order of their ids; () is the constant term."""
Polynomial = dict[Term, float]

_MOST_TERMS = 6
_MOST_FACTORS = 4


def polynomial(node: Node, atoms: Collection[Node], seen: set[Node]) -> Polynomial | None:
    """`node` in terms of `atoms` alone; None where it is no polynomial in them, or a large one."""
    if node in atoms:
        return {(node,): 1.0}
    constant = number(node)
    if constant is not None:
        return {(): constant}
    match node.name:
        case "add" | "sub" | "mul":
            left = polynomial(node.ins[0], atoms, seen)
            right = None if left is None else polynomial(node.ins[1], atoms, seen)
            if left is None or right is None:
                return None
            found = _product(left, right) if node.name == "mul" else _sum(left, right, 1 if node.name == "add" else -1)
        case "neg":
            found = _scaled(polynomial(node.ins[0], atoms, seen), -1.0)
        case "div":
            by = number(node.ins[1])
            found = _scaled(polynomial(node.ins[0], atoms, seen), 1 / by) if by else None
        case "square":
            found = _power(polynomial(node.ins[0], atoms, seen), 2)
        case "pow":
            exponent = number(node.ins[1])
            small = exponent in (2.0, 3.0)
            found = _power(polynomial(node.ins[0], atoms, seen), int(exponent)) if small and exponent else None
        case _:
            return None
    seen.add(node)
    return found if found is not None and len(found) <= _MOST_TERMS else None


def equals(found: Polynomial | None, wanted: Mapping[Term, float], dtype: str) -> bool:
    """Whether two polynomials have the same terms, with coefficients that are the same numbers in the dtype."""
    if found is None or len(found) != len(wanted):
        return False
    return all(
        term in found and close(found[term], coefficient, dtype)
        for term, coefficient in ((_ordered(term), c) for term, c in wanted.items())
    )


def _ordered(term: Term) -> Term:
    return tuple(sorted(term, key=id))


def _sum(left: Polynomial, right: Polynomial, sign: int) -> Polynomial:
    result = dict(left)
    for term, coefficient in right.items():
        result[term] = result.get(term, 0.0) + sign * coefficient
    return {term: coefficient for term, coefficient in result.items() if coefficient}


def _product(left: Polynomial, right: Polynomial) -> Polynomial | None:
    result: Polynomial = {}
    for one, a in left.items():
        for other, b in right.items():
            term = _ordered(one + other)
            if len(term) > _MOST_FACTORS:
                return None
            result[term] = result.get(term, 0.0) + a * b
    return result


def _scaled(found: Polynomial | None, by: float) -> Polynomial | None:
    return None if found is None else {term: coefficient * by for term, coefficient in found.items()}


def _power(found: Polynomial | None, exponent: int) -> Polynomial | None:
    result = found
    for _ in range(exponent - 1):
        if result is None or found is None:
            return None
        result = _product(result, found)
    return result
