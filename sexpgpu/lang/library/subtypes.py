"""`subtypep`: whether every value of one type is of another.

A type specifier becomes a formula over atoms: ranges of numbers, lists of members, cons types, array types, and
sets of families of values that no specifier divides. `a` is a subtype of `b` when no value is in `a` and not in
`b`; that is decided for each conjunction of the formula's disjunctive normal form, family by family.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

from attrs import frozen

from sexpgpu.lang.active import active
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.conditions import ConditionType
from sexpgpu.lang.forms import MV, NIL, Cons, Symbol, T, boolean, symbol
from sexpgpu.lang.library.access import items_of_list
from sexpgpu.lang.library.ranges import KINDS, Range, nothing_left, range_of
from sexpgpu.lang.library.typespec import ABSENT, ATOMIC, STAR, expanded_type, is_type, unknown_type
from sexpgpu.lang.structures import StructureType

library = Library("subtypes")

MOST_CONJUNCTIONS: Final = 4096
MOST_EXCLUDED_PAIRS: Final = 8

_SYMBOLS: Final = frozenset({"null", "t", "keyword", "symbol"})
_FAMILIES: Final[dict[str, frozenset[str]]] = {
    "symbol": _SYMBOLS,
    "keyword": frozenset({"keyword"}),
    "character": frozenset({"standard-char", "character", "extended-char"}),
    "base-char": frozenset({"standard-char", "character"}),
    "standard-char": frozenset({"standard-char"}),
    "function": frozenset({"function"}),
    "compiled-function": frozenset({"function"}),
    "hash-table": frozenset({"hash-table"}),
    "stream": frozenset({"stream"}),
    "structure-object": frozenset({"structure"}),
    "condition": frozenset({"condition"}),
    **{name: frozenset({name}) for name in ABSENT if "bit-vector" not in name},
}
# Types without values count as having some of their own, so that they are no subtypes of each other.
_UNDIVIDED: Final = ("keyword", "symbol", "standard-char", "character", "function", "hash-table", "stream", "other",
                     *(name for name in ABSENT if "bit-vector" not in name))  # fmt: skip
_STRINGS: Final = ("string", "simple-string", "base-string", "simple-base-string")
_VECTORS: Final = frozenset({"string", "vector", "complex-vector", "bits", "complex-bits"})
_SIMPLE: Final = frozenset({"string", "vector", "array", "bits"})
_BITS: Final = frozenset({"bits", "complex-bits"})
_ARRAYS: Final = _VECTORS | _SIMPLE | {"complex-array"}


@frozen(eq=False)
class Atom:
    """What a specifier says of single values: only one of the parts is set."""

    spec: Any
    families: frozenset[str] = frozenset()
    range: Range | None = None
    members: list[Any] | None = None
    pair: tuple[Any, Any] | None = None
    arrays: frozenset[str] = frozenset()
    dims: tuple[Any, ...] | None = None  # of the arrays; `*` for any
    named: ConditionType | StructureType | None = None
    unknown: bool = False


Formula = Any  # an Atom, True, False, or ("and" | "or", [Formula...]) or ("not", Formula)
Literal = tuple[Atom, bool]


@library.builtin("subtypep", "(type-1 type-2 &optional environment)", many=True)
def subtypep(first: Any, second: Any, environment: Any = NIL) -> Any:
    """Whether every value of the first type is of the second, and whether that could be decided."""
    found = is_subtype(first, second)
    return MV((boolean(bool(found)), boolean(found is not None)))


def is_subtype(first: Any, second: Any) -> bool | None:
    """Whether the first type's values are all of the second; None where that cannot be told."""
    return _is_empty(("and", [_formula(first), ("not", _formula(second))]))


def _is_empty(formula: Formula) -> bool | None:
    conjunctions = _normal(formula, True)
    if conjunctions is None:
        return None
    answers = [_no_value(conjunction) for conjunction in conjunctions]
    return False if False in answers else None if None in answers else True


def _normal(formula: Formula, positive: bool) -> list[list[Literal]] | None:
    """The disjunctive normal form of a formula or of its negation; None when it is too large."""
    if isinstance(formula, bool):
        return [[]] if formula is positive else []
    if isinstance(formula, Atom):
        return [[(formula, positive)]]
    word, parts = formula
    if word == "not":
        return _normal(parts, not positive)
    forms = [_normal(part, positive) for part in parts]
    known = [form for form in forms if form is not None]
    if len(known) < len(forms):
        return None
    if (word == "or") is positive:
        return [conjunction for form in known for conjunction in form]
    count = 1
    for form in known:
        count *= len(form)
    if count > MOST_CONJUNCTIONS:
        return None
    return [list(itertools.chain(*choice)) for choice in itertools.product(*known)]


# From specifiers to formulas.


def _formula(spec: Any) -> Formula:
    if isinstance(spec, Symbol):
        return _named(spec)
    if not isinstance(spec, Cons) or not isinstance(spec.car, Symbol):
        raise unknown_type(spec)
    word, arguments = spec.car.name, items_of_list("type specifier", 0, spec.cdr)
    if word in ("and", "or"):
        return (word, [_formula(part) for part in arguments])
    if word == "not" and len(arguments) == 1:
        return ("not", _formula(arguments[0]))
    if word in ("member", "eql"):
        is_type(NIL, spec)  # says what is wrong with a malformed one
        return Atom(spec, members=arguments)
    if word == "satisfies":
        return Atom(spec, unknown=True)
    if word == "cons":
        car, cdr = [*arguments, None, None][:2]
        return Atom(spec, pair=(_part(car), _part(cdr)))
    if word == "function":
        return Atom(symbol(word), _FAMILIES[word])
    numbers = range_of(word, arguments)
    if numbers is not None:
        is_type(0, spec)
        return Atom(spec, range=numbers)
    arrays = _array(spec, word, arguments)
    if arrays is not None:
        return arrays
    expanded = expanded_type(spec.car, tuple(arguments))
    if expanded is not None:
        return _formula(expanded)
    if word in ABSENT or (word in ATOMIC and not arguments):
        return _named(spec.car)
    raise unknown_type(spec)


def _part(spec: Any) -> Formula:
    return True if spec is None or (isinstance(spec, Symbol) and spec.name == STAR) else _formula(spec)


def _named(spec: Symbol) -> Formula:
    word = spec.name
    if word in ("t", "nil"):
        return word == "t"
    if word in ("null", "boolean"):
        return Atom(spec, members=[NIL, T] if word == "boolean" else [NIL])
    if word in ("list", "atom", "sequence"):
        pair = Atom(symbol("cons"), pair=(True, True))
        if word == "atom":
            return ("not", pair)
        found = [Atom(symbol("null"), members=[NIL]), pair]
        return ("or", [*found, Atom(symbol("vector"), arrays=_VECTORS)] if word == "sequence" else found)
    if word == "cons":
        return Atom(spec, pair=(True, True))
    if word in _FAMILIES:
        return Atom(spec, _FAMILIES[word])
    if word == "bignum":
        return ("and", [_named(symbol("integer")), ("not", _named(symbol("fixnum")))])
    if word == "number":
        return ("or", [_named(symbol("real")), _named(symbol("complex"))])
    numbers = range_of(word, [])
    if numbers is not None:
        return Atom(spec, range=numbers)
    arrays = _array(spec, word, [])
    if arrays is not None:
        return arrays
    expanded = expanded_type(spec, ())
    if expanded is not None:
        return _formula(expanded)
    session = active()
    condition, structure = session.condition_types.get(spec), session.types.get(spec)
    if condition is not None:
        return Atom(spec, named=condition)
    if isinstance(structure, StructureType):
        return Atom(spec, named=structure)
    if structure is None:
        raise unknown_type(spec)
    return Atom(spec, unknown=True)


def _array(spec: Any, word: str, arguments: list[Any]) -> Formula | None:
    """The atom of an array type; None for other words."""
    if word in _STRINGS or word == "simple-vector":
        families = frozenset({"vector" if word == "simple-vector" else "string"})
        return Atom(spec, arrays=families, dims=None if not arguments else (arguments[0],))
    if word in ("bit-vector", "simple-bit-vector"):
        families = _BITS if word == "bit-vector" else _BITS & _SIMPLE
        return Atom(spec, arrays=families, dims=None if not arguments else (arguments[0],))
    if word not in ("array", "simple-array", "vector"):
        return None
    families = {"array": _ARRAYS, "simple-array": _SIMPLE, "vector": _VECTORS}[word]
    element = arguments[0] if arguments else symbol(STAR)
    if not (isinstance(element, Symbol) and element.name == STAR):
        kind = element.name if isinstance(element, Symbol) else ""
        if kind in ("character", "base-char", "standard-char"):
            families = families & {"string"}
        else:
            families = families & _BITS if kind == "bit" else families - {"string"} - _BITS
    if len(arguments) < 2 or (isinstance(arguments[1], Symbol) and arguments[1].name == STAR):
        return Atom(spec, arrays=families)
    if word == "vector":
        dims: tuple[Any, ...] = (arguments[1],)
    elif type(arguments[1]) is int:
        dims = (symbol(STAR),) * arguments[1]
    else:
        dims = tuple(items_of_list("array type", 0, arguments[1]))
    return Atom(spec, arrays=families, dims=dims)


# Whether a conjunction has a value.


def _no_value(literals: list[Literal]) -> bool | None:
    known = [(atom, positive) for atom, positive in literals if not atom.unknown]
    empty = _without_value(known)
    return None if empty is False and len(known) < len(literals) else empty


def _without_value(literals: list[Literal]) -> bool | None:
    wanted = [atom for atom, positive in literals if positive]
    excluded = [atom for atom, positive in literals if not positive]
    listed = next((atom.members for atom in wanted if atom.members is not None), None)
    if listed is not None:
        return not any(all(is_type(value, atom.spec) is positive for atom, positive in literals) for value in listed)
    if not _without_value([*literals, (Atom(symbol("boolean"), members=[NIL, T]), True)]):
        return False
    if any(_has(family, wanted, excluded) for family in _UNDIVIDED):
        return False
    if all(atom.range for atom in wanted):
        ranges = [atom.range for atom in wanted if atom.range]
        out = [atom.range for atom in excluded if atom.range]
        points = [value for atom in excluded for value in atom.members or ()]
        if not all(nothing_left(kind, ranges, out, points) for kind in KINDS):
            return False
    if not _no_array(wanted, excluded) or not _no_instance(wanted, excluded):
        return False
    return _no_pair(wanted, excluded)


def _has(family: str, wanted: list[Atom], excluded: list[Atom]) -> bool:
    return all(family in atom.families for atom in wanted) and not any(family in atom.families for atom in excluded)


def _no_pair(wanted: list[Atom], excluded: list[Atom]) -> bool | None:
    """No cons: every way to divide the excluded types leaves no car outside some or no cdr outside the others."""
    if not all(atom.pair for atom in wanted):
        return True
    pairs = [atom.pair for atom in wanted if atom.pair]
    out = [atom.pair for atom in excluded if atom.pair]
    if len(out) > MOST_EXCLUDED_PAIRS:
        return None
    cars, cdrs = [car for car, _ in pairs], [cdr for _, cdr in pairs]
    unsure = False
    for chosen in itertools.product((True, False), repeat=len(out)):
        left = [("not", car) for (car, _), here in zip(out, chosen, strict=True) if here]
        right = [("not", cdr) for (_, cdr), here in zip(out, chosen, strict=True) if not here]
        answers = (_is_empty(("and", [*cars, *left])), _is_empty(("and", [*cdrs, *right])))
        if True not in answers:
            if None not in answers:
                return False
            unsure = True
    return None if unsure else True


def _no_array(wanted: list[Atom], excluded: list[Atom]) -> bool:
    for family in _ARRAYS:
        if not all(family in atom.arrays for atom in wanted):
            continue
        dims: Any = (symbol(STAR),) if family in _VECTORS else None
        for atom in wanted:
            dims = dims if dims is False else _met(dims, atom.dims)
        vector = dims is not None and dims is not False and len(dims) == 1
        if dims is False or (vector and family not in _VECTORS):
            continue
        if not any(family in atom.arrays and _covers(atom.dims, dims) for atom in excluded):
            return False
    return True


def _met(first: Any, second: Any) -> Any:
    """The dimensions that are of both, None for any; False when there are none."""
    if first is None or second is None:
        return second if first is None else first
    if len(first) != len(second):
        return False
    found = []
    for a, b in zip(first, second, strict=True):
        if type(a) is int and type(b) is int and a != b:
            return False
        found.append(a if type(a) is int else b)
    return tuple(found)


def _covers(outer: tuple[Any, ...] | None, inner: tuple[Any, ...] | None) -> bool:
    if outer is None:
        return True
    if inner is None or len(inner) != len(outer):
        return False
    return all(type(a) is not int or a == b for a, b in zip(outer, inner, strict=True))


def _no_instance(wanted: list[Atom], excluded: list[Atom]) -> bool:
    """No condition or structure: the types wanted exclude each other, or an excluded one includes one of them."""
    for family, kind in (("condition", ConditionType), ("structure", StructureType)):
        names = [atom.named for atom in wanted if isinstance(atom.named, kind)]
        if not all(family in atom.families or isinstance(atom.named, kind) for atom in wanted):
            continue
        if family == "structure" and not all(_within(a, b) or _within(b, a) for a in names for b in names):
            continue
        out = [atom.named for atom in excluded if isinstance(atom.named, kind)]
        if any(family in atom.families for atom in excluded) or any(_within(a, b) for a in names for b in out):
            continue
        return False
    return True


def _within(inner: Any, outer: Any) -> bool:
    return bool(inner.is_a(outer.name) if isinstance(inner, ConditionType) else outer.includes(inner))
