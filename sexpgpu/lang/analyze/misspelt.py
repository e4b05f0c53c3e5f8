"""Heads that nothing defines and that were most likely meant as those of special forms, macros or top-level forms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sexpgpu.diag import SxError, nearest
from sexpgpu.lang.analyze.grammar import SPECIALS
from sexpgpu.lang.builtin import Parameters
from sexpgpu.lang.culprit import form_at
from sexpgpu.lang.forms import NIL, Cons, Source, Symbol, symbol
from sexpgpu.lang.functions import info_of_function
from sexpgpu.lang.module import Macro, Module
from sexpgpu.lang.place import Place
from sexpgpu.lang.reader import read_text
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


def meant_head(
    module: Module, name: str, candidates: Iterable[str], form: Any, scope: Scope
) -> tuple[str | None, str | None]:
    """The candidate that the head `name` of a form most likely meant; and as an edit, where it takes the operands."""
    near = nearest(name, candidates)
    return near, near if near is not None and (form is None or _may_head(module, near, form, scope)) else None


def _may_head(module: Module, name: str, form: Any, scope: Scope) -> bool:
    """Whether the operands of a form are as many, and their keywords such, as what is called `name` takes."""
    head, operands = symbol(name), _operands(form)
    local = scope.local_function(head)
    macro = local if isinstance(local, Macro) else module.macro(head) if local is None else None
    if macro is not None:
        return _fits_shape(macro.shape, operands)
    if local is not None:
        parameters = getattr(local, "parameters", None)
    elif head in SPECIALS:
        special = SPECIALS[head]
        counted = special.least <= len(operands) and (special.most is None or len(operands) <= special.most)
        return counted and _fits_shape(special.shape, operands)
    else:
        parameters = _parameters(module, head)
    return parameters is None or _fits(parameters, operands)


def _operands(form: Any) -> list[Any]:
    return list(form.cdr) if isinstance(form, Cons) and isinstance(form.cdr, Cons) else []


def _parameters(module: Module, name: Symbol) -> Parameters | None:
    """Those of a function, where they are known."""
    cell = module.function(name)
    if cell is None or cell.builtin is not None:
        return None if cell is None or cell.builtin is None else cell.builtin.parameters
    try:
        info = info_of_function(cell.ref[0])
    except SxError:
        return None  # the function's own fault, which is reported
    return None if info is None else info.parameters


def _fits(parameters: Parameters, operands: list[Any]) -> bool:
    if len(operands) < len(parameters.required):
        return False
    behind = operands[parameters.positional :]
    if parameters.keys is None or parameters.rest is not None:
        return not behind or parameters.rest is not None
    keys = [key.name if isinstance(key, Symbol) and key.keyword else None for key in behind[::2]]
    known = parameters.other_keys or set(keys) <= {*parameters.keys, "allow-other-keys"}
    return len(behind) % 2 == 0 and None not in keys and known


def _fits_shape(shape: str, operands: list[Any]) -> bool:
    """Whether operands are as many as a shape has, which shows what may be left out, and lists where it has lists."""
    try:
        (form,) = read_text(Source("", shape.replace("[", "&optional ").replace("]", "")), lambda _: None)
    except ValueError:
        return True
    asked = _operands(form.datum)
    ends = [i for i, part in enumerate(asked) if isinstance(part, Symbol) and part.name.startswith("&")]
    asked = asked[: min(ends, default=len(asked))]
    open_ended = bool(ends) or any(isinstance(part, Symbol) and part.name.endswith("...") for part in asked)
    asked = [part for part in asked if not (isinstance(part, Symbol) and part.name.endswith("..."))]
    enough = len(operands) >= len(asked) and (open_ended or "..." in shape or len(operands) == len(asked))
    lists = zip(asked, operands, strict=False)
    return enough and all(isinstance(given, Cons) or given is NIL for part, given in lists if isinstance(part, Cons))


def written_call(place: Place, aliases: set[str]) -> Any:
    """The call whose head is at a place of the source; None where the text has none there."""
    if place.trail is not None or place.source.text[place.start - 1 : place.start] != "(":
        return None
    form = form_at(place.source, place.start - 1, aliases)
    return form.datum if form is not None else None


def defined_by(form: Cons, meant: Symbol) -> Symbol | None:
    """The name that a form would define if its head were `meant`."""
    operand = form.cdr.car if isinstance(form.cdr, Cons) else None
    name = operand.car if isinstance(operand, Cons) else operand
    return name if meant.name.startswith("def") and isinstance(name, Symbol) and not name.keyword else None
