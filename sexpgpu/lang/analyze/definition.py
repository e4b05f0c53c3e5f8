"""defun, defmacro, defvar and their kin; eval-when, declaim, proclaim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sexpgpu.lang.analyze.binding import function_key
from sexpgpu.lang.analyze.grammar import OTHERWISE, SPECIALS, Items, fault, items_of, malformed, name_of, special
from sexpgpu.lang.analyze.lambdas import analyze_lambda, read_declaration
from sexpgpu.lang.analyze.macros import compile_time_scope, macro_function
from sexpgpu.lang.builtin import show
from sexpgpu.lang.forms import NIL, Cons, Symbol, symbol
from sexpgpu.lang.ir import Const, If, Lambda, Node, Operation, Seq
from sexpgpu.lang.module import call_shape
from sexpgpu.lang.place import Place
from sexpgpu.lang.scope import Scope

if TYPE_CHECKING:
    from sexpgpu.lang.analyze.core import Analyzer

DEFUN: Final = "(defun name lambda-list form...)"
_TIMES: Final = frozenset({"execute", "compile-toplevel", "load-toplevel", "eval", "load", "compile"})


@special("(defun name lambda-list form...)", 2)
def defun(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    """A defun below the top level: it closes over the bindings around it."""
    key = defined_function(an, items, place)
    name = items[0][0]
    block = name.cdr.car if isinstance(name, Cons) else name
    function = analyze_lambda(an, key.name, items[1], items[2:], scope, place, block)
    args: list[Node] = [Const(place, an.module), Const(place, key), Const(place, name), Lambda(place, function)]
    return Operation(place, "define_function", [*args, Const(place, place)])


def defined_function(an: Analyzer, items: Items, place: Place) -> Symbol:
    """The function name a defun defines; its cell exists from here on, so that the body may call it."""
    key = function_key(items[0][0], items[0][1], DEFUN)
    if key in SPECIALS:
        raise fault(items[0][1], "E-NAME-004", f"`{key.name}` is a special form: it cannot be defined", OTHERWISE)
    an.forbid_constant(key, items[0][1], "defined")
    an.session.declare_function(an.module, key, place)
    return key


def defined_macro(items: Items, shape: str) -> Symbol:
    """The name that a defmacro defines; E-NAME-004 for that of a special form."""
    name = name_of(items[0], shape)
    if name in SPECIALS:
        raise fault(items[0][1], "E-NAME-004", f"`{show(name)}` is a special form: it cannot be defined", OTHERWISE)
    return name


@special("(defmacro name lambda-list form...)", 2)
def defmacro(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    name = defined_macro(items, "(defmacro name lambda-list form...)")
    function = macro_function(an, name, items, compile_time_scope(scope), place)
    expander = an.session.compile_function(an.module, function, place)
    shape = call_shape(name, function.info.parameters.text)
    an.session.define_macro(an.module, name, expander, shape, place)
    return Const(place, name)


def _define(an: Analyzer, kind: str, items: Items, scope: Scope, place: Place, always: bool = True) -> Node:
    name = name_of(items[0], f"({kind} name [value] [doc])")
    if name.keyword or name in (NIL, symbol("t")):
        an.forbid_constant(name, items[0][1], "defined")
        raise fault(items[0][1], "E-NAME-004", f"`{name.name}` is a constant: it cannot be defined", OTHERWISE)
    operation = {"def": "lexical", "defconstant": "constant"}.get(kind, "special")
    if operation == "special":
        an.session.declare_variable(an.module, name, "special", place)
    args: list[Node] = [Const(place, an.module), Const(place, name), Const(place, operation), Const(place, place)]
    if len(items) == 1:
        return Operation(place, "declare_variable", args)
    value = an.analyze(items[1][0], scope, items[1][1])
    defined: Node = Operation(place, "define_variable", [*args, value])
    if not always:
        defined = _if_unbound(an, name, place, defined, args)
    if len(items) == 3 and isinstance(items[2][0], str):
        return Seq(place, [Operation(place, "document", [args[1], Const(place, items[2][0])]), defined])
    return defined


def _if_unbound(an: Analyzer, name: Symbol, place: Place, define: Node, args: list[Node]) -> Node:
    bound = Operation(place, "variable_bound", args[:2])
    return If(place, bound, Const(place, name), define)


@special("(defvar name [value] [doc])", 1, 3)
def defvar(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _define(an, "defvar", items, scope, place, always=False)


@special("(defparameter name value [doc])", 2, 3)
def defparameter(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _define(an, "defparameter", items, scope, place)


@special("(defconstant name value [doc])", 2, 3)
def defconstant(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _define(an, "defconstant", items, scope, place)


@special("(def name value [doc])", 2, 3)
def def_(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _define(an, "def", items, scope, place)


@special("(define-symbol-macro name expansion)", 2, 2)
def define_symbol_macro(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    name = name_of(items[0], "(define-symbol-macro name expansion)")
    an.forbid_constant(name, items[0][1], "defined")
    an.module.symbol_macros[name] = items[1][0]
    return Const(place, name)


@special("(eval-when (time...) form...)", 1)
def eval_when(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    shape = "(eval-when (:compile-toplevel :load-toplevel :execute) form...)"
    times = set()
    for form, where in items_of(*items[0], shape):
        if not isinstance(form, Symbol) or form.name not in _TIMES:
            raise malformed(where, shape, "a time is :compile-toplevel, :load-toplevel or :execute")
        times.add(form.name)
    if not times & {"execute", "eval", "load-toplevel", "load"}:
        return Const(place, NIL)
    return an.sequence(items[1:], scope, place)


@special("(declaim (declaration name...)...)")
def declaim(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    for form, where in items:
        for name in read_declaration(an, form, where):
            an.session.declare_variable(an.module, name, "special", where)
    return Const(place, NIL)


@special("(load-time-value form [read-only])", 1, 2)
def load_time_value(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    value: Any = an.session.evaluate_form(items[0][0], an.module, items[0][1])
    return Const(place, value)
