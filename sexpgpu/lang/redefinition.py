"""Warnings about names that one file defines twice, and about handled calls of what it never defines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sexpgpu.diag import Span, error, warning
from sexpgpu.lang.analyze.suggest import unknown_function
from sexpgpu.lang.builtin import show
from sexpgpu.lang.conditions import Poisoned
from sexpgpu.lang.culprit import form_at
from sexpgpu.lang.failed import defined_name
from sexpgpu.lang.forms import Symbol
from sexpgpu.lang.module import FunctionCell, GlobalVariable, Module
from sexpgpu.lang.place import Place
from sexpgpu.lang.scope import Scope

if TYPE_CHECKING:
    from sexpgpu.lang.session import Session


def warn_twice(session: Session, module: Module, name: Symbol, place: Place, before: Span | None) -> None:
    """W-NAME-003 where this file has defined the name elsewhere; once for a form that defines several."""
    span = place.span
    if before is None or before == span or before.file != span.file:
        return
    if any((d.code, d.span) == ("W-NAME-003", span) for d in session.diagnostics):
        return
    form = form_at(place.source, place.start, module.aliases)
    told = (defined_name(form.datum) if form is not None else None) or name  # of a structure, not of its functions
    text = f"`{told.name}` is defined twice; the first definition is at {before.line}:{before.col}"
    session.warn(warning("W-NAME-003", text, span))


def check_redefined(session: Session, module: Module, old: GlobalVariable, kind: str, place: Place | None) -> None:
    """W-NAME-003 of a variable that has a value and gets another definition; E-NAME-004 where it is a constant's."""
    if kind == "constant":
        raise error("E-NAME-004", f"`{show(old.name)}` is a variable already: it cannot become a constant")
    if place is not None:
        warn_twice(session, module, old.name, place, old.span)


def warn_handled(session: Session, module: Module, cell: FunctionCell, scope: Scope, place: Place) -> None:
    """W-NAME-006 at a call of a function that is defined nowhere, inside a form that handles errors."""
    found = unknown_function(module, cell.name, scope, place)
    if not isinstance(found, Poisoned):
        text = f"{found.diagnostic.message}: what handles errors here hides that"
        session.warn(warning("W-NAME-006", text, found.diagnostic.span, found.diagnostic.help))
