"""Multiple values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sexpgpu.lang.analyze.binding import dynamic_binding
from sexpgpu.lang.analyze.grammar import Items, items_of, malformed, name_of, special
from sexpgpu.lang.analyze.lambdas import split_body
from sexpgpu.lang.analyze.reach import is_written, warn_unread
from sexpgpu.lang.builtin import show
from sexpgpu.lang.forms import Symbol, lisp_list, symbol
from sexpgpu.lang.ir import (
    DynamicLet,
    Keep,
    LocalRef,
    LocalVar,
    MultipleBind,
    Node,
    Operation,
    Seq,
    Single,
    Spread,
    Values,
)
from sexpgpu.lang.place import Place
from sexpgpu.lang.scope import SPECIAL, Scope

if TYPE_CHECKING:
    from sexpgpu.lang.analyze.core import Analyzer


@special("(values form...)")
def values(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    nodes = an.each(items, scope)
    if len(nodes) == 1:
        return nodes[0] if nodes[0].single else Single(place, nodes[0])
    return Values(place, nodes)


@special("(multiple-value-call function form...)", 1)
def multiple_value_call(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    function, *parts = an.each(items, scope)
    return Spread(place, Operation(place, "as_function", [function]), parts)


@special("(multiple-value-prog1 first form...)", 1)
def multiple_value_prog1(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    first, *rest = an.each(items, scope)
    return Keep(place, first, rest, single=first.single)


@special("(multiple-value-list form)", 1, 1)
def multiple_value_list(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return Operation(place, "value_list", an.each(items, scope))


@special("(nth-value n form)", 2, 2)
def nth_value(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return Operation(place, "nth_value", an.each(items, scope))


@special("(multiple-value-bind (name...) form form...)", 2)
def multiple_value_bind(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    shape = "(multiple-value-bind (name...) form form...)"
    value = an.analyze(items[1][0], scope, items[1][1])
    parts = split_body(an, items[2:])
    inner = scope.inner()
    variables, dynamic = [], []
    named: list[tuple[LocalVar, Place]] = []
    seen: set[Symbol] = set()
    for item in items_of(*items[0], shape):
        name = name_of(item, shape)
        an.forbid_constant(name, item[1], "bound")
        if name in seen:
            raise malformed(item[1], shape, f"`{show(name)}` is bound twice")
        seen.add(name)
        var = an.variable(name, scope.function, item[1])
        variables.append(var)
        if name in parts.specials or an.is_special(name):
            dynamic.append(dynamic_binding(an, name, LocalRef(item[1], var), inner, item[1]))
            inner.variables[name] = SPECIAL
        else:
            inner.variables[name] = var
            named.append((var, item[1]))
    for name in parts.specials:
        inner.variables.setdefault(name, SPECIAL)
    body = an.sequence(parts.forms, inner, place)
    if is_written(items[0][0], place):
        warn_unread(an, named, parts.ignored)
    if dynamic:
        body = DynamicLet(place, dynamic, body)
    return MultipleBind(place, variables, value, body)


@special("(multiple-value-setq (name...) form)", 2, 2)
def multiple_value_setq(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    names = [item[0] for item in items_of(*items[0], "(multiple-value-setq (name...) form)")]
    if not names:
        return Seq(place, [Single(place, an.analyze(items[1][0], scope, items[1][1]))])
    target: Any = lisp_list([symbol("values"), *names])
    form = lisp_list([symbol("values"), lisp_list([symbol("setf"), target, items[1][0]])])
    return an.analyze(form, scope, place)
