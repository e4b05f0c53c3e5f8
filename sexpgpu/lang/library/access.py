"""Sequences as Python sees them: lists, vectors, strings and 1-D arrays as Python lists, and back.

Also what every searching function shares: `:key`, `:test`, `:test-not` and the ranges of `:start` and `:end`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sexpgpu.diag import SxError, error
from sexpgpu.lang.active import as_function
from sexpgpu.lang.conditions import TypeFault
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import MV, NIL, Array, Char, Cons, character, lisp_list, one, symbol
from sexpgpu.lang.library.check import FREE_WORK, LONGEST_LIST, RATIONALS, describe, spend, spend_on_new, wrong_type
from sexpgpu.lang.library.equality import eql, lisp_eql
from sexpgpu.lang.printer import brief

Test = Callable[[Any], bool]


def items_of_list(name: str, position: int, value: Any) -> list[Any]:
    """The elements of a proper list (E-TYPE-001 for anything else, E-LIMIT-003 for an endless one)."""
    items: list[Any] = []
    append = items.append
    cell = value
    for _ in range(LONGEST_LIST):
        if isinstance(cell, Cons):
            append(cell.car)
            cell = cell.cdr
        elif cell is NIL:
            if len(items) > FREE_WORK:
                spend(2 * len(items))
            return items
        elif cell is value:
            raise wrong_type(name, position, value, "a list")
        else:
            wrong = error(
                "E-TYPE-001",
                f"{name} needs a proper list; {brief(value)} ends in {brief(cell)} instead of nil",
            )
            raise TypeFault(wrong.diagnostic, cell, symbol("list"))
    raise endless(name)


def endless(name: str) -> SxError:
    """The error of a list longer than allowed, which usually is a circular one."""
    spend(LONGEST_LIST)
    return error(
        "E-LIMIT-003",
        f"{name}: the list has more than {LONGEST_LIST:,} elements",
        help="is the list circular?",
    )


def items_of(name: str, position: int, value: Any) -> list[Any]:
    """The elements of a sequence; for a simple vector the very Python list that holds them."""
    if isinstance(value, Cons) or value is NIL:
        return items_of_list(name, position, value)
    if type(value) is list:
        spend(len(value) >> 2)
        return value
    if type(value) is str:
        spend(4 * len(value))
        return [character(c) for c in value]
    if isinstance(value, Array) and len(value.dims) == 1:
        return value.items if value.fill is None else value.items[: value.fill]
    raise wrong_type(name, position, value, "a list, a vector or a string")


def same_kind(sequence: Any, items: list[Any], name: str) -> Any:
    """A fresh sequence of `items` of the kind of `sequence`."""
    spend_on_new(len(items))
    if isinstance(sequence, Cons) or sequence is NIL:
        return lisp_list(items)
    if type(sequence) is str:
        return join(name, items)
    return list(items)


def join(name: str, items: list[Any]) -> str:
    """A string of characters (E-TYPE-001 when an element is none)."""
    try:
        return "".join([chr(item.code) for item in items])
    except AttributeError:
        bad = next(item for item in items if type(item) is not Char)
        wrong = error("E-TYPE-001", f"{name}: a string holds characters, not {describe(bad)}")
        raise TypeFault(wrong.diagnostic, bad, symbol("character")) from None


def key_of(key: Any) -> Callable[[Any], Any] | None:
    """The function that `:key` names, None for the identity; more values than one are cut to the first."""
    if key is NIL:
        return None
    function = as_function(key)

    def single(item: Any) -> Any:
        value = function(item)
        return one(value) if type(value) is MV else value

    return single


def keyed(items: list[Any], key: Any) -> list[Any]:
    """The images of `items` under `:key`."""
    function = key_of(key)
    if function is None:
        return items
    spend(8 * len(items))
    return [function(item) for item in items]


def holds(value: Any) -> bool:
    """Whether a test's answer means true."""
    if value is NIL:
        return False
    if type(value) is MV:
        return holds(one(value))
    return value.lisp_test() if isinstance(value, Foreign) else True


def pair_test(test: Any, test_not: Any) -> Callable[[Any, Any], bool]:
    """`:test` and `:test-not` as a Python predicate of two elements; `eql` without them."""
    if test_not is not NIL:
        refuse = as_function(test_not)
        return lambda a, b: not holds(refuse(a, b))
    if test is NIL:
        return eql
    function = as_function(test)
    if function is lisp_eql:
        return eql
    return lambda a, b: holds(function(a, b))


def item_test(item: Any, test: Any, test_not: Any) -> Test:
    """Whether an element matches `item`, which is the test's first argument."""
    kind = type(item)
    if test is NIL and test_not is NIL and kind is not str and kind is not float:
        if kind in RATIONALS:
            return lambda other: type(other) is kind and bool(other == item)
        return lambda other: other is item
    matches = pair_test(test, test_not)
    return lambda other: matches(item, other)


def predicate(function: Any, negated: bool = False) -> Test:
    """A Lisp predicate as a Python one."""
    call = as_function(function)
    if negated:
        return lambda item: not holds(call(item))
    return lambda item: holds(call(item))
