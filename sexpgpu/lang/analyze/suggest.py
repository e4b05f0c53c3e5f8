"""Errors of names that mean nothing where they stand, with what was most likely meant."""

from __future__ import annotations

import re
from typing import Any, Final

from sexpgpu.diag import Edit, Note, SxError, nearest
from sexpgpu.lang.analyze.grammar import fault
from sexpgpu.lang.analyze.misspelt import form_names, meant_head, unfit, written_call
from sexpgpu.lang.analyze.outside import OUTSIDE, refused_operator
from sexpgpu.lang.builtin import show
from sexpgpu.lang.conditions import Poisoned
from sexpgpu.lang.culprit import word
from sexpgpu.lang.edits import head_replaced, inserted, moved_up, text_at
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import NIL, Cons, Symbol, T
from sexpgpu.lang.module import Module
from sexpgpu.lang.place import Place
from sexpgpu.lang.scope import Scope

_OPTION: Final = re.compile(r":([\w-]+)\s+\Z")


def unknown_variable(module: Module, name: Symbol, scope: Scope, place: Place) -> SxError:
    """E-NAME-001, or the failure of the form that should have defined the name."""
    failure = module.poisoned.get(name, module.torn)
    if failure is not None:
        return Poisoned(failure)
    later = module.upcoming.get(name)
    if later is not None:
        where = f"`{name.name}` is defined by the {later.head} at {later.span.line}:{later.span.col}"
        fix = moved_up(place.source, later.span, place.start) if place.trail is None else ()
        return fault(place, "E-NAME-001", f"variable `{show(name)}` is not bound yet", where, fix=fix)
    option = _option_before(module, name, place)
    if option is not None:
        message, help = f"variable `{show(name)}` is not bound", f":{name.name} is what :{option} takes"
        return fault(place, "E-NAME-001", message, help, fix=inserted(place, ":"))
    message = f"variable `{show(name)}` is not bound"
    let = scope.let_beside(name)
    if let is not None:
        help = f"the same let binds `{name.name}`: let* does so before this is evaluated"
        return fault(place, "E-NAME-001", f"{message} yet", help, fix=head_replaced(let, "let", "let*"))
    if ":" in name.name:
        alias, _, own = name.name.partition(":")
        what = f"a function `{own}`, no such variable" if module.has_function(name) else f"no variable `{own}`"
        return fault(place, "E-NAME-001", message, f"the module required as `{alias}` provides {what}")
    local = scope.variable_names()
    near = nearest(name.name, local)
    if near is not None:
        local[near].read = True  # under a wrong name
        span = local[near].place.span
        help = f"`{near}` is bound at {span.line}:{span.col}"
    elif module.has_function(name) or scope.local_function(name) is not None:
        help = f"`{name.name}` is a function: write #'{name.name} to pass it, ({name.name} ...) to call it"
        fix = inserted(place, "#'") if text_at(place).lower() == name.name else ()
        return fault(place, "E-NAME-001", f"variable `{show(name)}` is not bound", help, fix=fix)
    else:
        near = nearest(name.name, {v.name for v in _variables(module)})
        if module.missing is not None and near not in module.own_names():
            return Poisoned(module.missing)
        help = f"did you mean `{near}`?" if near else f"bind it with let, or define it with (def {name.name} ...)"
    return fault(place, "E-NAME-001", f"variable `{show(name)}` is not bound", help, culprit=word(name.name, near))


def unknown_function(module: Module, name: Symbol, scope: Scope, place: Place, form: Any = None) -> SxError:
    """E-NAME-002, or the failure of the form that should have defined the name; `form` is the call, where known."""
    failure = module.poisoned.get(name, module.torn)
    if failure is not None:
        return Poisoned(failure)
    later = module.upcoming.get(name)
    if name.keyword:
        made = inserted(place, "list ") if text_at(place).lower() == f":{name.name}" else ()
        message = f"`:{name.name}` is a keyword, not a function"
        return fault(place, "E-NAME-002", message, f"(list :{name.name} ...) makes a list of them", fix=made)
    if later is None and name.name in OUTSIDE:
        return refused_operator(module, name, place)
    notes: tuple[Note, ...] = ()
    near = instead = None
    fix: tuple[Edit, ...] = ()
    if later is not None:
        help: str | None = f"`{name.name}` is defined at {later.span.line}:{later.span.col}, below"
        notes = (Note(f"the {later.head} is here", later.span),)
        fix = moved_up(place.source, later.span, place.start) if place.trail is None else ()
    elif scope.variable(name) is None and _holds_no_function(module, name):
        variable = module.variable(name)
        what = "constant" if variable is not None and variable.kind == "constant" else "variable"
        help = f"`{name.name}` is a {what}, and its value is no function"
        return fault(place, "E-NAME-002", f"there is no function `{show(name)}`", help)
    elif scope.variable(name) is not None or module.variable(name) is not None:
        help = f"`{name.name}` is a variable: write (funcall {name.name} ...)"
        fix = called(name, place)
    else:
        known = module.names() | scope.function_names() | form_names()
        call = form if form is not None else written_call(place, module.aliases)
        near, instead = meant_head(module, name.name, known - unfit(form), call, scope)
        if module.missing is not None and near not in module.own_names():
            return Poisoned(module.missing)
        help = f"did you mean `{near}`?" if near else None
    message = f"there is no function `{show(name)}`"
    culprit = word(name.name, instead) if later is None and not fix else None
    return fault(place, "E-NAME-002", message, help, notes, fix=fix, culprit=culprit)


def _holds_no_function(module: Module, name: Symbol) -> bool:
    variable = module.variable(name)
    value = variable.ref[0] if variable is not None and variable.ref else None
    if isinstance(value, Symbol):
        return value in (NIL, T)
    return value is not None and not callable(value) and not isinstance(value, Foreign)


def called(name: Symbol, place: Place) -> tuple[Edit, ...]:
    """`funcall` before the name at the head of a call."""
    at_head = place.source.text[place.start - 1 : place.start] == "(" and text_at(place).lower() == name.name
    return inserted(place, "funcall ") if at_head else ()


def variable_as_function(module: Module, name: Symbol, form: Cons, scope: Scope, place: Place) -> SxError:
    """E-NAME-003: a local variable stands where a function name is needed."""
    args = " ..." if isinstance(form.cdr, Cons) else ""
    message = f"`{show(name)}` is a local variable, not a function"
    return fault(place, "E-NAME-003", message, f"write (funcall {show(name)}{args})", fix=called(name, place))


def _option_before(module: Module, name: Symbol, place: Place) -> str | None:
    """The option whose value the place is, where that takes the keyword of this name."""
    if text_at(place).lower() != name.name:
        return None
    written = _OPTION.search(place.source.text, max(0, place.start - 100), place.start)
    choices = (module.base or module).choices
    return written[1] if written is not None and name.name in choices.get(written[1], ()) else None


def _variables(module: Module) -> set[Symbol]:
    own = set(module.variables)
    return own if module.base is None else own | _variables(module.base)
