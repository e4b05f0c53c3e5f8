"""Argument checks and their errors: each names the function, the argument's place, what it got and needs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from attrs import evolve

from sexpgpu.diag import Culprit, Diagnostic, SxError, error
from sexpgpu.lang.active import spend_steps
from sexpgpu.lang.conditions import TypeFault
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import NIL, Array, Char, Cons, HashTable, Symbol, symbol
from sexpgpu.lang.printer import brief
from sexpgpu.lang.tokens import BadToken, parse_number

REALS: Final = frozenset({int, float, Fraction})
RATIONALS: Final = frozenset({int, Fraction})

# Sizes are bounded before anything is computed, so that one form can neither hang nor exhaust a check.
MOST_BITS: Final = 1 << 18
LONG_BITS: Final = 4096
MOST_ELEMENTS: Final = 1_000_000
LONGEST_LIST: Final = 1_000_000
LONGEST_TEXT: Final = 10_000_000
FREE_WORK: Final = 8
SOME_WORK: Final = 7
DEEPEST_TREE: Final = 10_000

_ITSELF: Final = Culprit()
_KINDS: Final[dict[type, str]] = {
    int: "the integer",
    float: "the float",
    Fraction: "the ratio",
    str: "the string",
    Symbol: "the symbol",
    Char: "the character",
    list: "the vector",
    Array: "the array",
    HashTable: "the hash table",
}


def spend(work: int) -> None:
    """Count a builtin's work, about one element each, against the steps that evaluation may take."""
    if work > FREE_WORK:
        spend_steps(work)


def descend(depth: int) -> int:
    """Count a step down into a tree, which may share parts and so be larger than it is long; gives the new depth.

    E-LIMIT-002 where it is too deep to be anything but a circle.
    """
    if depth >= DEEPEST_TREE:
        raise error("E-LIMIT-002", "the value is nested too deeply to be walked", help="is it circular?")
    spend_steps(40)
    return depth + 1


def weigh(*values: Any) -> None:
    """Count arithmetic on long integers whose cost grows with the square of their length: division, powers, gcd."""
    bits = sum(value.bit_length() for value in values if type(value) is int)
    if bits > LONG_BITS:
        spend_steps((bits >> 9) ** 2 + 100)


def spend_on_new(elements: int) -> None:
    """Count a list or vector about to be made; making an element costs a few times what walking it does.

    Those of a very long one cost less: few such can be made.
    """
    if elements > FREE_WORK:
        spend_steps(2 * elements + 3 * min(elements, MOST_ELEMENTS // 10))


def describe(value: Any) -> str:
    """`the string "1"`, `the list (1 2)`, `nil`: what a message says an argument is."""
    if value is NIL:
        return "nil"
    if isinstance(value, Cons):
        return f"the list {brief(value)}"
    kind = "the keyword" if type(value) is Symbol and value.keyword else _KINDS.get(type(value))
    return f"{kind} {brief(value)}" if kind else brief(value)


# What `type-error-expected-type` gives for a noun; others are of no one type.
_TYPES: Final = {
    "a list": "list",
    "a proper list": "list",
    "a cons": "cons",
    "a number": "number",
    "a real number": "real",
    "a rational number": "rational",
    "a float": "float",
    "an integer": "integer",
    "an integer of at least 0": "unsigned-byte",
    "a string": "string",
    "a symbol": "symbol",
    "a character": "character",
    "a hash table": "hash-table",
    "a structure": "structure-object",
    "an array": "array",
    "a simple vector": "simple-vector",
    "a list, a vector or a string": "sequence",
}


def wrong_type(name: str, position: int, value: Any, needs: str) -> SxError:
    """The error of an argument of the wrong type; `needs` is a noun. Position 0: the only argument."""
    if position == 0:
        message, actual = f"{name} needs {needs}, got {brief(value)}", describe(value)
    else:
        message, actual = f"{name}: argument {position} is {describe(value)}, not {needs}", None
    if isinstance(value, Foreign):
        return _refused_by(value, message, needs, Culprit(function=name, argument=position or 1))
    expected = symbol(_TYPES.get(needs, "t"))
    help, instead, around = conversion(value, needs)
    culprit = Culprit(brief(value), name, position or 1, instead=instead, around=around, value=True)
    diagnostic = Diagnostic("E-TYPE-001", message, actual=actual, help=help, culprit=culprit)
    if needs == "a proper list":  # the list is one; what it ends in is not
        while isinstance(value, Cons):
            value = value.cdr
    return TypeFault(diagnostic, value, expected)


def wrong_form(name: str, value: Any, needs: str, at: Culprit = _ITSELF) -> SxError:
    """The error of a form that `name` contains, shown at that form, whose value is of the wrong type."""
    message = f"{name} needs {needs}, got {brief(value)}"
    if isinstance(value, Foreign):
        return _refused_by(value, message, needs, at)
    help, instead, around = conversion(value, needs)
    culprit = evolve(at, instead=instead, around=around, value=True)
    diagnostic = Diagnostic("E-TYPE-001", message, help=help, culprit=culprit)
    return TypeFault(diagnostic, value, symbol(_TYPES.get(needs, "t")))


def _refused_by(value: Foreign, message: str, needs: str, at: Culprit) -> SxError:
    fault = value.lisp_refused(message, needs)
    fault.diagnostic = evolve(fault.diagnostic, culprit=at)
    return fault


_CONVERSIONS: Final[dict[str, tuple[tuple[tuple[type, ...], str, str], ...]]] = {
    "list": (((list, Array, str), "(coerce ", " 'list)"), ((int, float, Fraction, Symbol, Char), "(list ", ")")),
    "sequence": (((int, float, Fraction, Symbol, Char), "(list ", ")"),),
    "string": (((Symbol, Char), "(string ", ")"), ((int, float, Fraction), '(format nil "~a" ', ")")),
    "string-designator": (((int, float, Fraction), '(format nil "~a" ', ")"),),
    "integer": (((float, Fraction), "(round ", ")"),),
}
"""By the type that is needed: of which types what call makes one of it."""


def conversion(value: Any, needs: str) -> tuple[str | None, str | None, tuple[str, str] | None]:
    """How `value` is made what is needed: in words, as a literal in its stead, as texts around it."""
    wanted = "string-designator" if needs.startswith("a string, a symbol") else _TYPES.get(needs, "")
    if wanted in ("number", "real", "rational", "integer") and isinstance(value, str):
        number = _number(value)
        fits = number is not None and (wanted in ("number", "real") or isinstance(number, int))
        return (f"write {value.strip()} without the quotes", value.strip(), None) if fits else (None, None, None)
    for kinds, before, after in _CONVERSIONS.get(wanted, ()):
        if type(value) in kinds and value is not NIL:
            return f"{before}...{after} makes it {needs}", None, (before, after)
    return None, None, None


def _number(text: str) -> Any:
    try:
        return parse_number(text.strip().lower())
    except BadToken:
        return None


def refused(name: str, args: tuple[Any, ...], needs: str = "a number") -> SxError:
    """The error naming the first of `args` that is no number."""
    for position, value in enumerate(args, 1):
        if type(value) not in REALS and not isinstance(value, Foreign):
            return wrong_type(name, position if len(args) > 1 else 0, value, needs)
    raise AssertionError(f"{name} refused numbers: {args}")


def generic(name: str, args: tuple[Any, ...]) -> Any:
    """What the first `Foreign` among `args` makes of the generic function `name`; without one, E-TYPE-001."""
    for value in args:
        if isinstance(value, Foreign):
            return value.lisp_generic(name, args)
    raise refused(name, args)


def integer(name: str, position: int, value: Any, needs: str = "an integer") -> int:
    if type(value) is not int:
        raise wrong_type(name, position, value, needs)
    if value.bit_length() > LONG_BITS:
        spend_steps(value.bit_length() >> 10)
    return value


def size(name: str, position: int, value: Any) -> int:
    """A count of elements: not negative, and at most `MOST_ELEMENTS` (E-LIMIT-003)."""
    if type(value) is not int or value < 0:
        raise wrong_type(name, position, value, "an integer of at least 0")
    if value > MOST_ELEMENTS:
        raise error("E-LIMIT-003", f"{name}: {value:,} elements are more than the {MOST_ELEMENTS:,} allowed")
    return value


def string(name: str, position: int, value: Any) -> str:
    if type(value) is not str:
        raise wrong_type(name, position, value, "a string")
    return value


def index_error(name: str, index: Any, what: str, length: int, position: int = 2) -> SxError:
    """The error of a subscript, the argument `position`, outside a sequence of `length`."""
    inside = f"0 to {length - 1}" if length else "it has no elements"
    message = f"{name}: index {brief(index)} is outside {what} of {length} ({inside})"
    last = str(length - 1) if length else None
    help = f"the last element has the index {last}" if length else None
    culprit = Culprit(function=name, argument=position, instead=last, value=True)
    return error("E-VALUE-003", message, help=help, culprit=culprit)


def bounds(name: str, length: int, start: Any, end: Any) -> tuple[int, int]:
    """`:start` and `:end` of a sequence as Python integers (E-VALUE-003 when they do not fit it)."""
    if end is NIL:
        end = length
    if type(start) is not int or type(end) is not int:
        bad = end if type(start) is int else start
        wrong = error("E-TYPE-001", f"{name}: {brief(bad)} is no position in a sequence, an integer of at least 0")
        raise TypeFault(wrong.diagnostic, bad, symbol("unsigned-byte"))
    if not 0 <= start <= end <= length:
        raise error("E-VALUE-003", f"{name}: {start} to {end} is no part of a sequence of {length} elements")
    spend(length >> 5)
    return start, end
