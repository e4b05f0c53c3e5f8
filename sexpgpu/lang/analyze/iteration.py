"""do, do*, dolist, dotimes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sexpgpu.lang.analyze.binding import dynamic_binding
from sexpgpu.lang.analyze.control import tag_body
from sexpgpu.lang.analyze.grammar import SPECIALS, Items, Special, items_of, malformed, name_of, special
from sexpgpu.lang.analyze.lambdas import split_body
from sexpgpu.lang.builtin import show
from sexpgpu.lang.forms import NIL, Cons, Symbol, lisp_list, symbol
from sexpgpu.lang.ir import Block, Const, DynamicLet, ForEach, Let, LocalRef, Node, Operation, Seq, While
from sexpgpu.lang.place import Place
from sexpgpu.lang.scope import SPECIAL, Scope

if TYPE_CHECKING:
    from sexpgpu.lang.analyze.core import Analyzer

DO: Final = "(do ((name [start [step]])...) (end-test result...) [tag | form]...)"
_WORDS: Final = {name: symbol(name) for name in ("let", "let*", "psetq", "setq", "block", "declare")}


@special("(do ((name [start [step]])...) (end-test result...) [tag | form]...)", 2)
def do(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _do(an, items, scope, place, "let", "psetq")


@special("(do* ((name [start [step]])...) (end-test result...) [tag | form]...)", 2)
def do_star(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _do(an, items, scope, place, "let*", "setq")


WHILE: Final = Symbol("while")
"""The operator `do` expands into: (while end-test (results) (steps) statement...); uninterned, so never written."""


def _do(an: Analyzer, items: Items, scope: Scope, place: Place, let: str, step: str) -> Node:
    bindings, steps = [], []
    for form, where in items_of(*items[0], DO):
        parts = items_of(form, where, DO) if isinstance(form, Cons) else [(form, where)]
        if not 1 <= len(parts) <= 3:
            raise malformed(where, DO, f"a do variable is (name [start [step]]), found {show(form)}")
        name = name_of(parts[0], DO)
        bindings.append(lisp_list([name, *[p[0] for p in parts[1:2]]]))
        if len(parts) == 3:
            steps += [name, parts[2][0]]
    end, where = items[1]
    clause = items_of(end, where, DO)
    if not clause:
        raise malformed(where, DO, "the end clause of a do is (end-test result...), found ()")
    declarations = [f for f, _ in items[2:] if isinstance(f, Cons) and f.car is _WORDS["declare"]]
    body = [f for f, _ in items[2 + len(declarations) :]]
    advance = lisp_list([Cons(_WORDS[step], lisp_list(steps))] if steps else [])
    loop = lisp_list([WHILE, clause[0][0], lisp_list([f for f, _ in clause[1:]]), advance, *body])
    form = lisp_list([_WORDS["block"], NIL, lisp_list([_WORDS[let], lisp_list(bindings), *declarations, loop])])
    return an.analyze(form, scope, place)


def while_(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    """The loop inside the bindings of a do."""
    test = an.analyze(items[0][0], scope, items[0][1])
    results = items_of(*items[1], DO)
    steps = an.each(items_of(*items[2], DO), scope)
    body = tag_body(an, items[3:], scope, place)
    turn = Seq(place, [body, *steps, Const(place, NIL)])
    return Seq(place, [While(place, test, turn), an.sequence(results, scope, place)])


SPECIALS[WHILE] = Special("(while end-test results steps statement...)", 3, None, while_)


def _head(an: Analyzer, items: Items, shape: str) -> tuple[tuple[Symbol, Place], tuple[Any, Place], Items]:
    form, place = items[0]
    parts = items_of(form, place, shape) if isinstance(form, Cons) else []
    if not 2 <= len(parts) <= 3:
        head = shape[shape.index(" ") + 1 : shape.index(")") + 1]
        raise malformed(place, shape, f"expected {head}, found {show(form)}")
    name = name_of(parts[0], shape)
    an.forbid_constant(name, parts[0][1], "bound")
    return (name, parts[0][1]), parts[1], parts[2:]


def _for_each(an: Analyzer, kind: str, shape: str, items: Items, scope: Scope, place: Place) -> Node:
    (name, where), (of, of_place), result = _head(an, items, shape)
    block = Block(place, NIL)
    outer = scope.inner()
    outer.blocks[NIL] = block
    source = an.analyze(of, outer, of_place)
    var = an.variable(name, scope.function, where)
    inner = outer.inner()
    body = split_body(an, items[1:])
    inner.variables.update((n, SPECIAL) for n in body.specials)
    if name in body.specials or an.is_special(name):
        dynamic = dynamic_binding(an, name, LocalRef(where, var), inner, where)
        inner.variables[name] = SPECIAL
        turn: Node = DynamicLet(place, [dynamic], tag_body(an, body.forms, inner, place))
    else:
        inner.variables[name] = var
        turn = tag_body(an, body.forms, inner, place)
    loop: Node = ForEach(place, kind, var, source, turn)
    if result:
        seen = outer.inner()
        seen.variables.update((n, SPECIAL) for n in body.specials if n is not name)
        loop = Seq(place, [loop, _result(an, kind, name, where, result[0], source, seen, place)])
    block.body = loop
    return block if block.used else loop


def _result(
    an: Analyzer, kind: str, name: Symbol, where: Place, result: tuple[Any, Place], source: Node,
    scope: Scope, place: Place,
) -> Node:  # fmt: skip
    """The result form sees the variable as it is at the end: nil, or the count."""
    inner = scope.inner()
    var = an.variable(name, scope.function, where)
    inner.variables[name] = var
    last: Node = Const(where, NIL)
    if kind == "count":
        # The source is a constant or the variable that `dotimes` made.
        last = Operation(where, "count_reached", [source])
    return Let(place, [(var, last)], an.analyze(result[0], inner, result[1]))


@special("(dolist (name list [result]) [tag | form]...)", 1)
def dolist(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _for_each(an, "list", "(dolist (name list [result]) [tag | form]...)", items, scope, place)


@special("(dotimes (name count [result]) [tag | form]...)", 1)
def dotimes(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    shape = "(dotimes (name count [result]) [tag | form]...)"
    form, where = items[0]
    if isinstance(form, Cons) and isinstance(form.cdr, Cons) and isinstance(form.cdr.cdr, Cons):
        # The count is needed again by the result form: evaluate it once, under a name.
        count = Symbol("count")
        parts = items_of(form, where, shape)
        var = an.variable(count, scope.function, where)
        value = an.analyze(parts[1][0], scope, parts[1][1])
        inner = scope.inner()
        inner.variables[count] = var
        head = Cons(form.car, Cons(count, form.cdr.cdr))
        rest = [(head, where), *items[1:]]
        return Let(place, [(var, value)], _for_each(an, "count", shape, rest, inner, place))
    return _for_each(an, "count", shape, items, scope, place)
