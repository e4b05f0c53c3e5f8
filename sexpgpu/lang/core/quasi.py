"""What expanded backquotes call."""

from __future__ import annotations

from typing import Any, Final

from sexpgpu.diag import Culprit, error
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.forms import NIL, Cons, SourceCons, Symbol, lisp_list

CONS: Final = Symbol("cons")
APPEND: Final = Symbol("append")
TO_VECTOR: Final = Symbol("to-vector")
LISTED: Final = Symbol("listed")
WRITTEN: Final = Symbol("written")
"""Uninterned, so that no file can redefine what a backquote calls."""

_NAMES: Final = {"cons": CONS, "append": APPEND, "to-vector": TO_VECTOR, "listed": LISTED, "written": WRITTEN}

quasi = Library("backquote", names=_NAMES)


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


@quasi.builtin("written", "(template car cdr)")
def written(template: SourceCons, car: Any, cdr: Any) -> Any:
    """The first cons of a list, at the place of the template that it is made from."""
    place = (template.source, template.start, template.end, template.car_start, template.car_end)
    return SourceCons(car, cdr, *place)


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
