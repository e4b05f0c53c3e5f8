"""What a form mentions, for forms whose analysis failed: their names count as used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sexpgpu.lang.forms import Cons, Symbol
from sexpgpu.lang.ir import LocalVar
from sexpgpu.lang.module import Module
from sexpgpu.lang.scope import Scope

if TYPE_CHECKING:
    from sexpgpu.lang.session import Session


def note_mentions(session: Session, module: Module, form: Any, scope: Scope | None) -> None:
    """Count every symbol in `form` as a use of the variable and the local function of its name."""
    waiting = [form]
    seen: set[int] = set()
    while waiting:
        item = waiting.pop()
        if isinstance(item, Symbol):
            _note(session, module, item, scope)
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, Cons) and id(item) not in seen:  # a macro may have made it circular
            seen.add(id(item))
            waiting += (item.car, item.cdr)


def _note(session: Session, module: Module, name: Symbol, scope: Scope | None) -> None:
    for local in (scope.variable(name), scope.local_function(name)) if scope is not None else ():
        if isinstance(local, LocalVar):
            local.read = True
    variable = module.variable(name)
    if variable is not None:
        session.note_use(variable)
