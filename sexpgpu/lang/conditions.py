"""Condition objects and their types, and which condition an error code is to a handler."""

from __future__ import annotations

import re
from typing import Any

from sexpgpu.diag import Diagnostic, SxError
from sexpgpu.lang.forms import NIL, Symbol, symbol

_BUILT_IN = """
condition ()
warning (condition) style-warning (warning) serious-condition (condition) error (serious-condition)
simple-condition (condition) simple-warning (simple-condition warning) simple-error (simple-condition error)
type-error (error) simple-type-error (simple-condition type-error) program-error (error)
control-error (error) cell-error (error) unbound-variable (cell-error) undefined-function (cell-error)
arithmetic-error (error) division-by-zero (arithmetic-error) floating-point-overflow (arithmetic-error)
floating-point-underflow (arithmetic-error) floating-point-inexact (arithmetic-error)
floating-point-invalid-operation (arithmetic-error) unbound-slot (cell-error) file-error (error)
parse-error (error) stream-error (error) reader-error (parse-error stream-error) end-of-file (stream-error)
storage-condition (serious-condition) package-error (error) print-not-readable (error) index-error (type-error)
"""


class ConditionType:
    """A class of conditions: its name, parents, slots (name, keywords, default thunk) and report function.

    `initial_arguments` gives keywords that `make-condition` is not given the values of thunks.
    """

    __slots__ = ("initial_arguments", "name", "parents", "report", "slots")

    def __init__(
        self,
        name: str,
        parents: tuple[ConditionType, ...] = (),
        slots: tuple[tuple[str, tuple[str, ...], Any], ...] = (),
        report: Any = None,
        initial_arguments: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.parents = parents
        self.slots = slots
        self.report = report
        self.initial_arguments = initial_arguments or {}

    def is_a(self, name: str) -> bool:
        """Whether this is the type called `name` or one of its descendants."""
        return self.name == name or any(parent.is_a(name) for parent in self.parents)

    def all_slots(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """Slot name to (initialisation keywords, default thunk), inherited ones too."""
        found: dict[str, tuple[tuple[str, ...], Any]] = {}
        for parent in reversed(self.parents):
            found |= parent.all_slots()
        for name, keys, default in self.slots:
            inherited, old = found.get(name, ((), None))
            found[name] = ((*keys, *inherited), old if default is None else default)
        return found

    def all_initial_arguments(self) -> dict[str, Any]:
        """Keyword to the thunk of its value, inherited ones too."""
        found: dict[str, Any] = {}
        for parent in reversed(self.parents):
            found |= parent.all_initial_arguments()
        return found | self.initial_arguments

    def reporter(self) -> Any:
        """The nearest report function or text, None when no ancestor has one."""
        if self.report is not None:
            return self.report
        return next((r for r in (p.reporter() for p in self.parents) if r is not None), None)


def _built_in_types() -> dict[str, ConditionType]:
    types: dict[str, ConditionType] = {}
    for name, parents in re.findall(r"([\w-]+) \(([^)]*)\)", _BUILT_IN):
        types[name] = ConditionType(name, tuple(types[parent] for parent in parents.split()))
    return types


BUILT_IN_TYPES: dict[str, ConditionType] = _built_in_types()


class Condition:
    """What a handler receives: its type, its slots, and the diagnostic when an error of ours became one."""

    __slots__ = ("diagnostic", "seen_by", "slots", "type")

    def __init__(
        self, type_: ConditionType, slots: dict[str, Any] | None = None, diagnostic: Diagnostic | None = None
    ) -> None:
        self.type = type_
        self.slots = slots or {}
        self.diagnostic = diagnostic
        self.seen_by: list[Any] = []  # the handler-bind entries whose handlers were run on it


class Signalled(SxError):
    """A condition that Lisp code signalled as an error, on its way to a handler or to the report."""

    def __init__(self, condition: Condition, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.condition = condition


class TypeFault(SxError):
    """An argument of the wrong type: the value, and the type it should have."""

    def __init__(self, diagnostic: Diagnostic, datum: Any, expected_type: Any) -> None:
        super().__init__(diagnostic)
        self.datum = datum
        self.expected_type = expected_type


class CallFault(SxError):
    """An error found inside a function that is its caller's: it is shown at the call."""


class Poisoned(SxError):
    """A use of a name whose definition has failed: carries that failure, so it is reported once."""


_QUOTED = re.compile(r"`([^`]+)`")
_TYPE_OF_CODE = {
    "E-NAME-001": "unbound-variable",
    "E-NAME-002": "undefined-function",
    "E-MACRO-004": "control-error",
    "E-TYPE-002": "type-error",
    "E-VALUE-001": "division-by-zero",
    "E-VALUE-002": "floating-point-overflow",
    "E-VALUE-003": "index-error",
    "E-VALUE-007": "parse-error",
}
_TYPE_OF_FAMILY = {
    "E-TYPE": "type-error",
    "E-ARG": "program-error",
    "E-MACRO": "program-error",
    "E-READ": "reader-error",
    "E-LIMIT": "storage-condition",
    "E-NAME": "program-error",
}


def condition_of(fault: SxError) -> Condition:
    """The condition object a handler sees for an error that a builtin or the evaluator raised."""
    if isinstance(fault, Signalled):
        return fault.condition
    code = fault.diagnostic.code
    family = code.rpartition("-")[0]
    name = _TYPE_OF_CODE.get(code) or _TYPE_OF_FAMILY.get(family, "error")
    slots: dict[str, Any] = {}
    if isinstance(fault, TypeFault):
        name = "type-error"
        slots = {"datum": fault.datum, "expected-type": fault.expected_type}
    if family == "E-NAME" and (quoted := _QUOTED.search(fault.diagnostic.message)) is not None:
        slots["name"] = symbol(quoted[1])
    return Condition(BUILT_IN_TYPES[name], slots, fault.diagnostic)


HANDLING_WORK = 400
SUGGESTING_WORK = 24_000
"""Steps that handling an error takes, and one about a name, for which similar names are looked up."""


def handling_work(condition: Condition) -> int:
    """The steps that it takes to make, locate and handle the error of a condition."""
    named = condition.diagnostic is not None and condition.diagnostic.code.startswith("E-NAME")
    return SUGGESTING_WORK if named else HANDLING_WORK


def slot(condition: Condition, name: str, default: Any = NIL) -> Any:
    """A slot of a condition, by its name."""
    return condition.slots.get(name, default)


def initialised(type_: ConditionType, arguments: tuple[Any, ...]) -> Condition:
    """A condition of `type_` from `:key value ...`; slots without a value take their defaults."""
    given: dict[str, Any] = {}
    for key, value in zip(arguments[::2], arguments[1::2], strict=False):
        if isinstance(key, Symbol):
            given.setdefault(key.name, value)
    for name, value_of in type_.all_initial_arguments().items():
        if name not in given:
            given[name] = value_of()
    slots: dict[str, Any] = {}
    for name, (keys, default) in type_.all_slots().items():
        named = next((key for key in given if key in keys), None)
        if named is not None:
            slots[name] = given[named]
        elif default is not None:
            slots[name] = default()
    for key in ("format-control", "format-arguments", "datum", "expected-type", "name", "operation", "operands"):
        if key in given:
            slots.setdefault(key, given[key])
    return Condition(type_, slots)
