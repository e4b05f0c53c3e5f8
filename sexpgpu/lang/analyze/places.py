"""Places: setf, psetf, incf, decf, push, pushnew, pop, remf, rotatef, shiftf, and ways to define more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from sexpgpu.diag import Culprit
from sexpgpu.lang.analyze.grammar import SPECIALS, Items, fault, items_of, malformed, name_of, special
from sexpgpu.lang.analyze.lambdalist import parse_lambda_list
from sexpgpu.lang.analyze.lambdas import analyze_lambda
from sexpgpu.lang.analyze.macros import compile_time_scope, macro_function
from sexpgpu.lang.analyze.misspelt import meant_head
from sexpgpu.lang.analyze.writers import derived_writer, place_names, read_only_slot
from sexpgpu.lang.builtin import show
from sexpgpu.lang.core.access import PUT_PROPERTY, REMOVE_PROPERTY
from sexpgpu.lang.forms import MV, NIL, Cons, Symbol, all_values, lisp_list, setf_name, symbol
from sexpgpu.lang.ir import Const, Node
from sexpgpu.lang.module import call_shape
from sexpgpu.lang.place import Place
from sexpgpu.lang.scope import Scope

if TYPE_CHECKING:
    from sexpgpu.lang.analyze.core import Analyzer

DEEPEST_PLACE: Final = 500
"""How deep `setf` forms may be in each other's expansions, as macro calls may."""

_S: Final = {
    name: symbol(name)
    for name in (
        "setq", "let", "let*", "values", "the", "getf", "progn", "prog1", "car", "cdr", "cons", "adjoin", "+", "-",
        "multiple-value-bind", "quote", "list*", "ldb", "mask-field", "dpb", "deposit-field",
    )
}  # fmt: skip


class Access:
    """A place taken apart: what to evaluate once (in order), the names of the new values, how to write and read."""

    __slots__ = ("bindings", "reader", "stores", "writer")

    def __init__(self, bindings: list[tuple[Symbol, Any]], stores: list[Symbol], writer: Any, reader: Any) -> None:
        self.bindings = bindings
        self.stores = stores
        self.writer = writer
        self.reader = reader


def form(*parts: Any) -> Any:
    """A form from its parts."""
    return lisp_list(parts)


def environment_of(an: Analyzer, scope: Scope) -> Any:
    """What a macro's `&environment` parameter gets in a scope."""
    from sexpgpu.lang.analyze.core import Environment  # which imports this module's package

    return Environment(an, scope)


def access(an: Analyzer, target: Any, scope: Scope, place: Place) -> Access:
    """How to read and write a place; E-MACRO-003 for what is none."""
    where = place.of_form(target)
    while True:
        if isinstance(target, Symbol):
            expanded, changed = an.macroexpand(target, scope, where)
            if changed:
                target = expanded
                continue
            an.forbid_constant(target, where, "assigned")
            store = Symbol("new")
            return Access([], [store], form(_S["setq"], target, store), target)
        if not isinstance(target, Cons) or not isinstance(target.car, Symbol):
            raise fault(where, "E-MACRO-003", f"{show(target)} is not a place that can be written")
        name = target.car
        special_access = _ACCESSES.get(name)
        if special_access is not None and scope.local_function(name) is None:
            return special_access(an, target, scope, where)
        expander = an.module.setf_expander(name)
        if expander is not None and scope.local_function(name) is None:
            return _from_values(expander(target, environment_of(an, scope)), where)
        key = setf_name(name)
        if scope.local_function(key) is not None or an.module.has_function(key) or key in an.module.upcoming:
            return _function_access(target, key)
        expanded, changed = an.macroexpand(target, scope, where, once=True)
        if not changed:
            raise _no_place(an, target, name, scope, where)
        target = expanded


def _function_access(target: Cons, key: Symbol) -> Access:
    bindings: list[tuple[Symbol, Any]] = []
    args: list[Any] = []
    for arg in target.cdr if isinstance(target.cdr, Cons) else ():
        if _is_fixed(arg):
            args.append(arg)
        else:
            held = Symbol("arg")
            bindings.append((held, arg))
            args.append(held)
    store = Symbol("new")
    return Access(bindings, [store], form(key, store, *args), form(target.car, *args))


def _is_fixed(arg: Any) -> bool:
    """A form whose value no later subform changes: a constant, a keyword, `'x`, `#'f`."""
    if isinstance(arg, Cons):
        return arg.car in (_S["quote"], symbol("function"))
    return not isinstance(arg, Symbol) or arg.keyword or arg is NIL


def _no_place(an: Analyzer, target: Cons, name: Symbol, scope: Scope, place: Place) -> Exception:
    cell, local = an.module.function(name), scope.local_function(name)
    if name in SPECIALS:
        return fault(place, "E-MACRO-003", f"{show(target)} is not a place: `{show(name)}` is a special form")
    if local is None and not an.module.has_function(name):
        near, instead = meant_head(an.module, name.name, place_names(an) | {s.name for s in _ACCESSES}, target, scope)
        help = f"did you mean `{near}`?" if near else None
        message = f"{show(target)} is not a place: there is no function `{show(name)}`"
        return fault(place, "E-MACRO-003", message, help, culprit=Culprit(word=name.name, instead=instead))
    if local is None and (slot := read_only_slot(an, name)) is not None:
        return fault(place, "E-MACRO-003", f"{show(target)} is not a place: the slot `{show(slot)}` is read-only")
    writer = derived_writer(an, name, cell.span) if cell is not None and cell.span is not None else None
    help = f"define how to write it: {writer.text if writer else f'(defun (setf {show(name)}) (new ...) ...)'}"
    fix = (evolve(writer, text="\n" + writer.text),) if writer is not None and place.trail is None else ()
    return fault(place, "E-MACRO-003", f"`{show(name)}` is a function without a setf", help, fix=fix)


def _from_values(given: Any, place: Place) -> Access:
    """An Access from the five values of a setf expander."""
    parts = all_values(given)
    if len(parts) != 5:
        raise fault(place, "E-MACRO-003", "a setf expander gives five values")
    names, values, stores, writer, reader = parts
    pairs = list(zip(_items(names), _items(values), strict=False))
    return Access(pairs, _items(stores), writer, reader)


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Cons) else []


def _values_access(an: Analyzer, target: Cons, scope: Scope, place: Place) -> Access:
    parts = [access(an, part, scope, place) for part in _items(target.cdr)]
    bindings = [binding for part in parts for binding in part.bindings]
    # A nested (values ...) takes one value and sets its further places to nil.
    stores, writers = [], []
    for part in parts:
        first, *more = part.stores or [Symbol("new")]
        stores.append(first)
        cleared = lisp_list([form(name, NIL) for name in more])
        writers.append(form(_S["let"], cleared, part.writer) if more else part.writer)
    writer = form(_S["progn"], *writers, form(_S["values"], *stores))
    return Access(bindings, stores, writer, form(_S["values"], *[part.reader for part in parts]))


def _the_access(an: Analyzer, target: Cons, scope: Scope, place: Place) -> Access:
    return access(an, _items(target)[2], scope, place)


def _getf_access(an: Analyzer, target: Cons, scope: Scope, place: Place) -> Access:
    parts = _items(target.cdr)
    if not 2 <= len(parts) <= 3:
        raise malformed(place, "(getf plist indicator [default])", f"found {show(target)}")
    inner = access(an, parts[0], scope, place)
    indicator, default, new = Symbol("indicator"), Symbol("default"), Symbol("new")
    bindings = [*inner.bindings, (indicator, parts[1])]
    if len(parts) == 3:
        bindings.append((default, parts[2]))
    changed = form(PUT_PROPERTY, inner.reader, indicator, new)
    writer = form(_S["let"], form(form(inner.stores[0], changed)), inner.writer, new)
    reader = form(_S["getf"], inner.reader, indicator, *([default] if len(parts) == 3 else []))
    return Access(bindings, [new], writer, reader)


def _bits_access(an: Analyzer, target: Cons, scope: Scope, place: Place) -> Access:
    """`(ldb byte place)` and `(mask-field byte place)`: writing them puts the bits into the place."""
    parts = items_of(target.cdr, place, f"({target.car.name} byte place)")
    if len(parts) != 2:
        raise malformed(place, f"({target.car.name} byte place)", f"found {show(target)}")
    inside = access(an, parts[1][0], scope, parts[1][1])
    byte, new = Symbol("byte"), Symbol("new")
    put = _S["dpb"] if target.car is _S["ldb"] else _S["deposit-field"]
    stored = form(form(inside.stores[0], form(put, new, byte, inside.reader)))
    writer = form(_S["let"], stored, inside.writer, new)
    return Access([(byte, parts[0][0]), *inside.bindings], [new], writer, form(target.car, byte, inside.reader))


_ACCESSES: Final = {
    _S["values"]: _values_access,
    _S["the"]: _the_access,
    _S["getf"]: _getf_access,
    _S["ldb"]: _bits_access,
    _S["mask-field"]: _bits_access,
}


def _bound(bindings: list[tuple[Symbol, Any]], *body: Any) -> Any:
    if not bindings:
        return body[0] if len(body) == 1 else form(_S["progn"], *body)
    return form(_S["let*"], lisp_list([form(name, value) for name, value in bindings]), *body)


def _store(part: Access, value: Any) -> Any:
    """The form that gives a place the value(s) of `value`."""
    if len(part.stores) == 1:
        if isinstance(part.writer, Cons) and part.writer.car is _S["setq"]:
            return form(_S["setq"], part.reader, value)
        return form(_S["let"], form(form(part.stores[0], value)), part.writer)
    return form(_S["multiple-value-bind"], lisp_list(part.stores), value, part.writer)


def _pairs(items: Items, shape: str) -> list[tuple[tuple[Any, Place], tuple[Any, Place]]]:
    if len(items) % 2:
        raise malformed(items[-1][1], shape, f"the place {show(items[-1][0])} has no value")
    return list(zip(items[::2], items[1::2], strict=True))


@special("(setf [place value]...)")
def setf(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    forms = []
    for (target, where), (value, _) in _pairs(items, "(setf [place value]...)"):
        part = access(an, target, scope, where)
        forms.append(_bound(part.bindings, _store(part, value)))
    with an.session.nesting.within("the expansion of a place", DEEPEST_PLACE):
        return an.analyze(forms[0] if len(forms) == 1 else form(_S["progn"], *forms), scope, place)


@special("(psetf [place value]...)")
def psetf(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    result: Any = NIL
    for (target, where), (value, _) in reversed(_pairs(items, "(psetf [place value]...)")):
        part = access(an, target, scope, where)
        result = _bound(
            part.bindings, form(_S["multiple-value-bind"], lisp_list(part.stores), value, result, part.writer, NIL)
        )
    return an.analyze(result, scope, place)


def _modify(an: Analyzer, items: Items, scope: Scope, place: Place, function: Symbol) -> Node:
    part = access(an, items[0][0], scope, items[0][1])
    bindings = list(part.bindings)
    delta: Any = items[1][0] if len(items) > 1 else 1
    if isinstance(delta, Cons) or (isinstance(delta, Symbol) and bindings):
        held = Symbol("delta")
        bindings.append((held, delta))
        delta = held
    return an.analyze(_bound(bindings, _store(part, form(function, part.reader, delta))), scope, place)


@special("(incf place [delta])", 1, 2)
def incf(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _modify(an, items, scope, place, _S["+"])


@special("(decf place [delta])", 1, 2)
def decf(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _modify(an, items, scope, place, _S["-"])


@special("(push item place)", 2, 2)
def push(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _add(an, items[0][0], items[1], [], _S["cons"], scope, place)


@special("(pushnew item place [:key f] [:test f] [:test-not f])", 2)
def pushnew(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    return _add(an, items[0][0], items[1], [f for f, _ in items[2:]], _S["adjoin"], scope, place)


def _add(
    an: Analyzer, item: Any, target: tuple[Any, Place], more: list[Any], function: Symbol, scope: Scope, place: Place
) -> Node:
    part = access(an, target[0], scope, target[1])
    held = Symbol("item")
    added = form(function, held, part.reader, *more)
    return an.analyze(_bound([(held, item), *part.bindings], _store(part, added)), scope, place)


@special("(pop place)", 1, 1)
def pop(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    part = access(an, items[0][0], scope, items[0][1])
    held = Symbol("list")
    taken = form(_S["prog1"], form(_S["car"], held), _store(part, form(_S["cdr"], held)))
    return an.analyze(_bound([*part.bindings, (held, part.reader)], taken), scope, place)


@special("(remf place indicator)", 2, 2)
def remf(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    part = access(an, items[0][0], scope, items[0][1])
    indicator, rest, found = Symbol("indicator"), Symbol("rest"), Symbol("found")
    removed = form(REMOVE_PROPERTY, part.reader, indicator)
    body = form(_S["multiple-value-bind"], form(rest, found), removed, _store(part, rest), found)
    return an.analyze(_bound([*part.bindings, (indicator, items[1][0])], body), scope, place)


@special("(rotatef place...)")
def rotatef(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    parts = [access(an, target, scope, where) for target, where in items]
    if len(parts) < 2:
        return an.sequence([(part.reader, place) for part in parts] + [(NIL, place)], scope, place)
    result: Any = form(_S["progn"], *[part.writer for part in parts], NIL)
    for left, right in reversed(list(zip(parts, [*parts[1:], parts[0]], strict=True))):
        result = form(_S["multiple-value-bind"], lisp_list(left.stores), right.reader, result)
    bindings = [binding for part in parts for binding in part.bindings]
    return an.analyze(_bound(bindings, result), scope, place)


@special("(shiftf place... value)", 2)
def shiftf(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    parts = [access(an, target, scope, where) for target, where in items[:-1]]
    old = [Symbol("old") for _ in parts[0].stores]
    result: Any = form(_S["progn"], *[part.writer for part in parts], form(_S["values"], *old))
    readers = [*[part.reader for part in parts[1:]], items[-1][0]]
    for part, reader in reversed(list(zip(parts, readers, strict=True))):
        result = form(_S["multiple-value-bind"], lisp_list(part.stores), reader, result)
    result = form(_S["multiple-value-bind"], lisp_list(old), parts[0].reader, result)
    bindings = [binding for part in parts for binding in part.bindings]
    return an.analyze(_bound(bindings, result), scope, place)


@special("(defsetf name function | (defsetf name lambda-list (store...) form...)", 2)
def defsetf(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    name = name_of(items[0], "(defsetf name function)")
    if isinstance(items[1][0], Symbol) and items[1][0] is not NIL:
        writer = items[1][0]

        def short(target: Cons, environment: Any) -> Any:
            part = _function_access(target, setf_name(name))
            args = _items(part.reader)[1:]
            return _five(part.bindings, part.stores, form(writer, *args, part.stores[0]), part.reader)

        an.module.setf_expanders[name] = short
        return Const(place, name)
    shape = "(defsetf name lambda-list (store...) form...)"
    if len(items) < 3:
        raise malformed(place, shape, "the list of store variables is missing")
    stores = [name_of(item, shape) for item in items_of(*items[2], shape)]
    inner = compile_time_scope(scope)
    parameters = lisp_list([*stores, *_items(items[1][0])])
    made = analyze_lambda(an, name.name, (parameters, items[1][1]), items[3:], inner, place, name)
    function = an.session.compile_function(an.module, made, place)

    def long(target: Cons, environment: Any) -> Any:
        held = [(Symbol("arg"), arg) for arg in _items(target.cdr)]
        fresh = [Symbol("new") for _ in stores]
        names = [name for name, _ in held]
        return _five(held, fresh, function(*fresh, *names), form(target.car, *names))

    an.module.setf_expanders[name] = long
    return Const(place, name)


def _five(bindings: list[tuple[Symbol, Any]], stores: list[Symbol], writer: Any, reader: Any) -> Any:
    names = lisp_list([name for name, _ in bindings])
    values = lisp_list([value for _, value in bindings])
    return MV((names, values, lisp_list(stores), writer, reader))


@special("(define-setf-expander name lambda-list form...)", 2)
def define_setf_expander(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    name = name_of(items[0], "(define-setf-expander name lambda-list form...)")
    made = macro_function(an, name, items, compile_time_scope(scope), place)
    function = an.session.compile_function(an.module, made, place)
    an.module.setf_expanders[name] = function
    return Const(place, name)


@special("(define-modify-macro name lambda-list function [doc])", 3, 4)
def define_modify_macro(an: Analyzer, items: Items, scope: Scope, place: Place) -> Node:
    name = name_of(items[0], "(define-modify-macro name lambda-list function [doc])")
    function = items[2][0]
    given = form(_S["list*"], *_passed_on(items[1]))
    made = analyze_lambda(an, name.name, items[1], [(given, place)], compile_time_scope(scope), place)
    arguments = an.session.compile_function(an.module, made, place)

    def expand(call: Cons, environment: Any) -> Any:
        target, *args = _items(call.cdr)
        args = _items(arguments(*args))
        part = access(an, target, environment.scope, place)
        held = [(Symbol("arg"), arg) for arg in args]
        changed = form(function, part.reader, *[name for name, _ in held])
        return _bound([*part.bindings, *held], _store(part, changed))

    an.session.define_macro(an.module, name, expand, call_shape(name, show(items[1][0])), place)
    return Const(place, name)


def setf_expansion(part: Access) -> Any:
    """The five values of `get-setf-expansion`."""
    return _five(part.bindings, part.stores, part.writer, part.reader)


def _passed_on(parameters: tuple[Any, Place]) -> list[Any]:
    """The variables of a lambda list as the arguments of `list*`."""
    sections = parse_lambda_list(*parameters)
    names = [part.pattern for part in (*sections.required, *sections.optional)]
    return [*names, NIL if sections.rest is None else sections.rest.pattern]
