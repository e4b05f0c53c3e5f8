"""Backquote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sexpgpu.lang.analyze.grammar import Items, fault, special
from sexpgpu.lang.builtin import show
from sexpgpu.lang.core.quasi import APPEND, CONS, LISTED, TO_VECTOR, WRITTEN
from sexpgpu.lang.edits import wrapped
from sexpgpu.lang.forms import NIL, Cons, SourceCons, Symbol, lisp_list, symbol
from sexpgpu.lang.ir import Node
from sexpgpu.lang.place import Place
from sexpgpu.lang.reader import QUASIQUOTE, SPLICE, UNQUOTE
from sexpgpu.lang.scope import Scope

if TYPE_CHECKING:
    from sexpgpu.lang.analyze.core import Analyzer

QUOTE: Final = symbol("quote")


@special("(quasiquote form)", 1, 1)
def quasiquote(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    form, where = items[0]
    if isinstance(form, Cons) and form.car is SPLICE:
        raise fault(where, "E-MACRO-005", "`,@` needs a list around it to splice into",
                    "write parentheses around it", fix=wrapped(where, "(", ")"))  # fmt: skip
    return an.analyze(_expand(form, 1, where, not (an.module.internal or an.module.standard)), scope, place)


@special("(unquote form)", 1, 1)
def unquote(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    raise fault(place, "E-MACRO-005", f"`,{show(items[0][0])}` outside a backquote")


@special("(unquote-splicing form)", 1, 1)
def unquote_splicing(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    raise fault(place, "E-MACRO-005", f"`,@{show(items[0][0])}` outside a backquote")


def _expand(form: Any, depth: int, place: Place, told: bool) -> Any:
    """A form that builds `form` when evaluated; `depth` counts the backquotes around it.

    What it builds of a user's text is `told` where it is written, for the trails of expansions.
    """
    if type(form) is list:
        if not _mentions(form, depth):
            return form
        return lisp_list([TO_VECTOR, _expand(lisp_list(form), depth, place, told)])
    if not isinstance(form, Cons):
        return lisp_list([QUOTE, form]) if isinstance(form, Symbol) and form is not NIL and not form.keyword else form
    if form.car is UNQUOTE:
        if depth == 1:
            return form.cdr.car
        return _nested(form, depth - 1, place, told)
    if form.car is SPLICE:
        raise fault(place.of_form(form), "E-MACRO-005", "`,@` cannot follow a dot")
    if form.car is QUASIQUOTE:
        return _nested(form, depth + 1, place, told)
    if not _mentions(form, depth):
        return lisp_list([QUOTE, form])
    pieces: list[Any] = []
    cell: Any = form
    while isinstance(cell, Cons) and not (cell.car in (UNQUOTE, QUASIQUOTE) and cell is not form):
        where = place.of_element(cell)
        item = cell.car
        if isinstance(item, Cons) and item.car is UNQUOTE and depth == 1:
            pieces += [(False, operand) for operand in _operands(item)]  # several where an outer `,@` put them
        elif isinstance(item, Cons) and item.car is SPLICE and depth == 1:
            *others, last = _operands(item) or [NIL]
            pieces += [(True, _listed(item, operand)) for operand in others]
            pieces.append((True, last if cell.cdr is NIL else _listed(item, last)))
        elif isinstance(item, Cons) and item.car is SPLICE:
            pieces.append((False, _nested(item, depth - 1, where, told)))
        else:
            pieces.append((False, _expand(item, depth, where, told)))
        cell = cell.cdr
    result = _expand(cell, depth, place, told) if cell is not NIL else NIL
    for splice, piece in reversed(pieces[1:]):
        result = lisp_list([APPEND if splice else CONS, piece, result])
    splice, piece = pieces[0]
    if told and not splice and isinstance(form, SourceCons):
        return lisp_list([WRITTEN, lisp_list([QUOTE, form]), piece, result])
    return lisp_list([APPEND if splice else CONS, piece, result])


def _operands(item: Cons) -> list[Any]:
    return list(item.cdr) if isinstance(item.cdr, Cons) else []


def _listed(item: Cons, operand: Any) -> Any:
    """A check that what a splice gives is a list, written where the splice is."""
    check = lisp_list([LISTED, operand])
    if isinstance(item, SourceCons):
        return SourceCons(LISTED, check.cdr, item.source, item.start, item.end, item.car_start, item.car_end)
    return check


def _nested(form: Cons, depth: int, place: Place, told: bool) -> Any:
    """`(unquote x)` or `(quasiquote x)` of another level: kept as data, its inside expanded.

    A splice inside an inner unquote (`,,@x`) adds operands to it, which is what the standard asks for.
    """
    inside = form.cdr.car
    if isinstance(inside, Cons) and inside.car is SPLICE and depth == 1:
        return lisp_list([CONS, lisp_list([QUOTE, form.car]), inside.cdr.car])
    if not isinstance(inside, Cons) and type(inside) is not list:
        return lisp_list([QUOTE, form])
    return lisp_list([CONS, lisp_list([QUOTE, form.car]), lisp_list([CONS, _expand(inside, depth, place, told), NIL])])


def _mentions(form: Any, depth: int) -> bool:
    """Whether an unquote of this level stands somewhere inside `form`."""
    if type(form) is list:
        return any(_mentions(item, depth) for item in form)
    cell = form
    while isinstance(cell, Cons):
        if cell.car in (UNQUOTE, SPLICE):
            return depth == 1 or _mentions(cell.cdr, depth - 1)
        if cell.car is QUASIQUOTE:
            return _mentions(cell.cdr, depth + 1)
        if (isinstance(cell.car, Cons) or type(cell.car) is list) and _mentions(cell.car, depth):
            return True
        cell = cell.cdr
    return False
