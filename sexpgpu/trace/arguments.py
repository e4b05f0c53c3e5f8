"""Ordinary arguments of tensor functions: axes, sizes, shapes, dtypes, flags, names."""

from __future__ import annotations

from typing import Any, cast

from sexpgpu.diag import Culprit, error, nearest
from sexpgpu.lang.builtin import show
from sexpgpu.lang.forms import NIL, Cons, Symbol, lisp_list
from sexpgpu.tensortype import DTYPES, DType
from sexpgpu.trace.checks import Checks

ELSEWHERE = {
    "float32": "f32",
    "float64": "f64",
    "double": "f64",
    "bfloat16": "bf16",
    "int": "i32",
    "int32": "i32",
    "int64": "i64",
    "long": "i64",
    "uint8": "u8",
    "byte": "u8",
}
"""Names that dtypes have in other languages and libraries."""
PRECISIONS = ("f32", "bf16", "f64")
ORDERS = ("sequential", "shuffle", "random", "streams")
REDUCTIONS = ("mean", "sum", "max", "last")
SAMPLES = ("text", "image", "array")
CHOICES: dict[str, tuple[str, ...]] = {
    "precision": PRECISIONS,
    "order": ORDERS,
    "reduce": REDUCTIONS,
    "as": SAMPLES,
    "dtype": (*DTYPES, "float"),
}
"""The options whose value is one of a set of keywords."""


def integer(what: str, value: Any, role: str) -> int:
    """A Lisp integer (E-ARG-010 for anything else)."""
    if type(value) is int:
        return value
    raise error("E-ARG-010", f"`{what}`: {role} must be an integer", actual=show(value), culprit=behind(role))


def behind(role: str) -> Culprit | None:
    """What is written for an option, where the role of a value is that: `:seed`."""
    return Culprit(key=role, value=True) if role.startswith(":") else None


def positive(what: str, value: Any, role: str) -> int:
    """A Lisp integer from 1 on (E-VALUE-012 otherwise)."""
    number = integer(what, value, role)
    if number < 1:
        raise error("E-VALUE-012", f"`{what}`: {role} must be at least 1", actual=str(number), culprit=behind(role))
    return number


def real(what: str, value: Any, role: str) -> float:
    """A Lisp number as a float."""
    from fractions import Fraction

    if isinstance(value, int | float | Fraction):
        try:
            return float(value)
        except OverflowError:
            message = f"`{what}`: {role} is greater than any float"
            raise error("E-VALUE-012", message, actual=show(value), culprit=behind(role)) from None
    raise error("E-ARG-010", f"`{what}`: {role} must be a number", actual=show(value), culprit=behind(role))


def items(what: str, value: Any, role: str) -> list[Any]:
    """The elements of a Lisp list or vector."""
    if value is NIL:
        return []
    if isinstance(value, Cons):
        return list(value)
    if isinstance(value, list):
        return value
    raise error("E-ARG-010", f"`{what}`: {role} must be a list", actual=show(value), culprit=behind(role))


def integers(what: str, value: Any, role: str) -> tuple[int, ...]:
    """A list of integers, or one integer as a list of one."""
    if type(value) is int:
        return (value,)
    if value is not NIL and not isinstance(value, Cons | list):
        message = f"`{what}`: {role} must be an integer or a list of integers"
        raise error("E-ARG-010", message, actual=show(value), culprit=behind(role))
    return tuple(integer(what, item, f"each element of {role}") for item in items(what, value, role))


def shape(what: str, value: Any) -> tuple[int, ...]:
    """A shape: a list of sizes, or one size; E-SHAPE-005 for a negative one."""
    sizes = integers(what, value, "the shape")
    if any(size < 0 for size in sizes):
        raise error("E-SHAPE-005", f"`{what}`: a size cannot be negative", actual=show(value))
    return sizes


def axis(what: str, value: Any, rank: int) -> int:
    """An axis counted from the front, given from either end (E-SHAPE-002 when there is none such)."""
    number = integer(what, value, "the axis")
    if not -rank <= number < rank:
        raise error(
            "E-SHAPE-002",
            f"`{what}`: there is no axis {number} in a tensor of rank {rank}",
            expected=f"{-rank} to {rank - 1}" if rank else "no axis: the tensor is a scalar",
            actual=str(number),
        )
    return number % rank


def axes(what: str, value: Any, rank: int) -> tuple[int, ...]:
    """Axes for a reduction: nil means all, an integer one, a list several; each once."""
    if value is NIL:
        return tuple(range(rank))
    found = tuple(sorted(axis(what, a, rank) for a in integers(what, value, "the axis")))
    if len(set(found)) != len(found):
        raise error("E-SHAPE-003", f"`{what}`: an axis is named twice", actual=show(value))
    return found


def dtype(what: str, value: Any, float_type: DType) -> DType:
    """A dtype keyword; `:float` is the run's float type (E-DTYPE-003 for an unknown one)."""
    name = value.name if isinstance(value, Symbol) else value
    if name == "float":
        return float_type
    if name in DTYPES:
        return cast(DType, name)
    near = ELSEWHERE.get(str(name)) or nearest(str(name), [*DTYPES, "float"])
    raise error(
        "E-DTYPE-003",
        f"`{what}`: {show(value)} is no dtype",
        expected=" ".join(f":{d}" for d in (*DTYPES, "float")),
        help=f"it is called :{near} here" if near else None,
        culprit=_misspelt(value, near),
    )


def _misspelt(value: Any, near: str | None) -> Culprit:
    """A keyword, and the one that was meant."""
    return Culprit(word=show(value), instead=f":{near}" if near else None)


def flag(value: Any) -> bool:
    """A Lisp truth value."""
    return value is not NIL


def name(what: str, value: Any) -> str:
    """A name: a symbol, a keyword or a string."""
    if isinstance(value, Symbol) and value is not NIL:
        return value.name
    if isinstance(value, str):
        return value
    raise error("E-ARG-010", f"`{what}`: the name must be a symbol or a string", actual=show(value))


def choice(what: str, value: Any, role: str, choices: tuple[str, ...]) -> str:
    """One of a set of keywords (E-ARG-011 with the nearest for any other)."""
    given = value.name if isinstance(value, Symbol) else value
    if given in choices:
        return cast(str, given)
    near = nearest(str(given), choices)
    raise error(
        "E-ARG-011",
        f"`{what}`: {role} cannot be {show(value)}",
        expected=" ".join(f":{c}" for c in choices),
        help=f"did you mean :{near}?" if near else None,
        culprit=_misspelt(value, near),
    )


def options(what: str, plist: Any, known: tuple[str, ...], checks: Checks | None = None) -> dict[str, Any]:
    """A plist as a dictionary; E-ARG-002 and E-ARG-003 as for keyword arguments.

    With `checks`, an unknown keyword is one fault of several, and its value that of the keyword it is near to.
    """
    flat = items(what, plist, "the options")
    if len(flat) % 2:
        raise error("E-ARG-003", f"`{what}`: the options must come in pairs", actual=show(lisp_list(flat)))
    found: dict[str, Any] = {}
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        label = key.name if isinstance(key, Symbol) else show(key)
        if label not in known:
            near = nearest(label, known)
            fault = error(
                "E-ARG-002",
                f"`{what}` has no keyword :{label}; it has " + " ".join(f":{k}" for k in known),
                help=f"did you mean :{near}?" if near else None,
                culprit=_misspelt(key, near),
            )
            if checks is None:
                raise fault
            checks.fail(fault)
            label = near or label
        found.setdefault(label, value)
    return found
