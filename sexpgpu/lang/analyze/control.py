"""if, progn, block, tagbody, catch and their kin, and the macros that are one test or sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sexpgpu.diag import Culprit, nearest
from sexpgpu.lang.analyze.grammar import SPECIALS, Items, fault, items_of, malformed, name_of, special
from sexpgpu.lang.analyze.lambdas import in_block
from sexpgpu.lang.analyze.reach import is_written, warn_behind, warn_unreached
from sexpgpu.lang.builtin import show
from sexpgpu.lang.edits import replaced, wrapped
from sexpgpu.lang.forms import NIL, Cons, Symbol, symbol
from sexpgpu.lang.ir import (
    Catch,
    Const,
    Go,
    If,
    Keep,
    Node,
    Operation,
    Or,
    Protect,
    ReturnFrom,
    Seq,
    Single,
    Tagbody,
)
from sexpgpu.lang.place import Place
from sexpgpu.lang.scope import Scope

if TYPE_CHECKING:
    from sexpgpu.lang.analyze.core import Analyzer

NO_BLOCK: Final = NIL


@special("(quote object)", 1, 1)
def quote(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return Const(place, items[0][0])


@special("(if test then [else])", 2, 3)
def if_(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    test, then, *orelse = an.each(items, scope)
    return If(place, test, then, orelse[0] if orelse else Const(place, NIL))


@special("(progn form...)")
def progn(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return an.sequence(items, scope, place)


@special("(when test form...)", 1)
def when(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    test = an.analyze(items[0][0], scope, items[0][1])
    return If(place, test, an.sequence(items[1:], scope, place), Const(place, NIL))


@special("(unless test form...)", 1)
def unless(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    test = an.analyze(items[0][0], scope, items[0][1])
    return If(place, test, Const(place, NIL), an.sequence(items[1:], scope, place))


@special("(and form...)")
def and_(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    nodes = an.each(items, scope)
    if not nodes:
        return Const(place, symbol("t"))
    result = nodes.pop()
    while nodes:
        result = If(place, nodes.pop(), result, Const(place, NIL))
    return result


@special("(or form...)")
def or_(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    nodes = an.each(items, scope)
    if not nodes:
        return Const(place, NIL)
    return nodes[0] if len(nodes) == 1 else Or(place, nodes)


@special("(cond (test form...)...)")
def cond(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    shape = "(cond (test form...)...)"
    result: Node = Const(place, NIL)
    clauses = []
    for index, (form, where) in enumerate(items):
        if not isinstance(form, Cons):
            help = f"write ({show(form)})"
            raise malformed(
                where, shape, f"a cond clause is (test form...), found {show(form)}", help, wrapped(where, "(", ")")
            )
        if _reads_as_call(an, form, scope):
            rest = items[index + 1 : index + 2]
            help = f"write ({' '.join(show(part) for part, _ in [(form, where), *rest])})"
            fix = wrapped(where, "(", ")", rest[0][1] if rest else None)
            raise malformed(where, shape, f"a cond clause is (test form...), found the call {show(form)}", help, fix)
        parts = items_of(form, where, shape)
        test = an.analyze(parts[0][0], scope, parts[0][1])
        clauses.append((test, an.sequence(parts[1:], scope, where) if len(parts) > 1 else None, where))
        if isinstance(test, Const) and test.value is not NIL and is_written(form, place):
            warn_behind(an, parts[0][0], items[len(clauses) :])
    for test, body, where in reversed(clauses):
        if body is not None:
            result = If(where, test, body, result)
        elif isinstance(test, Const) and test.value is not NIL:
            result = test
        else:
            result = Or(where, [Single(where, test), result])
    return result


def _reads_as_call(an: Analyzer, form: Cons, scope: Scope) -> bool:
    """Whether a clause whose test would be a variable that there is not calls a function instead."""
    name = form.car
    if not isinstance(name, Symbol) or name.keyword or form.cdr is NIL or scope.variable(name) is not None:
        return False
    module = an.module
    if module.variable(name) is not None or name in module.upcoming or name in module.poisoned:
        return False
    return module.has_function(name) or module.macro(name) is not None or name in SPECIALS


@special("(prog1 first form...)", 1)
def prog1(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    first, *rest = an.each(items, scope)
    return Keep(place, first, rest, single=True)


@special("(prog2 first second form...)", 2)
def prog2(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    before, first, *rest = an.each(items, scope)
    return Seq(place, [before, Keep(place, first, rest, single=True)])


@special("(block name form...)", 1)
def block(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return in_block(an, name_of(items[0], "(block name form...)"), items[1:], scope, place)


@special("(return-from name [value])", 1, 2)
def return_from(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _leave(an, name_of(items[0], "(return-from name [value])"), items[1:], scope, place)


@special("(return [value])", 0, 1)
def return_(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _leave(an, NO_BLOCK, items, scope, place)


def _leave(an: Analyzer, name: Symbol, value: Items, scope: Scope, place: Place) -> Node:
    target = scope.block(name)
    if target is None:
        names = _block_names(scope)
        near = nearest(name.name, names)
        help = f"did you mean `{near}`?" if near else None
        if name is NIL:
            help = "`return` leaves a do, dolist, dotimes, loop or (block nil ...)"
        message = f"there is no block `{show(name)}` around this"
        raise fault(place, "E-MACRO-004", message, help, culprit=Culprit(word=name.name, instead=near))
    target.used = True
    result = an.analyze(value[0][0], scope, value[0][1]) if value else Const(place, NIL)
    return ReturnFrom(place, target, result)


def _block_names(scope: Scope) -> set[str]:
    found: set[str] = set()
    level: Scope | None = scope
    while level is not None:
        found.update(name.name for name in level.blocks)
        level = level.parent
    return found


@special("(tagbody [tag | form]...)")
def tagbody(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return Seq(place, [tag_body(an, items, scope, place), Const(place, NIL)])


def tag_body(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    """The statements of a tagbody; a plain sequence when it has no tags."""
    tags: dict[Any, int] = {}
    segments: list[Items] = [[]]
    for form, where in items:
        if isinstance(form, Symbol | int):
            if form in tags:
                raise malformed(where, "(tagbody [tag | form]...)", f"the tag `{show(form)}` occurs twice")
            segments.append([])
            tags[form] = len(segments) - 1
        else:
            segments[-1].append((form, where))
    if not tags:
        return an.sequence(segments[0], scope, place)
    node = Tagbody(place, tags)
    inner = scope.inner()
    inner.tags.update((tag, (node, index)) for tag, index in tags.items())
    node.segments = [an.each(segment, inner) for segment in segments]
    for nodes, segment in zip(node.segments, segments, strict=True):
        warn_unreached(an, nodes, segment)
    return node


def _tag_names(scope: Scope) -> set[str]:
    found: set[str] = set()
    around: Scope | None = scope
    while around is not None:
        found.update(tag.name for tag in around.tags if isinstance(tag, Symbol))
        around = around.parent
    return found


@special("(go tag)", 1, 1)
def go(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    tag, where = items[0]
    found = scope.tag(tag) if isinstance(tag, Symbol | int) else None
    if found is None:
        near = nearest(tag.name, _tag_names(scope)) if isinstance(tag, Symbol) else None
        help = f"did you mean `{near}`?" if near else None
        fix = replaced(where, show(tag), near) if near else ()
        raise fault(where, "E-MACRO-004", f"there is no tag `{show(tag)}` around this", help, fix=fix)
    return Go(place, *found)


@special("(prog ((name value)...) [tag | form]...)", 1)
def prog(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _prog(an, items, scope, place, symbol("let"))


@special("(prog* ((name value)...) [tag | form]...)", 1)
def prog_star(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _prog(an, items, scope, place, symbol("let*"))


def _prog(an: Analyzer, items: Items, scope: Scope, place: Place, let: Symbol) -> Node:
    declarations = [f for f, _ in items[1:] if isinstance(f, Cons) and f.car is symbol("declare")]
    rest: Any = NIL
    for form, _ in reversed(items[len(declarations) + 1 :]):
        rest = Cons(form, rest)
    body: Any = Cons(Cons(symbol("tagbody"), rest), NIL)
    for declaration in reversed(declarations):
        body = Cons(declaration, body)
    form = Cons(symbol("block"), Cons(NIL, Cons(Cons(let, Cons(items[0][0], body)), NIL)))
    return an.analyze(form, scope, place)


@special("(catch tag form...)", 1)
def catch(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    tag = an.analyze(items[0][0], scope, items[0][1])
    return Catch(place, tag, an.sequence(items[1:], scope, place))


@special("(throw tag result)", 2, 2)
def throw(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return Operation(place, "throw", an.each(items, scope))


@special("(unwind-protect form cleanup...)", 1)
def unwind_protect(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    body = an.analyze(items[0][0], scope, items[0][1])
    if len(items) == 1:
        return body
    return Protect(place, body, an.sequence(items[1:], scope, place))


@special("(the type form)", 2, 2)
def the(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return an.analyze(items[1][0], scope, items[1][1])


@special("(declare (declaration name...)...)")
def declare(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    raise malformed(place, "(let (...) (declare ...) form...)", "a declaration stands at the head of a body only")
