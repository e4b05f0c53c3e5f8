"""Chapter 10, symbols: names, making and interning them, property lists."""

from __future__ import annotations

from typing import Any, Final

from sexpgpu.diag import error
from sexpgpu.lang.active import active
from sexpgpu.lang.builtin import Library
from sexpgpu.lang.forms import MV, NIL, Cons, Symbol, T, keyword, lisp_list, symbol
from sexpgpu.lang.library.association import getf
from sexpgpu.lang.library.check import FREE_WORK, spend, string, wrong_type
from sexpgpu.lang.library.equality import eql
from sexpgpu.lang.library.strings import text_of

library = Library("symbols")

_COUNTER: Final = symbol("*gensym-counter*")
_OWN_PACKAGE: Final = "sexpgpu"


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
    return keyword("keyword" if a.keyword else _OWN_PACKAGE)


@library.builtin("make-symbol", "(name)")
def make_symbol(name: Any) -> Any:
    return Symbol(string("make-symbol", 0, name))


@library.builtin("copy-symbol", "(symbol &optional copy-properties)")
def copy_symbol(a: Any, properties: Any = NIL) -> Any:
    """A fresh symbol of the same name; with `copy-properties` it has the value, function and properties too."""
    made = Symbol(_symbol("copy-symbol", 1, a).name)
    if properties is not NIL:
        session = active()
        variable, cell = session.module.variable(a), session.module.function(a)
        if variable is not None and variable.ref:
            session.special(made).ref[:] = variable.ref
        if cell is not None and cell.defined:
            session.define_function(session.module, made, cell.ref[0], None)
        session.properties[made] = lisp_list(list(plist_of(a)) if isinstance(plist_of(a), Cons) else [])
    return made


@library.builtin("gensym", "(&optional prefix)")
def gensym(prefix: Any = "g") -> Any:
    """A fresh uninterned symbol, numbered from the start of the evaluation."""
    if type(prefix) is int:
        return Symbol(f"g{prefix}")
    counter = active().special(_COUNTER).ref
    number = counter[0] if counter else 0
    if type(number) is not int or number < 0:
        raise wrong_type("gensym: *gensym-counter*", 0, number, "an integer of at least 0")
    counter[:] = [number + 1]
    return Symbol(f"{string('gensym', 0, prefix)}{number}")


@library.builtin("gentemp", "(&optional prefix)")
def gentemp(prefix: Any = "t") -> Any:
    return symbol(f"{string('gentemp', 0, prefix)}{active().next_number()}")


@library.builtin("intern", "(name &optional package)", many=True)
def intern(name: Any, package: Any = NIL) -> Any:
    """The symbol spelt `name`, letter case kept; in the package :keyword the keyword.

    The second value is nil unless the symbol names something already, as for `find-symbol`.
    """
    string("intern", 1, name)
    as_keyword = _is_keyword_package("intern", package)
    return MV((keyword(name), NIL) if as_keyword else (symbol(name), _status(name, False)))


@library.builtin("find-symbol", "(name &optional package)", many=True)
def find_symbol(name: Any, package: Any = NIL) -> Any:
    """The symbol spelt `name` if it names a function, variable or type here, and :internal; else nil and nil.

    In the package :keyword every name is found, and :external. Which other symbols have been read so far says
    nothing: a file gives the same answer wherever it is evaluated.
    """
    string("find-symbol", 1, name)
    as_keyword = _is_keyword_package("find-symbol", package)
    status = _status(name, as_keyword)
    if status is NIL:
        return MV((NIL, NIL))
    return MV((keyword(name) if as_keyword else symbol(name), status))


def _is_keyword_package(function: str, package: Any) -> bool:
    """Whether a package argument means the keywords; E-VALUE-006 for a package that there is none of."""
    named = "" if package is NIL else text_of(function, 2, package).lower()
    if named not in ("", "keyword", _OWN_PACKAGE):
        raise error(
            "E-VALUE-006",
            f"{function}: there are no packages but :keyword",
            help=f"write ({function} name) or ({function} name :keyword)",
        )
    return named == "keyword"


def _status(name: str, as_keyword: bool) -> Any:
    if as_keyword:
        return keyword("external")
    session, found = active(), symbol(name)
    known = session.is_function(found) or session.module.variable(found) is not None
    typed = found in session.condition_types or found in session.types or session.type_expander(found) is not None
    return keyword("internal") if known or typed else NIL


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
        spend(FREE_WORK + 1)
    active().properties[a] = Cons(indicator, Cons(new, plist_of(a)))
    return new


@library.builtin("remprop", "(symbol indicator)")
def remprop(a: Any, indicator: Any) -> Any:
    plist = plist_of(_symbol("remprop", 1, a))
    items = list(plist) if isinstance(plist, Cons) else []
    spend(4 * len(items))
    for at in range(0, len(items) - 1, 2):
        if eql(items[at], indicator):
            active().properties[a] = lisp_list(items[:at] + items[at + 2 :])
            return T
    return NIL
