"""The functions that emitted code calls, and the exceptions that carry control across Python functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Final

from sexpgpu.diag import Diagnostic, SxError, error
from sexpgpu.lang.active import active, as_function
from sexpgpu.lang.builtin import keyword_arguments, python_name, show
from sexpgpu.lang.conditions import HANDLING_WORK, CallFault, Condition, Poisoned, handling_work
from sexpgpu.lang.core.handlers import is_condition
from sexpgpu.lang.core.signalling import (
    assertion_failed,
    check_type,
    define_condition,
    no_case,
    no_type,
    signal_fault,
)
from sexpgpu.lang.faults import condition_from, locate_condition
from sexpgpu.lang.foreign import Foreign, truth
from sexpgpu.lang.forms import MV, NIL, Cons, Symbol, T, all_values, lisp_list, one, symbol
from sexpgpu.lang.functions import FunctionInfo
from sexpgpu.lang.library.check import wrong_form
from sexpgpu.lang.library.equality import eql
from sexpgpu.lang.recovery import recoverable, spoilt

UNSET: Final = Symbol("unset")
MOST_GUARDS: Final = 2_000
"""Forms that watch how their body is left (handlers, catch, unwind-protect) may be nested this deep."""


class Token:
    """One activation of a block or tagbody that other functions may leave."""

    __slots__ = ("live",)

    def __init__(self) -> None:
        self.live = True


class Exit(BaseException):
    """On its way to the block or tagbody of `token`."""

    def __init__(self, token: Token, value: Any) -> None:
        super().__init__()
        self.token = token
        self.value = value


class Thrown(BaseException):
    """On its way to the `catch` whose entry is `catcher`."""

    def __init__(self, catcher: list[Any], value: Any) -> None:
        super().__init__()
        self.catcher = catcher
        self.value = value


def refuse(diagnostic: Diagnostic) -> Any:
    """Reach a form that analysis refused, which is reported already."""
    raise Poisoned(diagnostic)


def leave(token: Token, value: Any, name: str) -> None:
    """Leave the block of `token`; E-MACRO-004 when it is left already."""
    if not token.live:
        what = "the tagbody" if name == "tagbody" else f"the block `{name}`"
        raise error("E-MACRO-004", f"{what} that this leaves has ended already")
    raise Exit(token, value)


def retire(token: Token) -> None:
    """The activation has ended."""
    token.live = False


def enter_catch(tag: Any) -> list[Any]:
    """Note a `catch`; its entry, known by identity, holds the tag and how many were in force before it.

    `unwind-protect` does so too, under a tag that nothing throws to.
    """
    catchers = active().catchers
    if len(catchers) >= MOST_GUARDS:
        raise guarded_too_deep()
    entry = [tag, len(catchers)]
    catchers.append(entry)
    return entry


def guarded_too_deep() -> SxError:
    """E-LIMIT-002 of guards within guards."""
    active().spend(10 * HANDLING_WORK)  # it passes all of them
    what = "handlers, catch and unwind-protect forms"
    help = "the case that should end the recursion is not reached"
    return error("E-LIMIT-002", f"{what} are nested more than {MOST_GUARDS:,} deep", help=help)


def leave_catch(entry: list[Any]) -> None:
    """The `catch` of this entry has ended, and those inside it."""
    del active().catchers[entry[1] :]


def throw(tag: Any, value: Any) -> Any:
    """`(throw tag value)`; E-MACRO-004 without a catcher."""
    for entry in reversed(active().catchers):
        if eql(entry[0], tag):
            raise Thrown(entry, value)
    raise error("E-MACRO-004", f"nothing catches {show(tag)}")


def thrown(exit: Thrown, entry: list[Any]) -> Any:
    """The thrown value when this is its catch; else it flies on."""
    if exit.catcher is not entry:
        raise exit
    return exit.value


def take(value: Any, count: int) -> tuple[Any, ...]:
    """The first `count` values, nil for those that are missing."""
    if type(value) is not MV:
        return (value,) + (NIL,) * (count - 1)
    given = value.values
    missing = count - len(given)
    return given[:count] if missing <= 0 else given + (NIL,) * missing


def value_list(value: Any) -> Any:
    """`(multiple-value-list form)`."""
    return lisp_list(all_values(value))


def nth_value(index: Any, value: Any) -> Any:
    """`(nth-value n form)`."""
    if type(index) is not int or index < 0:
        raise error("E-TYPE-001", f"nth-value needs a non-negative integer, got {show(index)}")
    given = all_values(value)
    return given[index] if index < len(given) else NIL


def first_of(first: Any, *_: Any) -> Any:
    """The first of several values, all evaluated."""
    return first


def keys(info: FunctionInfo, given: tuple[Any, ...]) -> Any:
    """The values of a lambda's &key parameters in order, UNSET where absent."""
    parameters = info.parameters
    try:
        found = keyword_arguments(info.name, parameters, given)
    except SxError as wrong:
        raise CallFault(wrong.diagnostic) from None
    return tuple([found.get(python_name(key), UNSET) for key in parameters.keys or ()])


def elements(items: Any) -> Iterator[Any]:
    """What a `dolist` goes over: the elements of a proper list."""
    cell = items
    while isinstance(cell, Cons):
        yield cell.car
        cell = cell.cdr
    if cell is not NIL:
        raise wrong_form("dolist", items if isinstance(items, Cons) else cell, "a list")


def counts(count: Any) -> Any:
    """What a `dotimes` goes over."""
    if type(count) is not int:
        raise wrong_form("dotimes", count, "an integer")
    return range(count)


def count_reached(count: Any) -> Any:
    """The variable of a `dotimes` in its result form."""
    return count if type(count) is int and count > 0 else 0


def case_key(key: Any) -> Any:
    """The key of a `case`; a `Foreign` whose value is not known yet refuses, as it does as a test."""
    if isinstance(key, Foreign):
        key.lisp_test()
    return key


# Definitions.


def define_function(module: Any, key: Symbol, name: Any, function: Any, place: Any) -> Any:
    active().define_function(module, key, function, place)
    return name


def define_variable(module: Any, name: Symbol, kind: str, place: Any, value: Any) -> Any:
    active().define_variable(module, name, kind, value, place)
    return name


def document(name: Symbol, text: str) -> Any:
    """Note what a definition of a variable says of it."""
    active().documents[name, symbol("variable")] = text
    return name


def declare_variable(module: Any, name: Symbol, kind: str, place: Any) -> Any:
    active().declare_variable(module, name, kind, place)
    return name


def variable_bound(module: Any, name: Symbol) -> Any:
    variable = module.variable(name)
    return T if variable is not None and variable.ref else NIL


@contextmanager
def progv(names: Any, values: Any) -> Iterator[None]:
    """Bind special variables named at run time."""
    session = active()
    old = []
    given = values
    for name in names if isinstance(names, Cons) else ():
        ref = session.special(name).ref
        old.append((ref, ref[:]))
        ref[:] = [given.car] if isinstance(given, Cons) else []
        given = given.cdr if isinstance(given, Cons) else NIL
    try:
        yield
    except Exception as fault:
        signal_fault(fault)
        raise
    finally:
        for ref, contents in reversed(old):
            ref[:] = contents


# Conditions.


def enter_handlers(specifiers: list[Any]) -> int:
    """Note a handler-case; gives how many handlers were in force before it."""
    handlers = active().handlers
    if len(handlers) >= MOST_GUARDS:
        raise guarded_too_deep()
    handlers.append(("case", specifiers))
    return len(handlers) - 1


def leave_handlers(before: int) -> None:
    """The handler-case no longer handles, nor does any inside it."""
    del active().handlers[before:]


def handler_for(fault: Exception, specifiers: list[Any]) -> tuple[Condition, int]:
    """The condition that `fault` is and the first clause that takes it; raises it again when none does."""
    condition = condition_from(fault)
    active().spend(handling_work(condition))
    for index, specifier in enumerate(specifiers):
        if is_condition(condition, specifier):
            locate_condition(condition, fault)
            return condition, index
    raise fault


@contextmanager
def handler_bind(specifiers: list[Any], *functions: Any) -> Iterator[None]:
    """Run handlers while a condition is signalled; for errors of builtins, before a binding or a cleanup is passed."""
    entry = list(zip(specifiers, functions, strict=True))
    handlers = active().handlers
    depth = len(handlers)
    if depth >= MOST_GUARDS:
        raise guarded_too_deep()
    handlers.append(("bind", entry))
    try:
        yield
    except Exception as fault:
        del handlers[depth + 1 :]
        signal_fault(fault)
        raise
    finally:
        del handlers[depth:]


_OPERATIONS: Final = (
    refuse, recoverable, spoilt,
    Token, leave, retire, enter_catch, leave_catch, throw, thrown, take, value_list, nth_value, first_of, keys,
    elements, counts, count_reached, case_key, define_function, define_variable, declare_variable, variable_bound,
    document, progv, enter_handlers, leave_handlers, handler_for, handler_bind, signal_fault,
    assertion_failed, check_type, define_condition,
    no_case, no_type, as_function, truth, one, all_values, lisp_list,
)  # fmt: skip

NAMES: Final[dict[str, Any]] = {
    "NIL": NIL,
    "T": T,
    "MV": MV,
    "UNSET": UNSET,
    "function": FunctionType,
    "rt.Exit": Exit,
    "rt.Thrown": Thrown,
    **{f"rt.{operation.__name__}": operation for operation in _OPERATIONS},
}
"""What compiled code finds in every namespace."""
