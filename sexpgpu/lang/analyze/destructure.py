"""Destructuring lambda lists, as the bindings of a let* over the functions of `lang.core.destructuring`."""

from __future__ import annotations

from typing import Any, Final

from sexpgpu.lang.analyze.lambdalist import LambdaList, parse_lambda_list
from sexpgpu.lang.core.destructuring import CHECK_KEYS, END, GIVEN, KEY_VALUE, NEED, REST_OF, Pattern
from sexpgpu.lang.forms import NIL, Cons, Symbol, lisp_list, symbol
from sexpgpu.lang.place import Place

QUOTE: Final = symbol("quote")
IF: Final = symbol("if")
CAR: Final = symbol("car")
CONSP: Final = symbol("consp")
LET_STAR: Final = symbol("let*")
T: Final = symbol("t")

Bindings = list[tuple[Symbol, Any]]


def call(*parts: Any) -> Any:
    """A form from its parts."""
    return lisp_list(parts)


def destructure(sections: LambdaList, source: Any, pattern: Pattern, place: Place) -> Bindings:
    """let* bindings that take the list `source` (a symbol) apart."""
    bindings: Bindings = []
    quoted = call(QUOTE, pattern)
    rest = source
    if sections.whole is not None:
        _bind(sections.whole.pattern, source, bindings, pattern, place)
    for part in sections.required:
        _bind(part.pattern, call(NEED, rest, quoted, source), bindings, pattern, part.place)
        rest = _step(rest, bindings)
    for part in sections.optional:
        if part.supplied is not None:
            bindings.append((part.supplied, call(CONSP, rest)))
        value = call(IF, call(CONSP, rest), call(CAR, rest), part.default)
        _bind(part.pattern, value, bindings, pattern, part.place)
        rest = _step(rest, bindings)
    if sections.rest is not None:
        _bind(sections.rest.pattern, rest, bindings, pattern, place)
    if sections.keys is not None:
        names = [part.key for part in sections.keys]
        check = call(CHECK_KEYS, rest, call(QUOTE, names), T if sections.other_keys else NIL, quoted)
        bindings.append((Symbol("checked"), check))
        for part in sections.keys:
            found = Symbol("found")
            bindings.append((found, call(KEY_VALUE, rest, call(QUOTE, part.key))))
            if part.supplied is not None:
                bindings.append((part.supplied, call(GIVEN, found)))
            _bind(part.pattern, call(IF, call(GIVEN, found), found, part.default), bindings, pattern, part.place)
    elif sections.rest is None:
        bindings.append((Symbol("end"), call(END, rest, quoted, source)))
    for part in sections.aux:
        _bind(part.pattern, part.default, bindings, pattern, part.place)
    return bindings


def _step(rest: Any, bindings: Bindings) -> Symbol:
    following = Symbol("rest")
    bindings.append((following, call(REST_OF, rest)))
    return following


def _bind(target: Any, value: Any, bindings: Bindings, pattern: Pattern, place: Place) -> None:
    if target is NIL:  # the empty lambda list, which only the empty list matches
        inside = call(QUOTE, Pattern(pattern.name, "()"))
        bindings.append((Symbol("end"), call(END, value, inside, value)))
    elif isinstance(target, Symbol):
        bindings.append((target, value))
    else:
        part = Symbol("part")
        bindings.append((part, value))
        inner = parse_lambda_list(target, place.of_form(target), destructuring=True)
        bindings.extend(destructure(inner, part, Pattern(pattern.name, inner.text, inner=True), place.of_form(target)))


def let_star(bindings: Bindings, body: Any) -> Any:
    """`(let* bindings . body)`."""
    return Cons(LET_STAR, Cons(lisp_list([call(name, value) for name, value in bindings]), body))


def name_places(pattern: Any, place: Place) -> dict[Symbol, Place]:
    """Where the text has each name of a pattern."""
    found: dict[Symbol, Place] = {}
    cell = pattern
    while isinstance(cell, Cons):
        where = place.of_element(cell)
        if isinstance(cell.car, Symbol):
            found.setdefault(cell.car, where)
        else:
            found |= name_places(cell.car, where)
        cell = cell.cdr
    return found
