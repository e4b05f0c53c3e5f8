"""Macros of the standard that the analyzer takes as they are, and what `macroexpand` says they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sexpgpu.lang.forms import NIL, Cons, Symbol, T, lisp_list, symbol

IF: Final = symbol("if")
PROGN: Final = symbol("progn")
LET: Final = symbol("let")

OPERATORS: Final = frozenset(
    symbol(name)
    for name in [
        "block",
        "catch",
        "eval-when",
        "flet",
        "function",
        "go",
        "if",
        "labels",
        "let",
        "let*",
        "load-time-value",
        "locally",
        "macrolet",
        "multiple-value-call",
        "multiple-value-prog1",
        "progn",
        "progv",
        "quote",
        "return-from",
        "setq",
        "symbol-macrolet",
        "tagbody",
        "the",
        "throw",
        "unwind-protect",
    ]
)
"""The special operators of the standard; the analyzer's other forms are macros in it."""


def _when(call: Cons) -> Any:
    return lisp_list([IF, call.cdr.car, Cons(PROGN, call.cdr.cdr)])


def _unless(call: Cons) -> Any:
    return lisp_list([IF, call.cdr.car, NIL, Cons(PROGN, call.cdr.cdr)])


def _and(call: Cons) -> Any:
    if call.cdr is NIL:
        return T
    first, rest = call.cdr.car, call.cdr.cdr
    return first if rest is NIL else lisp_list([IF, first, Cons(call.car, rest), NIL])


def _or(call: Cons) -> Any:
    if call.cdr is NIL:
        return NIL
    first, rest = call.cdr.car, call.cdr.cdr
    if rest is NIL:
        return first
    held = Symbol("value")
    return lisp_list([LET, lisp_list([lisp_list([held, first])]), lisp_list([IF, held, held, Cons(call.car, rest)])])


def _cond(call: Cons) -> Any:
    if call.cdr is NIL:
        return NIL
    clause, rest = call.cdr.car, Cons(call.car, call.cdr.cdr)
    if clause.cdr is NIL:
        return lisp_list([symbol("or"), clause.car, rest])
    return lisp_list([IF, clause.car, Cons(PROGN, clause.cdr), rest])


def _return(call: Cons) -> Any:
    return Cons(symbol("return-from"), Cons(NIL, call.cdr))


EXPANSIONS: Final[dict[Symbol, Callable[[Cons], Any]]] = {
    symbol("when"): _when,
    symbol("unless"): _unless,
    symbol("and"): _and,
    symbol("or"): _or,
    symbol("cond"): _cond,
    symbol("return"): _return,
}
