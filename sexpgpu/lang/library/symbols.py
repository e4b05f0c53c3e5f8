"""Chapter 10, symbols: names, making and interning them, property lists."""

from __future__ import annotations

from typing import Any

from sexpgpu.diag import error
from sexpgpu.lang.active import active
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import MV, NIL, Cons, Symbol, T, keyword, lisp_list, symbol
from sexpgpu.lang.library.association import getf
from sexpgpu.lang.library.check import string, wrong_type
from sexpgpu.lang.library.equality import eql
from sexpgpu.lang.library.strings import text_of

library = Library("symbols")


def _symbol(name: str, position: int, value: Any) -> Symbol:
    if type(value) is not Symbol:
        raise wrong_type(name, position, value, "a symbol")
    return value


@library.builtin("symbol-name", "(symbol)")
def symbol_name(a: Any) -> Any:
    return _symbol("symbol-name", 0, a).name


@library.builtin("symbol-package", "(symbol)")
def symbol_package(a: Any) -> Any:
    """nil for an uninterned symbol; there are no packages, so `:keyword` or `:sexpgpu` for others."""
    if not _symbol("symbol-package", 0, a).interned:
        return NIL
    return keyword("keyword" if a.keyword else "sexpgpu")


@library.builtin("make-symbol", "(name)")
def make_symbol(name: Any) -> Any:
    return Symbol(string("make-symbol", 0, name))


@library.builtin("copy-symbol", "(symbol &optional copy-properties)")
def copy_symbol(a: Any, properties: Any = NIL) -> Any:
    return Symbol(_symbol("copy-symbol", 1, a).name)


@library.builtin("gensym", "(&optional prefix)")
def gensym(prefix: Any = "g") -> Any:
    """A fresh uninterned symbol, numbered from the start of the evaluation."""
    if type(prefix) is int:
        return Symbol(f"g{prefix}")
    return Symbol(f"{string('gensym', 0, prefix)}{active().next_number()}")


@library.builtin("gentemp", "(&optional prefix)")
def gentemp(prefix: Any = "t") -> Any:
    return symbol(f"{string('gentemp', 0, prefix)}{active().next_number()}")


@library.builtin("intern", "(name &optional package)", many=True)
def intern(name: Any, package: Any = NIL) -> Any:
    """The symbol spelt `name`, letter case kept; in the package :keyword the keyword."""
    string("intern", 1, name)
    if package is NIL:
        return MV((symbol(name), NIL))
    if text_of("intern", 2, package).lower() == "keyword":
        return MV((keyword(name), NIL))
    raise error(
        "E-VALUE-006",
        "intern: there are no packages but :keyword",
        help="write (intern name) or (intern name :keyword)",
    )


def plist_of(a: Symbol) -> Any:
    return active().properties.get(a, NIL)


@library.builtin("symbol-plist", "(symbol)")
def symbol_plist(a: Any) -> Any:
    return plist_of(_symbol("symbol-plist", 0, a))


@library.builtin("(setf symbol-plist)", "(new symbol)")
def set_symbol_plist(new: Any, a: Any) -> Any:
    active().properties[_symbol("(setf symbol-plist)", 2, a)] = new
    return new


@library.builtin("get", "(symbol indicator &optional default)")
def get(a: Any, indicator: Any, default: Any = NIL) -> Any:
    return getf(plist_of(_symbol("get", 1, a)), indicator, default)


@library.builtin("(setf get)", "(new symbol indicator &optional default)")
def set_get(new: Any, a: Any, indicator: Any, default: Any = NIL) -> Any:
    cell = plist_of(_symbol("(setf get)", 2, a))
    while isinstance(cell, Cons) and isinstance(cell.cdr, Cons):
        if eql(cell.car, indicator):
            cell.cdr.car = new
            return new
        cell = cell.cdr.cdr
    active().properties[a] = Cons(indicator, Cons(new, plist_of(a)))
    return new


@library.builtin("remprop", "(symbol indicator)")
def remprop(a: Any, indicator: Any) -> Any:
    plist = plist_of(_symbol("remprop", 1, a))
    items = list(plist) if isinstance(plist, Cons) else []
    for at in range(0, len(items) - 1, 2):
        if eql(items[at], indicator):
            active().properties[a] = lisp_list(items[:at] + items[at + 2 :])
            return T
    return NIL
