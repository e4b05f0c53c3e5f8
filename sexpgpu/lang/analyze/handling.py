"""handler-case, handler-bind, ignore-errors, define-condition, assert, check-type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from sexpgpu.lang.analyze.binding import dynamic_binding
from sexpgpu.lang.analyze.grammar import Items, fault, items_of, malformed, name_of, special
from sexpgpu.lang.analyze.lambdas import split_body
from sexpgpu.lang.builtin import show
from sexpgpu.lang.core.handlers import no_condition_type
from sexpgpu.lang.forms import NIL, Cons, Symbol, T, lisp_list, symbol
from sexpgpu.lang.ir import Const, DynamicLet, Handle, If, Lambda, LocalRef, LocalVar, Node, Operation, Values, Within
from sexpgpu.lang.place import EVALUATED, Place
from sexpgpu.lang.printer import print_form
from sexpgpu.lang.scope import SPECIAL, Scope

if TYPE_CHECKING:
    from sexpgpu.diag import SxError
    from sexpgpu.lang.analyze.core import Analyzer
    from sexpgpu.lang.module import Module
    from sexpgpu.lang.session import Session

CASE: Final = "(handler-case form (type ([name]) form...)... [(:no-error lambda-list form...)])"
_S: Final = {name: symbol(name) for name in ("block", "return-from", "multiple-value-call", "lambda", "handler-case")}


@special("(handler-case form (type ([name]) form...)...)", 1)
def handler_case(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    for item in items[1:]:
        clause = item[0]
        if isinstance(clause, Cons) and isinstance(clause.car, Symbol) and clause.car.name == "no-error":
            return _with_no_error(an, [i for i in items if i is not item], clause, scope, place)
    with an.handled():
        body = an.analyze(items[0][0], scope, items[0][1])
    clauses: list[tuple[Any, LocalVar | None, Node]] = []
    for form, where in items[1:]:
        if not isinstance(form, Cons) or not isinstance(form.cdr, Cons):
            raise malformed(where, CASE, f"a handler is (type ([name]) form...), found {show(form)}")
        parts = items_of(form, where, CASE)
        note_type(an, *parts[0], CASE)
        names = items_of(*parts[1], CASE)
        if len(names) > 1:
            raise malformed(parts[1][1], CASE, "a handler takes at most one name")
        handler = split_body(an, parts[2:])
        inner = scope.inner()
        var = dynamic = None
        if names:
            name = name_of(names[0], CASE)
            an.forbid_constant(name, names[0][1], "bound")
            var = an.variable(name, scope.function, names[0][1])
            inner.variables[name] = var
            if name in handler.specials or an.is_special(name):
                dynamic = dynamic_binding(an, name, LocalRef(where, var), inner, where)
        inner.variables.update((n, SPECIAL) for n in handler.specials)
        taken = an.sequence(handler.forms, inner, where)
        clauses.append((parts[0][0], var, taken if dynamic is None else DynamicLet(where, [dynamic], taken)))
    return Handle(place, body, clauses) if clauses else body


def note_type(an: Analyzer, specifier: Any, place: Place, shape: str) -> None:
    """Remember the condition types that a handler names and nothing has defined so far; refuse what can be none."""
    if isinstance(specifier, Cons):
        words = items_of(specifier, place, shape)
        if isinstance(specifier.car, Symbol) and specifier.car.name in ("or", "and", "not"):
            for part, where in words[1:]:
                note_type(an, part, where, shape)
    elif not isinstance(specifier, Symbol):
        raise malformed(place, shape, f"{show(specifier)} is not a condition type")
    elif specifier not in (T, NIL, *an.session.condition_types) and place.source.file != EVALUATED:
        an.module.handled_types.append((specifier, place))


def missing_types(session: Session, module: Module) -> Iterator[SxError]:
    """E-TYPE-001 of each condition type that a handler of the file names and that nothing defines, now at its end."""
    if module.torn is None and module.missing is None:  # what cannot be read, or found, may define it
        for name, place in module.handled_types:
            if name not in session.condition_types and name not in module.poisoned:
                told = no_condition_type(name).diagnostic
                yield fault(place, told.code, told.message, told.help, culprit=told.culprit)
    module.handled_types.clear()


def _with_no_error(an: Analyzer, items: Items, clause: Cons, scope: Scope, place: Place) -> Node:
    """(block error (multiple-value-call (lambda ...) (block normal (return-from error (handler-case ...)))))"""
    failed, normal = Symbol("failed"), Symbol("normal")
    handlers = [form for form, _ in items[1:]]
    guarded = lisp_list([_S["return-from"], normal, items[0][0]])
    tried = lisp_list([_S["return-from"], failed, lisp_list([_S["handler-case"], guarded, *handlers])])
    function = Cons(_S["lambda"], clause.cdr)
    called = lisp_list([_S["multiple-value-call"], function, lisp_list([_S["block"], normal, tried])])
    return an.analyze(lisp_list([_S["block"], failed, called]), scope, place)


@special("(ignore-errors form...)")
def ignore_errors(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    var = an.variable(symbol("condition"), scope.function, place)
    given = Values(place, [Const(place, NIL), LocalRef(place, var)])
    with an.handled():
        body = an.sequence(items, scope, place)
    return Handle(place, body, [(symbol("error"), var, given)])


@special("(handler-bind ((type function)...) form...)", 1)
def handler_bind(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    shape = "(handler-bind ((type function)...) form...)"
    types, functions = [], []
    for form, where in items_of(*items[0], shape):
        parts = items_of(form, where, shape)
        if len(parts) != 2:
            raise malformed(where, shape, f"a binding is (type function), found {show(form)}")
        note_type(an, *parts[0], shape)
        types.append(parts[0][0])
        handler = an.analyze(parts[1][0], scope, parts[1][1])
        functions.append(Operation(parts[1][1], "as_function", [handler]))  # at fault where it is written
    with an.handled():
        body = an.sequence(items[1:], scope, place)
    return Within(place, "handler_bind", [Const(place, types), *functions], body)


@special("(assert test [(place...) [format argument...]])", 1)
def assert_(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    test = an.analyze(items[0][0], scope, items[0][1])
    args: list[Node] = [Const(place, print_form(items[0][0])), *an.each(items[2:], scope)]
    return If(place, test, Const(place, NIL), Operation(place, "assertion_failed", args))


@special("(check-type place type [text])", 2, 3)
def check_type(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    value = an.analyze(items[0][0], scope, items[0][1])
    text = an.analyze(items[2][0], scope, items[2][1]) if len(items) == 3 else Const(place, NIL)
    name = Const(place, print_form(items[0][0]))
    return Operation(place, "check_type", [value, Const(place, items[1][0]), name, text])


@special("(define-condition name (parent...) (slot...) option...)", 2)
def define_condition(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    shape = "(define-condition name (parent...) ((slot :initarg :key :initform form :reader name)...) option...)"
    name = name_of(items[0], shape)
    parents = [name_of(item, shape) for item in items_of(*items[1], shape)]
    slots: list[Any] = []
    defaults: list[Node] = []
    for form, where in items_of(*items[2], shape) if len(items) > 2 else []:
        slot, where = (form, where) if isinstance(form, Cons) else (Cons(form, NIL), where)
        parts = items_of(slot, where, shape)
        keys: list[Symbol] = []
        readers, default = [], None
        for (option, _), (value, value_place) in zip(parts[1::2], parts[2::2], strict=False):
            word = option.name if isinstance(option, Symbol) else ""
            if word == "initarg":
                keys.append(value)
            elif word in ("reader", "accessor"):
                readers.append(value)
            elif word == "initform":
                default = (value, value_place)
        slots.append((name_of(parts[0], shape), keys, readers, default is not None))
        thunk = [default] if default is not None else []
        body = an.sequence(thunk, scope.inner(), where)
        defaults.append(body if not thunk else _thunk(an, default, scope, where))
    report: Node = Const(place, NIL)
    given: list[str] = []
    for option, where in items[3:]:
        parts = items_of(option, where, shape)
        if isinstance(parts[0][0], Symbol) and parts[0][0].name == "default-initargs":
            for (key, _), value in zip(parts[1::2], parts[2::2], strict=False):
                given.append(key.name)
                defaults.append(_thunk(an, value, scope, value[1]))
        if isinstance(parts[0][0], Symbol) and parts[0][0].name == "report" and len(parts) == 2:
            value = parts[1][0]
            report = an.analyze(value, scope, parts[1][1]) if isinstance(value, Cons) else Const(where, value)
    for _, _, readers, _ in slots:
        for reader in readers:
            an.session.declare_function(an.module, reader, place)
    args: list[Node] = [Const(place, an.module), Const(place, name), Const(place, parents), Const(place, slots)]
    return Operation(place, "define_condition", [*args, report, Const(place, given), *defaults])


def _thunk(an: Analyzer, default: Any, scope: Scope, place: Place) -> Node:
    form = lisp_list([_S["lambda"], NIL, default[0]])
    node = an.analyze(form, scope, place)
    assert isinstance(node, Lambda)
    return node
