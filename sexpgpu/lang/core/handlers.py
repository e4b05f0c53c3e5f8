"""Which handler takes a condition."""

from __future__ import annotations

from typing import Any

from sexpgpu.diag import Culprit, SxError, error, nearest
from sexpgpu.lang.active import active
from sexpgpu.lang.builtin import show
from sexpgpu.lang.conditions import Condition
from sexpgpu.lang.forms import NIL, Cons, Symbol, T


def no_condition_type(name: Symbol) -> SxError:
    """E-TYPE-001, with what was most likely meant."""
    near = nearest(name.name, [known.name for known in active().condition_types])
    help = f"did you mean `{near}`?" if near else None
    culprit = Culprit(word=name.name, instead=near)
    return error("E-TYPE-001", f"`{show(name)}` is not a condition type", help=help, culprit=culprit)


def is_condition(condition: Condition, specifier: Any) -> bool:
    """Whether a condition is of the type a handler names."""
    if isinstance(specifier, Symbol):
        if specifier is T or specifier is NIL:
            return specifier is T
        wanted = active().condition_types.get(specifier)
        if wanted is None:
            raise no_condition_type(specifier)
        return condition.type.is_a(wanted.name)
    if isinstance(specifier, Cons):
        parts = list(specifier.cdr) if isinstance(specifier.cdr, Cons) else []
        answers = [is_condition(condition, part) for part in parts]
        word = specifier.car.name if isinstance(specifier.car, Symbol) else ""
        return {"or": any(answers), "and": all(answers), "not": not any(answers)}.get(word, False)
    return False
