"""Emission of bindings and functions."""

from __future__ import annotations

import ast
from typing import Final

from sexpgpu.lang.emit import code
from sexpgpu.lang.emit.code import Frame, Loc
from sexpgpu.lang.emit.core import IGNORE, RETURN, Dest, Emitter, Into, Return, expression, statement
from sexpgpu.lang.ir import (
    DynamicLet,
    FunctionIR,
    If,
    Lambda,
    Let,
    LocalFunctions,
    LocalVar,
    MultipleBind,
    Optional,
    Seq,
)
from sexpgpu.lang.recovery import Guard

DEEPEST_GUARD: Final = 6
"""Nesting of blocks from which on guards are left out: Python bounds it, and other forms need it more."""


def own(em: Emitter, var: LocalVar) -> None:
    """The variable is a local one of the Python function under construction."""
    em.frame.names.add(var.name)


def needs_fresh(em: Emitter, variables: list[LocalVar]) -> bool:
    """Whether a binding made here must be a new one each time: a closure keeps it, and a loop comes back."""
    return em.frame.repeats > 0 and any(var.captured for var in variables)


@statement(Seq)
def seq(em: Emitter, node: Seq, dest: Dest) -> None:
    for part in node.parts[:-1]:
        em.statement(part, IGNORE)
    em.statement(node.parts[-1], dest)


@statement(Guard)
def guard(em: Emitter, node: Guard, dest: Dest) -> None:
    """`try: part` / `except recoverable(): dest = spoilt()`, each variable that the part assigns spoilt too."""
    if em.frame.depth >= DEEPEST_GUARD or isinstance(dest, Return):
        em.statement(node.part, dest)
        return
    loc = em.loc(node.place)
    with em.nested() as body:
        em.statement(node.part, dest)
    if not any(isinstance(stmt, ast.Assign | ast.Expr | ast.If | ast.For | ast.While | ast.Try) for stmt in body):
        em.frame.body.extend(body)
        return
    with em.captured() as handler:
        held = dest.name if isinstance(dest, Into) else em.temp()
        em.assign(held, em.runtime("spoilt", [], loc), loc)
        for var in node.vars:
            em.assign(var.name, code.name(held, loc), loc)
    em.add(code.guarded(body, em.runtime("recoverable", [], loc), handler, loc))


@statement(If)
def if_(em: Emitter, node: If, dest: Dest) -> None:
    loc = em.loc(node.place)
    test = em.test(node.test)
    with em.captured() as then:
        em.statement(node.then, dest)
    with em.captured() as orelse:
        em.statement(node.orelse, dest)
    if then or orelse:
        em.add(code.when(test, then, orelse, loc))
    else:
        em.add(code.expression(test, loc))


@statement(Let)
def let(em: Emitter, node: Let, dest: Dest) -> None:
    if needs_fresh(em, [var for var, _ in node.bindings]):
        em.lifted(node, dest)
        return
    for var, value in node.bindings:
        own(em, var)
        em.statement(value, Into(var.name))
    em.statement(node.body, dest)


@statement(MultipleBind)
def multiple_bind(em: Emitter, node: MultipleBind, dest: Dest) -> None:
    if needs_fresh(em, node.vars):
        em.lifted(node, dest)
        return
    loc = em.loc(node.place)
    for var in node.vars:
        own(em, var)
    if node.value.single and node.vars:
        em.statement(node.value, Into(node.vars[0].name))
        for var in node.vars[1:]:
            em.assign(var.name, code.name("NIL", loc), loc)
    else:
        value = em.expression(node.value, multi=True)
        if node.vars:
            taken = em.runtime("take", [value, code.constant(len(node.vars), loc)], loc)
            em.add(code.assign_all([var.name for var in node.vars], taken, loc))
        else:
            em.finish(value, IGNORE, loc)
    em.statement(node.body, dest)


@statement(DynamicLet)
def dynamic_let(em: Emitter, node: DynamicLet, dest: Dest) -> None:
    loc = em.loc(node.place)
    values = em.operands([value for _, _, value in node.bindings])
    held: list[tuple[str, str, ast.expr]] = []
    for (_, key, _), value in zip(node.bindings, values, strict=True):
        new, old = em.temp(), em.temp("old")
        em.assign(new, value, loc)
        held.append((key, old, code.name(new, loc)))
    for key, old, _ in held:
        em.assign(old, code.cell_contents(key, loc), loc)
    for key, _, value in held:
        em.add(code.store_cell(key, value, loc))
    with em.nested() as body:
        em.statement(node.body, dest)
    restore = [code.store_cell(key, code.name(old, loc), loc, whole=True) for key, old, _ in reversed(held)]
    fault = em.temp("fault")
    seen = code.expression(em.runtime("signal_fault", [code.name(fault, loc)], loc), loc)
    em.add(code.attempt(body, loc, "Exception", fault, [seen, code.reraise(loc)], restore))


@expression(Lambda)
def lambda_(em: Emitter, node: Lambda, multi: bool) -> ast.expr:
    loc = em.loc(node.place)
    function(em, node.function, node.function.info.label, loc)
    return code.name(node.function.info.label, loc)


@statement(LocalFunctions)
def local_functions(em: Emitter, node: LocalFunctions, dest: Dest) -> None:
    if needs_fresh(em, [var for var, _ in node.functions]):
        em.lifted(node, dest)
        return
    loc = em.loc(node.place)
    for var, _ in node.functions:
        own(em, var)
    for var, made in node.functions:
        label = made.info.label
        function(em, made, label, loc)
        em.assign(var.name, code.name(label, loc), loc)
    em.statement(node.body, dest)


def function(em: Emitter, made: FunctionIR, label: str, loc: Loc) -> None:
    """Define the Python function of a lambda, under `label`, where the emitter stands."""
    outer, em.frame = em.frame, Frame(em.frame)
    with em.ticking(loc):
        parameters, defaults, rest = _function_body(em, made, loc)
    em.define(label, parameters, defaults, rest, outer, loc)


def _function_body(em: Emitter, made: FunctionIR, loc: Loc) -> tuple[list[str], list[ast.expr], str | None]:
    """Emit the body of a lambda; gives its Python parameters, their defaults and the name of the rest."""
    parameters = [var.name for var in made.required]
    defaults: list[ast.expr] = []
    em.frame.names.update(parameters)
    for part in made.optional:
        em.frame.names.add(part.var.name)
        parameters.append(part.var.name)
        defaults.append(code.name("UNSET", loc))
        _default(em, part, loc)
    rest = None
    if made.keys is not None:
        rest = em.temp("args")
        _keywords(em, made, rest, loc)
    elif made.rest is not None:
        rest = made.rest.name
        own(em, made.rest)
        em.assign(rest, em.runtime("lisp_list", [code.name(rest, loc)], loc), loc)
    em.statement(made.body, RETURN)
    return parameters, defaults, rest


def _default(em: Emitter, part: Optional, loc: Loc) -> None:
    absent = code.same(code.name(part.var.name, loc), "UNSET", loc)
    if part.supplied is not None:
        own(em, part.supplied)
        given = code.choose(absent, code.name("NIL", loc), code.name("T", loc), loc)
        em.assign(part.supplied.name, given, loc)
        absent = code.same(code.name(part.var.name, loc), "UNSET", loc)
    with em.captured() as body:
        em.statement(part.default, Into(part.var.name))
    em.add(code.when(absent, body, [], loc))


def _keywords(em: Emitter, made: FunctionIR, rest: str, loc: Loc) -> None:
    """`k1, k2 = keys(spec, rest)`; the &rest list, where there is one, holds the keywords too."""
    keys = made.keys or []
    names = [part.var.name for part in keys]
    em.frame.names.update(names)
    names_constant = em.module.constant(made.info)
    found = em.runtime("keys", [code.name(names_constant, loc), code.name(rest, loc)], loc)
    if names:
        em.add(code.assign_all(names, found, loc))
    else:
        em.add(code.expression(found, loc))
    if made.rest is not None:
        own(em, made.rest)
        em.assign(made.rest.name, em.runtime("lisp_list", [code.name(rest, loc)], loc), loc)
    for part in keys:
        _default(em, part, loc)
