"""Heads that nothing defines and that were most likely meant as those of special forms, macros or top-level forms."""

from __future__ import annotations

from typing import Any, Final

from sexpgpu.diag import nearest
from sexpgpu.lang.analyze.grammar import SPECIALS
from sexpgpu.lang.forms import Cons, Symbol, symbol
from sexpgpu.lang.module import Macro, Module
from sexpgpu.lang.scope import Scope

TOP: Final = frozenset(("require", "provide", "defknobs", "defvariant", "defsweep"))
"""The forms that only the top level of a file knows."""


def form_names() -> set[str]:
    """The names of all special forms and top-level forms."""
    return {special.name for special in SPECIALS} | TOP


def is_form(module: Module, name: Symbol, scope: Scope | None = None) -> bool:
    """Whether a name is that of a special form, a macro or a top-level form."""
    local = scope.local_function(name) if scope is not None else None
    return isinstance(local, Macro) or name in SPECIALS or name.name in TOP or module.macro(name) is not None


def unfit(form: Any) -> set[str]:
    """The defining forms that a form cannot be, by its first operand: `defrun` has keywords there, others a name."""
    first = form.cdr.car if isinstance(form, Cons) and isinstance(form.cdr, Cons) else None
    return {"defrun"} if isinstance(first, Symbol) and not first.keyword else set()


def meant_form(module: Module, form: Any, scope: Scope | None = None) -> Symbol | None:
    """The special form, macro or top-level form that the unknown head of a form most likely meant."""
    head = form.car if isinstance(form, Cons) else None
    if not isinstance(head, Symbol) or head.keyword or head in module.upcoming or head in module.poisoned:
        return None
    cell = module.function(head)
    if is_form(module, head) or (cell is not None and cell.defined) or module.variable(head) is not None:
        return None
    local = scope.function_names() if scope is not None else set()
    near = nearest(head.name, (module.names() | local | form_names()) - unfit(form))
    return symbol(near) if near is not None and is_form(module, symbol(near), scope) else None


def defined_by(form: Cons, meant: Symbol) -> Symbol | None:
    """The name that a form would define if its head were `meant`."""
    operand = form.cdr.car if isinstance(form.cdr, Cons) else None
    name = operand.car if isinstance(operand, Cons) else operand
    return name if meant.name.startswith("def") and isinstance(name, Symbol) and not name.keyword else None
