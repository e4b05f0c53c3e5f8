"""Functions of functions and of several values."""

from __future__ import annotations

from typing import Any

from sexpgpu.diag import Culprit
from sexpgpu.lang.active import as_function
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import MV, NIL, Cons, T
from sexpgpu.lang.library.access import holds, items_of_list
from sexpgpu.lang.library.check import spend_on_new, wrong_form

library = Library("functions")


@library.builtin("funcall", "(function &rest arguments)", many=True)
def funcall(function: Any, *args: Any) -> Any:
    return as_function(function)(*args)


@library.builtin("apply", "(function argument &rest more)", many=True)
def apply(function: Any, *args: Any) -> Any:
    """Call with the arguments given, the last of which is a list of more."""
    last = args[-1]
    if not isinstance(last, Cons) and last is not NIL:
        at = Culprit(function="apply", argument=len(args) + 1)
        raise wrong_form("apply: the last argument", last, "a list", at)
    more = items_of_list("apply", len(args) + 1, last)
    spend_on_new(len(more))  # what it calls mostly makes something of them
    return as_function(function)(*args[:-1], *more)


@library.builtin("values-list", "(list)", many=True)
def values_list(a: Any) -> Any:
    items = items_of_list("values-list", 0, a)
    return items[0] if len(items) == 1 else MV(tuple(items))


@library.builtin("identity", "(object)")
def identity(a: Any) -> Any:
    return a


@library.builtin("constantly", "(value)")
def constantly(value: Any) -> Any:
    def constant(*args: Any) -> Any:
        return value

    return constant


@library.builtin("complement", "(function)")
def complement(function: Any) -> Any:
    call = as_function(function)

    def complemented(*args: Any) -> Any:
        return NIL if holds(call(*args)) else T

    return complemented
