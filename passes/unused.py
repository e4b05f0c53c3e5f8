"""What nobody reads of a module's loops and private functions: part of `simplify`.

A loop loses the outs that are not read, the states that only feed themselves or such outs, and the items and shared
values that its body no longer needs. Private functions that nothing calls go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import evolve
from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.loops import CALL, Loop, call_loop, close_body, loop_of, new_body, read_loop
from sexpgpu.dialects.signature import terminator_of, type_of


def prune_loops(func: Any, module: Any, context: Context) -> bool:
    """Rebuild every loop in `func` that does more than its results' readers need; whether there was one."""
    changed = False
    for op in reversed([op.operation for op in func.regions[0].blocks[0].operations]):
        if (found := loop_of(op)) is not None:
            changed |= _prune(op, *found, module, context)
    return changed


def _prune(op: Any, loop: Loop, body: Any, module: Any, context: Context) -> bool:
    block = body.regions[0].blocks[0]
    returned = list(terminator_of(body).operands)
    arguments = list(block.arguments)
    kept = {i for i, result in enumerate(op.results) if next(iter(result.uses), None) is not None}
    if loop.associative:  # which it is with all states
        kept |= set(range(loop.states))
    while True:
        live = _slice(block, [returned[i] for i in kept])
        fed = {i for i in range(loop.states) if arguments[i] in live}
        if fed <= kept:
            break
        kept |= fed
    first, last = loop.states, loop.states + len(loop.items)
    items = [i for i in range(first, last) if arguments[i] in live] or [first]  # one item says how many turns
    shared = [i for i in range(last, len(arguments)) if arguments[i] in live]
    states = [i for i in range(first) if i in kept]
    taken = [*states, *items, *shared]
    given = sorted(kept)
    if len(taken) == len(arguments) and len(given) == len(returned):
        return False
    builder = Builder(context, ir.InsertionPoint(op), op.location)
    name = ir.StringAttr(body.attributes["sym_name"]).value
    symbol, new = new_body(module, builder, name, [type_of(arguments[i]) for i in taken])
    values = dict(zip([arguments[i] for i in taken], new.arguments, strict=True))
    _copy(block, live, values, ir.InsertionPoint(new))
    close_body(new, [values[returned[i]] for i in given], op.location)
    smaller = evolve(
        loop,
        body=symbol,
        states=len(states),
        items=tuple(loop.items[i - first] for i in items),
        outs=tuple(loop.outs[i - first] for i in given if i >= first),
    )
    operands = [Val(builder, op.operands[i], type_of(op.operands[i])) for i in taken]
    results = call_loop(builder, module, smaller, ir.FlatSymbolRefAttr(op.attributes["callee"]).value, operands)
    for i, result in zip(given, results, strict=True):
        op.results[i].replace_all_uses_with(result.value)
    op.erase()
    return True


def _slice(block: Any, values: Iterable[Any]) -> set[Any]:
    """`values` and all in the block that they are computed from."""
    live = set(values)
    for op in reversed([op.operation for op in block.operations][:-1]):
        if any(result in live for result in op.results):
            live.update(op.operands)
    return live


def _copy(block: Any, live: set[Any], values: dict[Any, Any], ip: Any) -> None:
    for op in [op.operation for op in block.operations][:-1]:
        if any(result in live for result in op.results):
            copy = op.clone(ip)
            for i, operand in enumerate(op.operands):
                copy.operands[i] = values[operand]
            values.update(zip(op.results, copy.results, strict=True))


def has_private(module: Any) -> bool:
    """Whether the module has functions that only others of it call."""
    return any("sym_visibility" in op.attributes for op in module.body.operations)


def remove_uncalled(module: Any) -> None:
    """Erase private functions that no call, and no loop that is called, names."""
    private = {
        ir.StringAttr(op.attributes["sym_name"]).value: op.operation
        for op in module.body.operations
        if "sym_visibility" in op.attributes
    }
    if not private:
        return
    used: set[str] = set()
    pending = [op.operation for op in module.body.operations if "sym_visibility" not in op.attributes]
    while pending:
        func = pending.pop()
        loop = read_loop(func)
        for symbol in [loop.body] if loop is not None else _callees(func):
            if symbol not in used:
                used.add(symbol)
                pending.append(private[symbol])
    for symbol, func in private.items():
        if symbol not in used:
            func.erase()


def _callees(func: Any) -> list[str]:
    return [
        ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        for block in func.regions[0].blocks
        for op in block.operations
        if op.operation.name == CALL
    ]
