"""What a top-level form defines by its look, and what is missing once it has failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from sexpgpu.diag import Diagnostic
from sexpgpu.lang.analyze.misspelt import meant_form
from sexpgpu.lang.forms import Cons, Symbol, keyword, setf_name, symbol
from sexpgpu.lang.module import Module

if TYPE_CHECKING:
    from sexpgpu.lang.session import Session

PROGN: Final = symbol("progn")
REQUIRE: Final = symbol("require")
KNOBS: Final = symbol("defknobs")
DEFSTRUCT: Final = symbol("defstruct")
ACCESSORS: Final = (keyword("accessor"), keyword("reader"), keyword("writer"))


def defined_name(form: Any) -> Symbol | None:
    """The name that a form defines, by its look: `(def... name ...)` or `(def... (name ...) ...)`."""
    if not isinstance(form, Cons) or not isinstance(form.car, Symbol) or not form.car.name.startswith("def"):
        return None
    if not isinstance(form.cdr, Cons):
        return None
    if form.car is KNOBS:
        return None
    name = form.cdr.car
    if isinstance(name, Cons):
        if name.car is symbol("setf") and isinstance(name.cdr, Cons) and isinstance(name.cdr.car, Symbol):
            return setf_name(name.cdr.car)
        name = name.car
    return name if isinstance(name, Symbol) and not name.keyword else None


def poison(session: Session, module: Module, form: Any, diagnostic: Diagnostic) -> None:
    """The names that a failed form would have defined: using them reports its failure, not a new one."""
    if isinstance(form, Cons) and form.car is PROGN:
        for part in form.cdr if isinstance(form.cdr, Cons) else ():
            poison(session, module, part, diagnostic)
        return
    meant = meant_form(module, form)
    if meant is not None:
        form = Cons(meant, form.cdr)
    if isinstance(form, Cons) and isinstance(form.car, Symbol):
        session.failures.add(form.car.name)
        if form.car is REQUIRE:
            module.missing = diagnostic
        if form.car is KNOBS and isinstance(form.cdr, Cons):
            if diagnostic.code == "E-READ-001":  # the text of some of its knobs is not among its entries
                module.missing = diagnostic
            for entry in form.cdr:
                name = entry.car if isinstance(entry, Cons) else None
                if isinstance(name, Symbol) and name not in module.variables:
                    module.poisoned[name] = diagnostic
    name = defined_name(form)
    if name is None:
        return
    module.upcoming.pop(name, None)
    for made in (name, *_defined_with(form)):
        own = module.functions.get(made)
        defined = (own is not None and own.defined) or made in module.macros
        if not defined and not (made in module.variables and module.variables[made].ref):
            module.poisoned[made] = diagnostic


def _defined_with(form: Any) -> Iterator[Symbol]:
    """The functions that a defstruct, or the slots of a defclass or define-condition, would define."""
    if isinstance(form, Cons) and form.car is DEFSTRUCT:
        yield from _of_structure(form)
        return
    cell = form
    while isinstance(cell, Cons):
        following = cell.cdr
        if cell.car in ACCESSORS and isinstance(following, Cons) and isinstance(following.car, Symbol):
            yield following.car
        yield from _defined_with(cell.car)
        cell = following


def _of_structure(form: Cons) -> Iterator[Symbol]:
    """The functions that a defstruct would define, whatever its options say."""
    name = defined_name(form)
    if name is None:  # a form that only begins like one, quoted or cut short
        return
    for made in ("make-{}", "copy-{}", "{}-p"):
        yield symbol(made.format(name.name))
    cell = form.cdr.cdr
    while isinstance(cell, Cons):
        slot = cell.car.car if isinstance(cell.car, Cons) else cell.car
        if isinstance(slot, Symbol):
            yield symbol(f"{name.name}-{slot.name}")
        cell = cell.cdr
