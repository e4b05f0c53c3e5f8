"""case, ecase, typecase, etypecase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sexpgpu.diag import warning
from sexpgpu.lang.analyze.grammar import Items, items_of, malformed, special
from sexpgpu.lang.analyze.reach import is_written, tell, warn_behind
from sexpgpu.lang.builtin import show
from sexpgpu.lang.edits import replaced, wrapped
from sexpgpu.lang.forms import NIL, Char, Cons, Symbol, T, symbol
from sexpgpu.lang.ir import Const, If, Let, LocalRef, LocalVar, Node, Operation, Or
from sexpgpu.lang.place import Place
from sexpgpu.lang.reader import QUOTE
from sexpgpu.lang.scope import Scope

if TYPE_CHECKING:
    from sexpgpu.lang.analyze.core import Analyzer

OTHERWISE: Final = (T, symbol("otherwise"))
CASE: Final = "(case key-form (key form...)...)"
_NEVER_EQL: Final = (str, Cons, list)
"""A literal of these is an object of its own: nothing else is `eql` to it."""
TYPECASE: Final = "(typecase form (type form...)...)"


@special("(case key-form (key form...)...)", 1)
def case(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _case(an, items, scope, place, exhaustive=False)


@special("(ecase key-form (key form...)...)", 1)
def ecase(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _case(an, items, scope, place, exhaustive=True)


def _case(an: Analyzer, items: Items, scope: Scope, place: Place, exhaustive: bool) -> Node:
    var = LocalVar(symbol("key"), an.unique("key"), scope.function, place)
    subject = an.analyze(items[0][0], scope, items[0][1])
    clauses: list[tuple[list[Any], Node, Place]] = []
    result: Node = Const(place, NIL)
    accepted: list[Any] = []
    seen: set[tuple[type, Any]] = set()
    for index, (form, where) in enumerate(items[1:]):
        if not isinstance(form, Cons):
            rest = items[index + 2 : index + 3]
            shown = " ".join(show(part) for part, _ in [(form, where), *rest])
            fix = wrapped(where, "(", ")", rest[0][1] if rest else None)
            raise malformed(where, CASE, f"a case clause is (key form...), found {show(form)}", f"write ({shown})", fix)
        parts = items_of(form, where, CASE)
        keys, key_place = parts[0]
        body = an.sequence(parts[1:], scope, where)
        if keys in OTHERWISE and isinstance(keys, Symbol) and not exhaustive:
            if index != len(items) - 2:
                raise malformed(where, CASE, f"the {show(keys)} clause is the last")
            result = body
            continue
        listed = items_of(keys, key_place, CASE) if isinstance(keys, Cons) or keys is NIL else [(keys, key_place)]
        found = [key for key, _ in listed]
        _warn_hopeless(an, keys, found, key_place)
        if is_written(form, place):
            _warn_repeated(an, listed, seen)
        accepted += found
        clauses.append((found, body, where))
    if exhaustive:
        args: list[Node] = [LocalRef(place, var), Const(place, accepted)]
        result = Operation(place, "no_case", args)
    for found, body, where in reversed(clauses):
        result = If(where, _is_one_of(an, var, found, where), body, result)
    key: Node = subject if isinstance(subject, Const) else Operation(subject.place, "case_key", [subject])
    return Let(place, [(var, key)], result)


def _warn_hopeless(an: Analyzer, keys: Any, found: list[Any], place: Place) -> None:
    if isinstance(keys, Cons) and keys.car is QUOTE and isinstance(keys.cdr, Cons) and keys.cdr.cdr is NIL:
        plain = show(keys.cdr.car)
        text = f"the key '{plain} is (quote {plain}): it matches the symbol quote"
        fix = replaced(place, f"'{plain}", plain)
        an.session.warn(warning("W-CASE-001", text, place.span, f"write {plain}", fix=fix))
        return
    for key in found:
        if isinstance(key, _NEVER_EQL):
            an.session.warn(warning("W-CASE-001", f"the key {show(key)} can never match: case compares by eql",
                                    place.span, "use cond with equal"))  # fmt: skip


def _warn_repeated(an: Analyzer, keys: Items, seen: set[tuple[type, Any]]) -> None:
    """W-CASE-001 for each key that an earlier clause has; `seen` are the keys so far."""
    for key, place in keys:
        if isinstance(key, Symbol | int | Char) and (type(key), key) in seen:
            tell(an, warning("W-CASE-001", f"the key {show(key)} can never match: an earlier one is equal", place.span))
    seen.update((type(key), key) for key, _ in keys if isinstance(key, Symbol | int | Char))


def _is_one_of(an: Analyzer, var: LocalVar, keys: list[Any], place: Place) -> Node:
    eql = an.module.base_function("eql")
    hopeful = [key for key in keys if not isinstance(key, _NEVER_EQL)]
    tests: list[Node] = [an.call_builtin(eql, [LocalRef(place, var), Const(place, key)], place) for key in hopeful]
    if not tests:
        return Const(place, NIL)
    return tests[0] if len(tests) == 1 else Or(place, tests)


@special("(typecase form (type form...)...)", 1)
def typecase(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _typecase(an, items, scope, place, exhaustive=False)


@special("(etypecase form (type form...)...)", 1)
def etypecase(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _typecase(an, items, scope, place, exhaustive=True)


def _typecase(an: Analyzer, items: Items, scope: Scope, place: Place, exhaustive: bool) -> Node:
    var = LocalVar(symbol("object"), an.unique("object"), scope.function, place)
    subject = an.analyze(items[0][0], scope, items[0][1])
    typep = an.module.base_function("typep")
    result: Node = Const(place, NIL)
    clauses: list[tuple[Any, Node, Place]] = []
    for form, where in items[1:]:
        if not isinstance(form, Cons):
            raise malformed(where, TYPECASE, f"a typecase clause is (type form...), found {show(form)}")
        parts = items_of(form, where, TYPECASE)
        if parts[0][0] in OTHERWISE and is_written(form, place):
            warn_behind(an, parts[0][0], items[len(clauses) + 2 :])
        clauses.append((parts[0][0], an.sequence(parts[1:], scope, where), where))
    if exhaustive:
        types = [kind for kind, _, _ in clauses]
        result = Operation(place, "no_type", [LocalRef(place, var), Const(place, types)])
    for kind, body, where in reversed(clauses):
        if kind in OTHERWISE:
            result = body
            continue
        test = an.call_builtin(typep, [LocalRef(where, var), Const(where, kind)], where)
        result = If(where, test, body, result)
    return Let(place, [(var, subject)], result)
