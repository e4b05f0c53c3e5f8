"""error, signal, warn, and conditions as objects."""

from __future__ import annotations

from typing import Any

from sexpgpu.diag import Culprit, SxError, error, nearest, warning
from sexpgpu.lang.active import active, as_function
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.conditions import Condition, ConditionType, Signalled, TypeFault, handling_work, initialised
from sexpgpu.lang.core.handlers import is_condition, no_condition_type
from sexpgpu.lang.faults import condition_from, current_span, locate_condition
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import NIL, Cons, Symbol, lisp_list, symbol
from sexpgpu.lang.library.typespec import is_type
from sexpgpu.lang.printer import print_text
from sexpgpu.lang.streams import TextOutput

library = Library("conditions")


def condition_object(datum: Any, arguments: tuple[Any, ...], default: str) -> Condition:
    """The condition that the arguments of error, signal or warn designate."""
    session = active()
    if isinstance(datum, Condition):
        return datum
    if isinstance(datum, str) or (callable(datum) and not isinstance(datum, Foreign)):
        slots = {"format-control": datum, "format-arguments": lisp_list(list(arguments))}
        return Condition(session.condition_types[symbol(default)], slots)
    if isinstance(datum, Symbol):
        found = session.condition_types.get(datum)
        if found is None:
            raise no_condition_type(datum)
        return initialised(found, arguments)
    raise error("E-TYPE-001", f"{show(datum)} is not a condition, a condition type or a format string")


def report_text(condition: Condition) -> str:
    """What a condition says: its report, its format string, or the message of the error it was."""
    reporter = condition.type.reporter()
    if isinstance(reporter, str):
        return reporter
    if reporter is not None:
        stream = TextOutput()
        as_function(reporter)(condition, stream)
        return stream.text()
    if condition.diagnostic is not None:
        return condition.diagnostic.message
    control = condition.slots.get("format-control")
    if isinstance(control, str) or callable(control):
        given = condition.slots.get("format-arguments", NIL)
        return _formatted(control, *(given if isinstance(given, Cons) else ()))
    slots = ", ".join(f"{name} {show(value)}" for name, value in condition.slots.items())
    return f"{condition.type.name}{': ' if slots else ''}{slots}"


def _formatted(control: Any, *args: Any) -> str:
    """`(format nil control ...)`."""
    text: str = active().function_named(symbol("format"))(NIL, control, *args)
    return text


def _run_handlers(condition: Condition) -> None:
    """Call the handler-bind handlers, innermost first; a handler-case that takes it ends the signalling."""
    if _is_taken(condition):
        raise _fault(condition)


def signal_fault(fault: Exception) -> None:
    """Let the handlers see an error of a builtin before what it passes through is undone.

    A handler sees an error once; where a handler-case takes it, those outside see nothing.
    """
    session = active()
    if not session.handlers or isinstance(fault, RecursionError) or not session.steps_left:
        return
    condition = condition_from(fault)
    session.use_up(len(session.handlers) + len(condition.seen_by))
    seen = {id(entry) for entry in condition.seen_by}
    if all(kind == "case" or id(entry) in seen for kind, entry in active().handlers):
        return
    active().spend(handling_work(condition))
    locate_condition(condition, fault)
    _is_taken(condition, once=True)


def _is_taken(condition: Condition, once: bool = False) -> bool:
    """Call the handler-bind handlers in force, innermost first, up to a handler-case that takes the condition."""
    handlers = active().handlers
    seen = {id(entry) for entry in condition.seen_by} if once else set()
    for index in range(len(handlers) - 1, -1, -1):
        kind, entry = handlers[index]
        if kind == "case":
            if any(is_condition(condition, specifier) for specifier in entry):
                return True
            continue
        if id(entry) in seen:
            continue
        condition.seen_by.append(entry)
        for specifier, function in entry:
            if is_condition(condition, specifier):
                rest, handlers[index:] = handlers[index:], []
                try:
                    as_function(function)(condition)
                except Exception as inner:
                    raise _beyond(inner, rest) from inner
                finally:
                    handlers[index:] = rest
    return False


def _beyond(inner: Exception, disabled: list[tuple[str, list[Any]]]) -> Signalled:
    """An error in a handler: the handlers that were out of force while it ran do not see it."""
    condition = condition_from(inner)
    condition.seen_by.extend(entry for _, entry in disabled)
    return inner if isinstance(inner, Signalled) else _fault(condition)


def _fault(condition: Condition) -> Signalled:
    diagnostic = condition.diagnostic or error("E-VALUE-005", report_text(condition)).diagnostic
    return Signalled(condition, diagnostic)


@library.builtin("error", "(datum &rest arguments)")
def error_(datum: Any, *arguments: Any) -> Any:
    condition = condition_object(datum, arguments, "simple-error")
    _run_handlers(condition)
    raise _fault(condition)


@library.builtin("cerror", "(continue datum &rest arguments)")
def cerror(continue_: Any, datum: Any, *arguments: Any) -> Any:
    """As `error`: there are no restarts to continue by."""
    return error_(datum, *arguments)


@library.builtin("signal", "(datum &rest arguments)")
def signal(datum: Any, *arguments: Any) -> Any:
    _run_handlers(condition_object(datum, arguments, "simple-condition"))
    return NIL


@library.builtin("warn", "(datum &rest arguments)")
def warn(datum: Any, *arguments: Any) -> Any:
    condition = condition_object(datum, arguments, "simple-warning")
    if not condition.type.is_a("warning") or (isinstance(datum, Condition) and arguments):
        wrong = error("E-TYPE-001", f"warn needs a warning, or a format string and arguments, got {show(datum)}")
        raise TypeFault(wrong.diagnostic, datum, lisp_list([symbol("and"), symbol("warning"), NIL]))
    _run_handlers(condition)
    active().warn(warning("W-USER-001", report_text(condition), current_span()))
    return NIL


@library.builtin("make-condition", "(type &rest arguments)")
def make_condition(type_: Any, *arguments: Any) -> Any:
    return condition_object(type_, arguments, "simple-condition")


def _accessor(name: str, slot: str) -> None:
    @library.builtin(name, "(condition)")
    def read(condition: Any) -> Any:
        if not isinstance(condition, Condition):
            raise error("E-TYPE-001", f"{name} needs a condition, got {show(condition)}")
        if slot == "format-control" and slot not in condition.slots and condition.diagnostic is not None:
            return condition.diagnostic.message.replace("~", "~~")
        return condition.slots.get(slot, NIL)


_accessor("simple-condition-format-control", "format-control")
_accessor("simple-condition-format-arguments", "format-arguments")
_accessor("type-error-datum", "datum")
_accessor("type-error-expected-type", "expected-type")
_accessor("cell-error-name", "name")
_accessor("arithmetic-error-operation", "operation")
_accessor("arithmetic-error-operands", "operands")


def assertion_failed(text: str, datum: Any = None, *arguments: Any) -> Any:
    """`(assert test (place...) datum argument...)` whose test was false."""
    if datum is None:
        return error_("the assertion ~a does not hold", text)
    return error_(datum, *arguments)


def check_type(value: Any, type_: Any, name: str, text: Any) -> Any:
    """`(check-type place type text)`."""
    if is_type(value, type_):
        return NIL
    wanted = text if isinstance(text, str) else f"of type {print_text(type_)}"
    fault = error("E-TYPE-001", f"the value of {name} is {show(value)}, which is not {wanted}")
    return _type_error(value, type_, fault)


def define_condition(
    module: Any, name: Symbol, parents: list[Symbol], slots: list[Any], report: Any, given: list[str], *thunks: Any
) -> Any:
    """The run-time part of define-condition: the type and its readers."""
    session = active()
    types = []
    for parent in parents or [symbol("condition")]:
        found = session.condition_types.get(parent)
        if found is None:
            raise no_condition_type(parent)
        types.append(found)
    made = tuple(
        (slot.name, tuple(key.name for key in keys) or (slot.name,), default if has_default else None)
        for (slot, keys, _, has_default), default in zip(slots, thunks[: len(slots)], strict=True)
    )
    arguments = dict(zip(given, thunks[len(slots) :], strict=True))
    reporter = None if report is NIL else report
    module.types[name] = None
    session.condition_types[name] = ConditionType(name.name, tuple(types), made, reporter, arguments)
    for slot, _, readers, _ in slots:
        for reader in readers:
            session.define_function(module, reader, _reader(reader.name, slot.name), None)
            module.functions[reader].span = current_span()
    return name


def _reader(name: str, slot: str) -> Any:
    def read(condition: Any) -> Any:
        if not isinstance(condition, Condition) or slot not in condition.slots:
            raise error("E-TYPE-001", f"`{name}` needs a condition with a slot {slot}, got {show(condition)}")
        return condition.slots[slot]

    return read


def no_case(value: Any, keys: list[Any]) -> Any:
    """An `ecase` that nothing matched."""
    accepted = ", ".join(show(key) for key in keys)
    near = None
    if isinstance(value, Symbol):
        near = nearest(
            value.name, [key.name for key in keys if isinstance(key, Symbol) and key.keyword == value.keyword]
        )
    meant = f"{':' if value.keyword else ''}{near}" if near else None
    fault = error(
        "E-VALUE-004",
        f"no case of this ecase is {show(value)}",
        expected=f"one of {accepted}",
        help=f"did you mean {meant}?" if meant else None,
        culprit=Culprit(word=show(value), function="ecase", argument=1, instead=meant, value=True),
    )
    return _type_error(value, Cons(symbol("member"), lisp_list(keys)), fault)


def no_type(value: Any, types: list[Any]) -> Any:
    """An `etypecase` that nothing matched."""
    accepted = ", ".join(show(kind) for kind in types)
    fault = error("E-VALUE-004", f"no case of this etypecase takes {show(value)}", expected=f"one of {accepted}")
    return _type_error(value, Cons(symbol("or"), lisp_list(types)), fault)


def _type_error(value: Any, wanted: Any, fault: SxError) -> Any:
    slots = {"datum": value, "expected-type": wanted}
    condition = Condition(active().condition_types[symbol("type-error")], slots, fault.diagnostic)
    _run_handlers(condition)
    raise _fault(condition)
