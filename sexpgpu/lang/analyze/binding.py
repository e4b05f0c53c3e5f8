"""let, let*, destructuring-bind, setq, function, flet, labels, macrolet, symbol-macrolet, locally, progv."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from sexpgpu.diag import SxError, warning
from sexpgpu.lang.analyze.destructure import destructure, name_places
from sexpgpu.lang.analyze.grammar import Items, fault, items_of, malformed, name_of, special
from sexpgpu.lang.analyze.lambdalist import parse_lambda_list
from sexpgpu.lang.analyze.lambdas import analyze_lambda, refused_lambda, split_body
from sexpgpu.lang.analyze.macros import local_macro
from sexpgpu.lang.analyze.reach import is_written, warn_uncalled, warn_unread
from sexpgpu.lang.builtin import show
from sexpgpu.lang.core.destructuring import Pattern
from sexpgpu.lang.edits import head_replaced, removed, wrapped
from sexpgpu.lang.forms import NIL, Cons, Symbol, lisp_list, setf_name, symbol
from sexpgpu.lang.ir import (
    Const,
    DynamicLet,
    GlobalRef,
    Let,
    LocalFunctions,
    LocalRef,
    LocalVar,
    Node,
    Seq,
    Within,
)
from sexpgpu.lang.place import Place
from sexpgpu.lang.scope import SPECIAL, Scope, SymbolMacro

if TYPE_CHECKING:
    from sexpgpu.lang.analyze.core import Analyzer

SETF: Final = symbol("setf")
SETQ: Final = symbol("setq")
PSETF: Final = symbol("psetf")
LAMBDA: Final = symbol("lambda")
LET: Final = "(let ((name value)...) form...)"


class Binding:
    """One `(name value)` of a let."""

    __slots__ = ("name", "name_place", "place", "value")

    def __init__(self, name: Symbol, name_place: Place, value: tuple[Any, Place], place: Place) -> None:
        self.name = name
        self.name_place = name_place
        self.value = value
        self.place = place


def _bindings(an: Analyzer, items: Items, word: str) -> list[Binding]:
    shape = LET.replace("let", word, 1)
    form, place = items[0]
    if isinstance(form, Symbol) and form is not NIL and len(items) > 1:
        shown = f"write ({word} (({show(form)} {show(items[1][0])})) ...)"
        fix = wrapped(place, "((", "))", items[1][1])
        raise malformed(place, shape, f"the bindings are a list of (name value), found {show(form)}", shown, fix)
    found = []
    for binding, where in items_of(form, place, shape):
        if isinstance(binding, Symbol) and binding is not NIL:
            name, name_place, value = binding, where, (NIL, where)
        elif isinstance(binding, Cons):
            parts = items_of(binding, where, "(name value)")
            if not 1 <= len(parts) <= 2:
                raise _long_binding(an, binding, parts, where, shape)
            name, name_place = name_of(parts[0], shape), parts[0][1]
            value = parts[1] if len(parts) == 2 else (NIL, where)
        else:
            raise _bare_bindings(items_of(form, place, shape), place, word, binding, where)
        an.forbid_constant(name, where, "bound")
        found.append(Binding(name, name_place, value, where))
    return found


def _bare_bindings(parts: Items, place: Place, word: str, stray: Any, where: Place) -> SxError:
    """The error of `(let (x 1 y 2) ...)`: a value stands where a binding should."""
    shape = LET.replace("let", word, 1)
    message = f"a binding is (name value), found {show(stray)}"
    pairs = list(zip(parts[::2], parts[1::2], strict=False))
    if len(parts) % 2 or not all(isinstance(name[0], Symbol) for name, _ in pairs):
        return malformed(where, shape, message)
    shown = " ".join(f"({show(name[0])} {show(value[0])})" for name, value in pairs)
    fix = [edit for name, value in pairs for edit in wrapped(name[1], "(", ")", value[1])]
    return malformed(place, shape, message, f"write ({word} ({shown}) ...)", tuple(fix))


def _long_binding(an: Analyzer, binding: Any, parts: Items, place: Place, shape: str) -> SxError:
    """The error of `(x 1 2)`: one value too many, or a call without its parentheses."""
    message = f"a binding is (name value), found {show(binding)}"
    head = parts[1][0] if len(parts) > 2 else None
    if isinstance(head, Symbol) and an.module.has_function(head) and an.module.variable(head) is None:
        call = " ".join(show(form) for form, _ in parts[1:])
        fix = wrapped(parts[1][1], "(", ")", parts[-1][1])
        return malformed(place, shape, message, f"write ({show(parts[0][0])} ({call}))", fix)
    if len(parts) < 3:
        return malformed(place, shape, message)
    fix = removed(parts[2][1], parts[-1][1])
    return malformed(place, shape, message, f"write ({show(parts[0][0])} {show(parts[1][0])})", fix)


def _shape_slip(an: Analyzer, item: tuple[Any, Place], word: str, scope: Scope) -> None:
    """`(let (x 1) ...)`: the parentheses around the one binding are missing."""
    form, place = item
    if (
        isinstance(form, Cons)
        and isinstance(form.car, Symbol)
        and isinstance(form.cdr, Cons)
        and form.cdr.cdr is NIL
        and isinstance(form.cdr.car, Cons)
        and scope.variable(form.car) is None
    ):
        head = form.cdr.car.car
        if isinstance(head, Symbol) and form.cdr.car.cdr is not NIL and an.module.has_function(head):
            raise malformed(
                place,
                LET.replace("let", word, 1),
                f"a binding is (name value), found {show(form.car)}",
                f"write ({word} ({show(form)}) ...)",
                wrapped(place, "(", ")"),
            )


@special("(let ((name value)...) form...)", 1)
def let(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    _shape_slip(an, items[0], "let", scope)
    bindings = _bindings(an, items, "let")
    parts = split_body(an, items[1:])
    inner = scope.inner()
    lexical: list[tuple[LocalVar, Node]] = []
    dynamic = []
    seen: set[Symbol] = set()
    values, asked = _values_beside(an, bindings, scope, place)
    named: list[tuple[LocalVar, Place]] = []
    for binding, value in zip(bindings, values, strict=True):
        name = binding.name
        if name in seen:
            fix = head_replaced(place, "let", "let*")
            raise malformed(binding.place, LET, f"`{show(name)}` is bound twice in one let", "use let*", fix)
        seen.add(name)
        var = an.variable(name, scope.function, binding.place)
        lexical.append((var, value))
        if name in parts.specials or an.is_special(name):
            dynamic.append(dynamic_binding(an, name, LocalRef(binding.place, var), inner, binding.place))
            inner.variables[name] = SPECIAL
        else:
            inner.variables[name] = var
            if name not in asked:
                named.append((var, binding.name_place))
    for name in parts.specials:
        inner.variables.setdefault(name, SPECIAL)
    body = an.sequence(parts.forms, inner, place)
    if is_written(items[0][0], place):
        warn_unread(an, named, parts.ignored)
    if dynamic:
        body = DynamicLet(place, dynamic, body)
    return Let(place, lexical, body) if lexical else body


def _values_beside(
    an: Analyzer, bindings: list[Binding], scope: Scope, place: Place
) -> tuple[list[Node], frozenset[Symbol]]:
    """The values of a let, and the names that one of them takes to be bound already, which is told there."""
    values = []
    asked: set[Symbol] = set()
    for i, binding in enumerate(bindings):
        around = scope.inner()
        around.beside, around.let = {b.name: False for b in bindings[:i]}, place
        values.append(an.guarded(*binding.value, around))
        asked.update(name for name, wanted in around.beside.items() if wanted)
    return values, frozenset(asked)


@special("(let* ((name value)...) form...)", 1)
def let_star(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    _shape_slip(an, items[0], "let*", scope)
    bindings = _bindings(an, items, "let*")
    return bind_in_turn(an, bindings, items[1:], scope, place, told=is_written(items[0][0], place))


def bind_in_turn(
    an: Analyzer, bindings: list[Binding], items: Items, scope: Scope, place: Place, *, told: bool
) -> Node:
    """A let* of bindings; `told` says whether those that nothing reads are worth a warning."""
    parts = split_body(an, items)
    inner = scope
    steps: list[tuple[LocalVar, Node] | tuple[Any, str, Node]] = []
    named: list[tuple[LocalVar, Place]] = []
    for binding in bindings:
        value = an.guarded(*binding.value, inner)
        inner = inner.inner()
        name = binding.name
        if name in parts.specials or an.is_special(name):
            steps.append(dynamic_binding(an, name, value, inner, binding.place))
            inner.variables[name] = SPECIAL
        else:
            var = an.variable(name, scope.function, binding.place)
            steps.append((var, value))
            inner.variables[name] = var
            named.append((var, binding.name_place))
    if parts.specials:
        inner = inner.inner()
        bound = {b.name for b in bindings}
        inner.variables.update((name, SPECIAL) for name in parts.specials - bound)
    body = an.sequence(parts.forms, inner, place)
    if told:
        warn_unread(an, named, parts.ignored)
    for step in reversed(steps):
        if len(step) == 3:
            body = DynamicLet(place, [step], body)
        elif isinstance(body, Let):
            body.bindings.insert(0, step)
        else:
            body = Let(place, [step], body)
    return body


def dynamic_binding(an: Analyzer, name: Symbol, value: Node, scope: Scope, place: Place) -> tuple[list[Any], str, Node]:
    """The binding of a special variable; W-NAME-002 where its name does not show that it is one."""
    inner = scope.inner()
    inner.variables[name] = SPECIAL
    variable = an.global_variable(name, inner, place)
    if variable.kind == "special" and not (name.name.startswith("*") and name.name.endswith("*")):
        an.session.warn(
            warning("W-NAME-002", f"`{show(name)}` is a special variable: this binding is dynamic", place.span)
        )
    return variable.ref, an.module.key_of(variable.ref, f"v:{name.name}"), value


@special("(destructuring-bind lambda-list expression form...)", 2)
def destructuring_bind(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    (pattern, where), (source, source_place), *body = items
    sections = parse_lambda_list(pattern, where, destructuring=True)
    held, names = Symbol("list"), name_places(pattern, where)
    bindings = [Binding(held, where, (source, source_place), where)]
    for name, value in destructure(sections, held, Pattern("destructuring-bind", sections.text), where):
        bindings.append(Binding(name, names.get(name, where), (value, place.of_form(value)), names.get(name, where)))
    return bind_in_turn(an, bindings, body, scope, place, told=is_written(pattern, place))


@special("(progv names values form...)", 2)
def progv(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    args = an.each(items[:2], scope)
    return Within(place, "progv", args, an.sequence(items[2:], scope, place))


@special("(locally form...)")
def locally(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    parts = split_body(an, items)
    inner = scope.inner()
    inner.variables.update((name, SPECIAL) for name in parts.specials)
    return an.sequence(parts.forms, inner, place)


@special("(setq [name value]...)")
def setq(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    if len(items) % 2:
        raise malformed(items[-1][1], "(setq [name value]...)", f"`{show(items[-1][0])}` has no value")
    nodes: list[Node] = []
    for target, value in zip(items[::2], items[1::2], strict=True):
        name = name_of(target, "(setq [name value]...)")
        meaning = scope.variable(name)
        if isinstance(meaning, SymbolMacro) or (meaning is None and an.module.symbol_macro(name) is not None):
            form = Cons(SETF, Cons(name, Cons(value[0], NIL)))
            nodes.append(an.analyze(form, scope, place))
        else:
            nodes.append(an.assign(name, an.analyze(value[0], scope, value[1]), scope, target[1]))
    if not nodes:
        return Const(place, NIL)
    return nodes[0] if len(nodes) == 1 else Seq(place, nodes)


@special("(psetq [name value]...)")
def psetq(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    if len(items) % 2:
        raise malformed(items[-1][1], "(psetq [name value]...)", f"`{show(items[-1][0])}` has no value")
    names = [name_of(target, "(psetq [name value]...)") for target in items[::2]]
    if any(isinstance(scope.variable(name), SymbolMacro) for name in names):
        # The parts of a place that a name stands for are evaluated in their turn, between the values.
        return an.analyze(Cons(PSETF, lisp_list([form for form, _ in items])), scope, place)
    bindings: list[tuple[LocalVar, Node]] = []
    writes: list[Node] = []
    for name, target, value in zip(names, items[::2], items[1::2], strict=True):
        var = an.variable(name, scope.function, target[1])
        bindings.append((var, an.analyze(value[0], scope, value[1])))
        writes.append(an.assign(name, LocalRef(target[1], var), scope, target[1]))
    return Let(place, bindings, Seq(place, [*writes, Const(place, NIL)]))


def function_key(form: Any, place: Place, shape: str) -> Symbol:
    """A function name: a symbol, or `(setf name)`."""
    if isinstance(form, Symbol) and not form.keyword:
        return form
    if isinstance(form, Cons) and form.car is SETF and isinstance(form.cdr, Cons) and isinstance(form.cdr.car, Symbol):
        return setf_name(form.cdr.car)
    raise malformed(place, shape, f"expected a function name, found {show(form)}")


@special("(function name)", 1, 1)
def function(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    form, where = items[0]
    if isinstance(form, Cons) and form.car is LAMBDA:
        return an.analyze(form, scope, where)
    name = function_key(form, where, "(function name)")
    local = scope.local_function(name)
    if isinstance(local, LocalVar):
        return an.local(local, scope, place)
    if local is not None or an.module.macro(name) is not None:
        raise fault(where, "E-NAME-002", f"`{show(name)}` is a macro, not a function")
    cell = an.module.function(name)
    if cell is None:
        cell = an.undefined(name, scope, where, now=True)
    if cell.builtin is not None:
        return Const(place, cell.builtin.call)
    if not cell.defined:
        an.note_undefined(cell, scope, where)
    return GlobalRef(place, cell.ref, an.module.key_of(cell.ref, f"f:{name.name}"))


@special("(flet ((name lambda-list form...)...) form...)", 1)
def flet(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _local_functions(an, items, scope, place, recursive=False)


@special("(labels ((name lambda-list form...)...) form...)", 1)
def labels(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _local_functions(an, items, scope, place, recursive=True)


def _local_functions(an: Analyzer, items: Items, scope: Scope, place: Place, recursive: bool) -> Node:
    shape = "(flet ((name lambda-list form...)...) form...)"
    inner = scope.inner()
    definitions = []
    for form, where in items_of(*items[0], shape):
        parts = items_of(form, where, shape)
        if len(parts) < 2:
            raise malformed(where, shape, f"a local function is (name lambda-list form...), found {show(form)}")
        name = function_key(*parts[0], shape)
        var = an.variable(name, scope.function, parts[0][1])
        inner.functions[name] = var
        with suppress(SxError):  # it is reported where the function is analysed
            var.parameters = parse_lambda_list(*parts[1]).parameters
        definitions.append((name, var, parts, where))
    functions = []
    for name, var, parts, where in definitions:
        block = parts[0][0].cdr.car if isinstance(parts[0][0], Cons) else name
        outer = inner if recursive else scope
        try:
            made = analyze_lambda(an, name.name, parts[1], parts[2:], outer, where, block)
        except SxError as fault_:
            made = refused_lambda(an, name.name, fault_, parts, outer, where)
            var.parameters = None
        functions.append((var, made))
    body = split_body(an, items[1:])
    inside = inner.inner()
    inside.variables.update((n, SPECIAL) for n in body.specials)
    node = an.sequence(body.forms, inside, place)
    if is_written(items[0][0], place):
        warn_uncalled(an, [(var, parts[0][1]) for _, var, parts, _ in definitions])
    return LocalFunctions(place, functions, node)


@special("(macrolet ((name lambda-list form...)...) form...)", 1)
def macrolet(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    shape = "(macrolet ((name lambda-list form...)...) form...)"
    inner = scope.inner()
    for form, where in items_of(*items[0], shape):
        parts = items_of(form, where, shape)
        if len(parts) < 2:
            raise malformed(where, shape, f"a local macro is (name lambda-list form...), found {show(form)}")
        name = name_of(parts[0], shape)
        inner.functions[name] = local_macro(an, name, parts, scope, where)
    body = split_body(an, items[1:])
    inner.variables.update((n, SPECIAL) for n in body.specials)
    return an.sequence(body.forms, inner, place)


@special("(symbol-macrolet ((name expansion)...) form...)", 1)
def symbol_macrolet(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    shape = "(symbol-macrolet ((name expansion)...) form...)"
    inner = scope.inner()
    for form, where in items_of(*items[0], shape):
        parts = items_of(form, where, shape)
        if len(parts) != 2:
            raise malformed(where, shape, f"a symbol macro is (name expansion), found {show(form)}")
        name = name_of(parts[0], shape)
        an.forbid_constant(name, where, "bound")
        if an.is_special(name):
            raise malformed(where, shape, f"`{show(name)}` is a special variable, it cannot be a symbol macro")
        inner.variables[name] = SymbolMacro(parts[1][0])
    body = split_body(an, items[1:])
    inner.variables.update((n, SPECIAL) for n in body.specials)
    return an.sequence(body.forms, inner, place)
