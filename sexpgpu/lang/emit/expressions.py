"""Emission of the nodes that are plain expressions: constants, variables, calls, conditionals."""

from __future__ import annotations

import ast

from sexpgpu.lang.emit import code
from sexpgpu.lang.emit.code import Loc
from sexpgpu.lang.emit.core import (
    ARGUMENT_WORK,
    CONS_WORK,
    IGNORE,
    INLINE,
    LIBRARY_WORK,
    MULTIPLE,
    Emitter,
    expression,
)
from sexpgpu.lang.ir import (
    Call,
    CallBuiltin,
    Const,
    GlobalRef,
    If,
    Keep,
    Lambda,
    LocalRef,
    Node,
    Operation,
    Or,
    Seq,
    SetGlobal,
    SetLocal,
    Single,
    Spread,
    Values,
)


@expression(Const)
def const(em: Emitter, node: Const, multi: bool) -> ast.expr:
    return em.value(node.value, em.loc(node.place))


@expression(LocalRef)
def local_ref(em: Emitter, node: LocalRef, multi: bool) -> ast.expr:
    return code.name(node.var.name, em.loc(node.place))


@expression(GlobalRef)
def global_ref(em: Emitter, node: GlobalRef, multi: bool) -> ast.expr:
    return code.cell(node.key, em.loc(node.place))


@expression(SetLocal)
def set_local(em: Emitter, node: SetLocal, multi: bool) -> ast.expr:
    value = em.expression(node.value)
    em.frame.write(node.var.name)
    return code.walrus(node.var.name, value, em.loc(node.place))


@expression(SetGlobal)
def set_global(em: Emitter, node: SetGlobal, multi: bool) -> ast.expr:
    loc = em.loc(node.place)
    value = em.expression(node.value)
    held = em.temp()
    em.assign(held, value, loc)
    em.add(code.store_cell(node.key, code.name(held, loc), loc))
    return code.name(held, loc)


@expression(If)
def if_(em: Emitter, node: If, multi: bool) -> ast.expr:
    test = em.test(node.test)
    return em.choice(test, node.then, node.orelse, lambda part: em.expression(part, multi), em.loc(node.place))


@expression(Or)
def or_(em: Emitter, node: Or, multi: bool) -> ast.expr:
    """`a if test(a) else b ...`; only the last part may give several values."""
    loc = em.loc(node.place)
    held = em.temp()
    first, *rest = node.parts
    em.assign(held, em.expression(first), loc)
    remaining = rest[0] if len(rest) == 1 else Or(node.place, rest)
    with em.captured() as body:
        em.assign(held, em.expression(remaining, multi), loc)
    test = em.truth(code.name(held, loc), loc)
    em.add(code.when(code.negate(test, loc), body, [], loc))
    return code.name(held, loc)


@expression(Seq)
def seq(em: Emitter, node: Seq, multi: bool) -> ast.expr:
    for part in node.parts[:-1]:
        em.statement(part, IGNORE)
    return em.expression(node.parts[-1], multi)


@expression(Single)
def single(em: Emitter, node: Single, multi: bool) -> ast.expr:
    return em.expression(node.part)


@expression(Values)
def values(em: Emitter, node: Values, multi: bool) -> ast.expr:
    loc = em.loc(node.place)
    parts = em.operands(node.parts)
    if multi:
        return code.call(code.name("MV", loc), [code.tuple_of(parts, loc)], loc)
    if not parts:
        return code.name("NIL", loc)
    return em.runtime("first_of", parts, loc)


@expression(Keep)
def keep(em: Emitter, node: Keep, multi: bool) -> ast.expr:
    loc = em.loc(node.place)
    held = em.temp()
    em.assign(held, em.expression(node.first, multi and not node.single), loc)
    for part in node.rest:
        em.statement(part, IGNORE)
    return code.name(held, loc)


@expression(CallBuiltin)
def call_builtin(em: Emitter, node: CallBuiltin, multi: bool) -> ast.expr:
    inline = INLINE.get(node.builtin.name)
    found = inline(em, node) if inline is not None else None
    if found is not None:
        return found
    return em.single(plain_call(em, node), node, multi)


def plain_call(em: Emitter, node: CallBuiltin) -> ast.expr:
    loc = em.loc(node.place)
    each = CONS_WORK if node.builtin.name in ("list", "list*") else ARGUMENT_WORK
    em.frame.work += LIBRARY_WORK + each * (len(node.args) + len(node.keywords))
    values = em.operands([*node.args, *(value for _, value in node.keywords)])
    count = len(node.args)
    keywords = [(key, value) for (key, _), value in zip(node.keywords, values[count:], strict=True)]
    function = code.name(em.module.named(f"b:{node.builtin.name}", node.builtin.function), loc)
    return code.call(function, values[:count], loc, keywords)


@expression(Call)
def call(em: Emitter, node: Call, multi: bool) -> ast.expr:
    function, *args = em.operands([node.function, *node.args])
    return em.single(code.call(function, args, em.loc(node.place)), node, multi)


@expression(Spread)
def spread(em: Emitter, node: Spread, multi: bool) -> ast.expr:
    loc = em.loc(node.place)
    multiple = frozenset(range(1, len(node.parts) + 1))
    function, *parts = em.operands([node.function, *node.parts], multiple)
    args = [code.starred(em.runtime("all_values", [part], loc), loc) for part in parts]
    return em.single(code.call(function, args, loc), node, multi)


@expression(Operation)
def operation(em: Emitter, node: Operation, multi: bool) -> ast.expr:
    loc = em.loc(node.place)
    if node.name == "as_function":
        return _as_function(em, node.args[0], loc)
    last = frozenset({len(node.args) - 1}) if node.name in MULTIPLE else frozenset()
    return em.runtime(node.name, em.operands(node.args, last), loc)


def _as_function(em: Emitter, node: Node, loc: Loc) -> ast.expr:
    """`f if type(f) is function else as_function(f)`."""
    value = em.expression(node)
    if isinstance(node, Lambda):
        return value
    held = value.id if isinstance(value, ast.Name) else em.temp()
    first = value if isinstance(value, ast.Name) else code.walrus(held, value, loc)
    kind = code.call(code.name("type", loc), [first], loc)
    asked = em.runtime("as_function", [code.name(held, loc)], loc)
    return code.choose(code.same(kind, "function", loc), code.name(held, loc), asked, loc)
