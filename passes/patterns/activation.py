"""sigmoid, softplus, SiLU and GELU from the exponentials, tanh and erf that they are written with.

    1 / (1 + exp(-x)), exp(x) / (1 + exp(x)), (1 + tanh(x / 2)) / 2                    sigmoid
    log(1 + exp(x)), max(x, 0) + log(1 + exp(-|x|))                                    softplus
    x sigmoid(x), x / (1 + exp(-x))                                                    silu
    x (1 + erf(x / sqrt 2)) / 2 in any order                                           gelu
    x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, x sigmoid(2 sqrt(2 / pi) ...)   gelu, approximated

What is only sums and products is compared as a polynomial. A factor or a cubic that is off is another function and
stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from sexpgpu.dialects.composite import ROOT_HALF, A, C
from sexpgpu.passes.patterns.matching import Match, Node, View, close, composite, is_number, number, operands_of
from sexpgpu.passes.patterns.polynomial import equals, polynomial

_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "neg"})
_REACH = 6


def matches(view: View) -> Iterator[Match]:
    for exp in view.each("exp"):
        yield from _quotients(exp)
    for log in view.each("log1p", "log"):
        yield from _softplus(log)
    for erf in view.each("erf"):
        yield from _gelu_erf(erf)
    for tanh in view.each("tanh"):
        yield from _of_tanh(tanh)
    for sigmoid in view.each("sigmoid"):
        yield from _of_sigmoid(sigmoid)


def _quotients(exp: Node) -> Iterator[Match]:
    """What divides by 1 + e^z: a sigmoid, or a SiLU at once."""
    for total in exp.users:
        if not any(one is exp and is_number(other, 1.0) for one, other in operands_of(total, "add")):
            continue
        seen = {exp, total}
        x = _negated(exp.ins[0], seen)
        for user in total.users:
            if user.op is None:
                continue
            if user.name == "reciprocal" and x is not None:
                yield composite("sigmoid", user, seen, x, form="reciprocal of 1 + exp(-x)")
            elif user.name == "div" and user.ins[1] is total:
                above = user.ins[0]
                if above is exp:
                    yield composite("sigmoid", user, {exp, total}, exp.ins[0], form="exp(x) over 1 + exp(x)")
                elif x is not None and above is x:
                    yield composite("silu", user, seen, x, form="x over 1 + exp(-x)")
                elif x is not None and is_number(above, 1.0):
                    yield composite("sigmoid", user, seen, x, form="1 over 1 + exp(-x)")


def _negated(node: Node, seen: set[Node]) -> Node | None:
    """x of -x."""
    if node.name == "neg":
        seen.add(node)
        return node.ins[0]
    for one, other in operands_of(node, "mul"):
        if is_number(other, -1.0):
            seen.add(node)
            return one
    return None


def _softplus(log: Node) -> Iterator[Match]:
    seen = {log}
    exp = log.ins[0]
    if log.name == "log":
        parts = [one for one, other in operands_of(exp, "add") if is_number(other, 1.0)]
        if not parts:
            return
        seen.add(exp)
        exp = parts[0]
    if exp.name != "exp":
        return
    seen.add(exp)
    between: set[Node] = set()
    size = _negated(exp.ins[0], between)
    if size is None or size.name != "abs":
        yield composite("softplus", log, seen, exp.ins[0], form="log of 1 + exp(x)")
        return
    seen |= between
    x = size.ins[0]
    for user in log.users:
        for one, other in operands_of(user, "add"):
            if one is log and _positive_part(other, x):
                yield composite("softplus", user, {*seen, size, other}, x, form="max(x, 0) + log(1 + exp(-|x|))")


def _positive_part(node: Node, x: Node) -> bool:
    if node.name == "relu":
        return node.ins[0] is x
    return any(one is x and is_number(other, 0.0) for one, other in operands_of(node, "maximum"))


def _gelu_erf(erf: Node) -> Iterator[Match]:
    for x, factor, seen in _scalings(erf.ins[0]):
        if close(factor, ROOT_HALF, erf.type.dtype):
            yield from _gated("gelu", erf, x, seen, 0.5, approximate="none")
            return


def _of_tanh(tanh: Node) -> Iterator[Match]:
    dtype = tanh.type.dtype
    for x in _candidates(tanh.ins[0]):
        seen: set[Node] = set()
        if equals(polynomial(tanh.ins[0], {x}, seen), {(x,): C, (x, x, x): A * C}, dtype):
            yield from _gated("gelu", tanh, x, seen, 0.5, approximate="tanh")
            return
    for x, factor, seen in _scalings(tanh.ins[0]):
        if factor == 0.5:
            for root in _above(tanh):
                inside = {tanh, *seen}
                if equals(polynomial(root, {tanh}, inside), {(): 0.5, (tanh,): 0.5}, dtype):
                    yield composite("sigmoid", root, inside, x, form="half of 1 + tanh(x / 2)")
                    return


def _of_sigmoid(sigmoid: Node) -> Iterator[Match]:
    x = sigmoid.ins[0]
    for user in sigmoid.users:
        if any(one is x for one, _ in operands_of(user, "mul")):
            yield composite("silu", user, {sigmoid}, x, form="x times sigmoid(x)")
            return
    for inner in _candidates(x):
        seen: set[Node] = {sigmoid}
        if equals(polynomial(x, {inner}, seen), {(inner,): 2 * C, (inner, inner, inner): 2 * A * C}, x.type.dtype):
            for user in sigmoid.users:
                if any(one is inner for one, _ in operands_of(user, "mul")):
                    yield composite("gelu", user, seen, inner, form="x times a sigmoid", approximate="tanh")
                    return


def _gated(op: str, gate: Node, x: Node, inside: set[Node], half: float, **attrs: str) -> Iterator[Match]:
    """x (1 + gate) / 2, written as it may be; `gate` is computed from x by what lies `inside`."""
    for root in _above(gate):
        seen = {gate, *inside}
        if equals(polynomial(root, {x, gate}, seen), {(x,): half, (x, gate): half}, x.type.dtype):
            yield composite(op, root, seen, x, form=_written(root, gate), **attrs)
            return


def _written(root: Node, gate: Node) -> str:
    return f"x times half of 1 + {gate.name}" if root.name in ("mul", "div") else f"half of x, and of x {gate.name}"


def _above(node: Node) -> list[Node]:
    """What sums and products with the node give, nearest first, a few steps up."""
    found: list[Node] = []
    level = [node]
    for _ in range(_REACH):
        level = [user for below in level for user in dict.fromkeys(below.users) if user.name in _ARITHMETIC]
        found += level
    return found


def _scalings(node: Node) -> Iterator[tuple[Node, float, set[Node]]]:
    """Every (x, factor) such that the node is x times factor, with what lies between; the node itself first."""
    factor, seen = 1.0, set[Node]()
    while True:
        yield node, factor, set(seen)
        seen.add(node)
        by = None if node.name != "div" else number(node.ins[1])
        if by:
            factor, node = factor / by, node.ins[0]
            continue
        scaled = [(one, number(other)) for one, other in operands_of(node, "mul")]
        pairs = [(one, value) for one, value in scaled if value is not None]
        if not pairs:
            return
        node, value = pairs[0]
        factor *= value


def _candidates(node: Node) -> list[Node]:
    """Nodes that a polynomial may be in: those behind a few sums, products and powers."""
    found: dict[Node, None] = {}
    level = [node]
    for _ in range(_REACH):
        below = [v for n in level if n.name in _ARITHMETIC or n.name in ("square", "pow") for v in n.ins]
        level = [v for v in dict.fromkeys(below) if number(v) is None]
        found.update(dict.fromkeys(level))
    return list(found)
