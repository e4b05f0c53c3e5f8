"""Which binding a variable's name refers to, as far as the text of its file shows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from attrs import frozen

from sexpgpu.lang.forms import Cons, Source, SourceCons, Symbol
from sexpgpu.lang.reader import Reader

_LETS: Final = ("let", "let*")
_GLOBALS: Final = ("def", "defvar", "defparameter", "defconstant")
_FUNCTIONS: Final = {"lambda": 1, "defun": 2, "defmodel": 2}
"""Heads that bind by a lambda list, and which element that is."""


@frozen
class Bound:
    """A binding's name and, where it has one, its value form: offsets in the text."""

    start: int
    end: int
    value: Any
    value_start: int
    value_end: int


def binding_of(source: Source, name: Symbol, at: int, aliases: set[str]) -> Bound | None:
    """The binding with a value that `name`, written at the offset `at`, refers to.

    None for a parameter, whose value is the caller's, and for what the file does not bind.
    """
    forms = [form.datum for form in Reader(source, lambda _: None, aliases).forms()]
    for form in reversed(_around(forms, at)):
        head = form.car.name if isinstance(form.car, Symbol) else ""
        parts = list(_cells(form))
        if head in _LETS and len(parts) > 1 and isinstance(parts[1].car, SourceCons):
            inside = parts[1].car_start <= at < parts[1].car_end
            entries = [cell.car for cell in _cells(parts[1].car)]
            if not inside or head == "let*":
                found = _entry(entries, name, at)
                if found is not None:
                    return found
        elif head in _FUNCTIONS and len(parts) > _FUNCTIONS[head]:
            if _mentions(parts[_FUNCTIONS[head]].car, name):
                return None
        elif head in ("dolist", "dotimes", "do", "do*", "loop", "destructuring-bind", "multiple-value-bind"):
            if any(_mentions(cell.car, name) and cell.car_start < at for cell in parts[1:2]):
                return None
            if head == "loop" and _named_by_loop(parts, name):
                return None
    return _global(forms, name)


def _cells(form: Any) -> list[SourceCons]:
    cells = []
    while isinstance(form, SourceCons):
        cells.append(form)
        form = form.cdr
    return cells


def _around(forms: list[Any], at: int) -> list[SourceCons]:
    """The lists that an offset lies in, outermost first."""
    found: list[SourceCons] = []
    inside = forms
    while True:
        around = next((f for f in inside if isinstance(f, SourceCons) and f.start <= at < f.end), None)
        if around is None:
            return found
        found.append(around)
        inside = [cell.car for cell in _cells(around)]


def _entry(entries: list[Any], name: Symbol, before: int) -> Bound | None:
    """`(name value)` among the last entries that end before an offset."""
    for entry in reversed(entries):
        if isinstance(entry, SourceCons) and entry.car is name and entry.end <= before:
            return _with_value(entry)
    return None


def _with_value(cell: SourceCons) -> Bound | None:
    """The binding of the name in `cell`, whose value follows it."""
    value = cell.cdr
    if not isinstance(value, SourceCons):
        return None
    return Bound(cell.car_start, cell.car_end, value.car, value.car_start, value.car_end)


def _mentions(form: Any, name: Symbol) -> bool:
    if isinstance(form, Cons):
        return any(part is name or (isinstance(part, Cons) and part.car is name) for part in form)
    return form is name


def _named_by_loop(parts: list[SourceCons], name: Symbol) -> bool:
    """Whether a clause of a loop binds the name: `for name`, `with name`."""
    words = ("for", "as", "with", "and", "into")
    return any(
        isinstance(before.car, Symbol) and before.car.name in words and _mentions(cell.car, name)
        for before, cell in pairwise(parts)
    )


def _global(forms: list[Any], name: Symbol) -> Bound | None:
    for form in forms:
        if not isinstance(form, SourceCons) or not isinstance(form.car, Symbol):
            continue
        parts = _cells(form)
        if form.car.name in _GLOBALS and len(parts) > 1 and parts[1].car is name:
            return _with_value(parts[1])
        if form.car.name == "defknobs":
            for cell in parts[1:]:
                if isinstance(cell.car, SourceCons) and cell.car.car is name:
                    return _with_value(cell.car)
    return None
