"""Functions that places need: property lists, and names as values."""

from __future__ import annotations

from typing import Any, Final

from sexpgpu.diag import error
from sexpgpu.lang.active import active, as_function
from sexpgpu.lang.analyze.grammar import SPECIALS
from sexpgpu.lang.builtin import Library, parse_parameters, show, wrong_count
from sexpgpu.lang.conditions import Poisoned, TypeFault
from sexpgpu.lang.core.expansions import EXPANSIONS, OPERATORS
from sexpgpu.lang.forms import MV, NIL, Cons, Symbol, T, boolean, lisp_list, setf_name, symbol
from sexpgpu.lang.library.equality import eql
from sexpgpu.lang.module import call_shape

PUT_PROPERTY: Final = Symbol("put-property")
REMOVE_PROPERTY: Final = Symbol("remove-property")
"""Uninterned, so that no file can redefine what `setf` and `remf` call."""

properties = Library("properties", names={"put-property": PUT_PROPERTY, "remove-property": REMOVE_PROPERTY})


@properties.builtin("put-property", "(plist indicator value)")
def put_property(plist: Any, indicator: Any, value: Any) -> Any:
    cell = plist
    while isinstance(cell, Cons) and isinstance(cell.cdr, Cons):
        if eql(cell.car, indicator):
            cell.cdr.car = value
            return plist
        cell = cell.cdr.cdr
    return Cons(indicator, Cons(value, plist))


@properties.builtin("remove-property", "(plist indicator)", many=True)
def remove_property(plist: Any, indicator: Any) -> Any:
    """The list without its first `indicator`, and whether there was one."""
    before = None
    cell = plist
    while isinstance(cell, Cons) and isinstance(cell.cdr, Cons):
        if eql(cell.car, indicator):
            if before is None:
                return MV((cell.cdr.cdr, T))
            before.cdr = cell.cdr.cdr
            return MV((plist, T))
        before = cell.cdr
        cell = cell.cdr.cdr
    return MV((plist, NIL))


library = Library("names", constants={"nil": NIL, "t": T})

_S: Final = {name: symbol(name) for name in ("or", "symbol", "cons", "eql", "setf", "null")}
_FUNCTION_NAME: Final = lisp_list(
    [_S["or"], _S["symbol"], lisp_list([_S["cons"], lisp_list([_S["eql"], _S["setf"]]),
                                        lisp_list([_S["cons"], _S["symbol"], _S["null"]])])]
)  # fmt: skip
"""The type of what names a function."""


def _name(value: Any, function: str) -> Symbol:
    if isinstance(value, Symbol):
        return value
    if isinstance(value, Cons) and value.car is symbol("setf") and isinstance(value.cdr, Cons):
        inner = value.cdr.car
        if isinstance(inner, Symbol) and value.cdr.cdr is NIL:
            return setf_name(inner)
    wrong = error("E-TYPE-001", f"{function} needs a name, got {show(value)}")
    raise TypeFault(wrong.diagnostic, value, _FUNCTION_NAME)


def _symbol(value: Any, function: str) -> Symbol:
    if isinstance(value, Symbol):
        return value
    wrong = error("E-TYPE-001", f"{function} needs a symbol, got {show(value)}")
    raise TypeFault(wrong.diagnostic, value, symbol("symbol"))


@library.builtin("symbol-value", "(symbol)")
def symbol_value(name: Any) -> Any:
    name = _symbol(name, "symbol-value")
    if name.keyword or name in (NIL, T):
        return name
    variable = active().module.variable(name)
    if variable is None or not variable.ref:
        poisoned = active().module.poisoned.get(name)
        if poisoned is not None:
            raise Poisoned(poisoned)
        raise error("E-NAME-001", f"variable `{show(name)}` is not bound")
    return variable.ref[0]


@library.builtin("(setf symbol-value)", "(new symbol)")
def set_symbol_value(new: Any, name: Any) -> Any:
    name = _symbol(name, "symbol-value")
    variable = active().special(name)
    if variable.kind == "constant":
        raise error("E-NAME-004", f"`{show(name)}` is a constant: it cannot be assigned")
    variable.ref[:] = [new]
    return new


@library.builtin("set", "(symbol value)")
def set_(name: Any, value: Any) -> Any:
    return set_symbol_value(value, name)


@library.builtin("boundp", "(symbol)")
def boundp(name: Any) -> Any:
    name = _symbol(name, "boundp")
    variable = active().module.variable(name)
    return boolean(name.keyword or name in (NIL, T) or (variable is not None and bool(variable.ref)))


@library.builtin("makunbound", "(symbol)")
def makunbound(name: Any) -> Any:
    active().special(_symbol(name, "makunbound")).ref.clear()
    return name


@library.builtin("fboundp", "(name)")
def fboundp(name: Any) -> Any:
    return boolean(active().is_function(_name(name, "fboundp")))


@library.builtin("fmakunbound", "(name)")
def fmakunbound(name: Any) -> Any:
    active().forget_function(_name(name, "fmakunbound"))
    return name


@library.builtin("fdefinition", "(name)")
def fdefinition(name: Any) -> Any:
    return active().function_named(_name(name, "fdefinition"))


@library.builtin("symbol-function", "(symbol)")
def symbol_function(name: Any) -> Any:
    return active().function_named(_symbol(name, "symbol-function"))


@library.builtin("(setf fdefinition)", "(new name)")
def set_fdefinition(new: Any, name: Any) -> Any:
    session = active()
    session.define_function(session.module, _name(name, "fdefinition"), new, None)
    return new


@library.builtin("(setf symbol-function)", "(new name)")
def set_symbol_function(new: Any, name: Any) -> Any:
    return set_fdefinition(new, name)


@library.builtin("macro-function", "(symbol &optional environment)")
def macro_function(name: Any, environment: Any = NIL) -> Any:
    name = _symbol(name, "macro-function")
    macro = active().macro_named(name, environment)
    if macro is not None:
        return _expansion_function(macro.expand)
    if name in EXPANSIONS:
        standard = EXPANSIONS[name]
        return _expansion_function(lambda form, environment: standard(form))
    if name in SPECIALS and name not in OPERATORS:
        # The analyzer takes the form as it is: what stands for a call is the call under the standard's name.
        return _expansion_function(lambda form, environment: Cons(name, form.cdr))
    return NIL


def _expansion_function(expand: Any) -> Any:
    """A function of a form and an environment, as Lisp calls it."""

    def expansion(*args: Any) -> Any:
        if len(args) != 2:
            raise wrong_count("macro-function", parse_parameters("(form environment)"), len(args))
        return expand(*args)

    return expansion


@library.builtin("(setf macro-function)", "(new symbol &optional environment)")
def set_macro_function(new: Any, name: Any, environment: Any = NIL) -> Any:
    session = active()
    named = _symbol(name, "macro-function")
    session.define_macro(session.module, named, as_function(new), call_shape(named, ""), None)
    return new


@library.builtin("special-operator-p", "(symbol)")
def special_operator_p(name: Any) -> Any:
    return boolean(_symbol(name, "special-operator-p") in OPERATORS)


@library.builtin("constantp", "(form &optional environment)")
def constantp(form: Any, environment: Any = NIL) -> Any:
    if isinstance(form, Symbol):
        variable = active().module.variable(form)
        return boolean(form.keyword or form in (NIL, T) or (variable is not None and variable.kind == "constant"))
    return boolean(not isinstance(form, Cons) or form.car is symbol("quote"))
