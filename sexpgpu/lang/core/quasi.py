"""What expanded backquotes call."""

from __future__ import annotations

from typing import Any, Final

from sexpgpu.diag import Culprit, error
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.forms import NIL, Cons, Symbol, lisp_list

CONS: Final = Symbol("cons")
APPEND: Final = Symbol("append")
TO_VECTOR: Final = Symbol("to-vector")
LISTED: Final = Symbol("listed")
"""Uninterned, so that no file can redefine what a backquote calls."""

quasi = Library("backquote", names={"cons": CONS, "append": APPEND, "to-vector": TO_VECTOR, "listed": LISTED})


@quasi.builtin("cons", "(car cdr)")
def cons(car: Any, cdr: Any) -> Any:
    return Cons(car, cdr)


@quasi.builtin("append", "(list rest)")
def append(items: Any, rest: Any) -> Any:
    if items is NIL:
        return rest
    if rest is NIL:
        return items  # the last splice may give a dotted tail
    return lisp_list(list(items), rest)


@quasi.builtin("to-vector", "(list)")
def to_vector(items: Any) -> Any:
    return list(items) if isinstance(items, Cons) else []


@quasi.builtin("listed", "(value)")
def listed(value: Any) -> Any:
    """What `,@` splices before other elements has to be a list."""
    if value is not NIL and not isinstance(value, Cons):
        raise error(
            "E-TYPE-001",
            f"`,@` needs a list to splice, got {show(value)}",
            help="`,` puts the value itself there",
            culprit=Culprit(instead=",", head=",@"),
        )
    return value
