"""Reading a function of the module as the numbers that ordering and planning work on."""

from __future__ import annotations

from typing import Any

from mlir import ir

from sexpgpu.diag import Span
from sexpgpu.dialects.groups import FOLD, TILE, TILED, read_group
from sexpgpu.dialects.locations import path_of, span_of
from sexpgpu.dialects.loops import callee, module_of, read_loop
from sexpgpu.dialects.read import attrs_of, definition_of
from sexpgpu.dialects.signature import type_of
from sexpgpu.passes.gpu.annotation import read_launches
from sexpgpu.plan.dataflow import Dataflow, Node
from sexpgpu.plan.records import Tiles, Turns
from sexpgpu.plan.tiles import cut_flow, tile_shapes


def operations_of(func: Any) -> list[Any]:
    """The operations of a function's block in order, the terminator last."""
    return [op.operation for op in func.regions[0].blocks[0].operations]


def read_flow(func: Any, *, bodies: bool = True) -> Dataflow:
    """The dataflow of a `func.func`, its loops and groups with theirs. Nodes stand in the order of the operations.

    Without `bodies` loops and groups are names alone.
    """
    return _read(func, ir.SymbolTable(module_of(func)) if bodies else None)


def _read(func: Any, symbols: ir.SymbolTable | None) -> Dataflow:
    block = func.regions[0].blocks[0]
    numbers: dict[Any, int] = {argument: i for i, argument in enumerate(block.arguments)}
    types = [type_of(argument) for argument in block.arguments]
    operations = operations_of(func)
    terminator = operations.pop()
    nodes = []
    for op in operations:
        ins = tuple([numbers[v] for v in op.operands])
        outs = []
        for result in op.results:
            numbers[result] = len(types)
            outs.append(len(types))
            types.append(type_of(result))
        location = op.location
        span, path = span_of(location), path_of(location)
        record = definition_of(op)
        if record is not None:
            nodes.append(Node(record.name, record, attrs_of(op), ins, tuple(outs), span=span, path=path))
        elif symbols is None:
            nodes.append(Node("call", None, {}, ins, tuple(outs), span=span, path=path))
        else:
            nodes.append(_called(op, symbols, ins, tuple(outs), span, path))
    return Dataflow(tuple(types), len(block.arguments), tuple(nodes), tuple([numbers[v] for v in terminator.operands]))


def _called(
    op: Any, symbols: ir.SymbolTable, ins: tuple[int, ...], outs: tuple[int, ...], span: Span | None, path: str
) -> Node:
    """A loop or a group."""
    func = callee(op, symbols)
    if (loop := read_loop(func)) is not None:
        count = loop.turns([type_of(v) for v in op.operands])
        turns = Turns(loop.states, loop.items, loop.outs, loop.reverse, count)
        body = _read(symbols[loop.body].operation, symbols)
        return Node("scan", None, {}, ins, outs, turns, (body,), span, path)
    group = read_group(func)
    assert group is not None
    if (launches := read_launches(func)) is not None:
        return Node(group.family, None, {}, ins, outs, launches, (), span, path)
    whole = _read(func, symbols)
    cut = _flags(func, TILED, len(ins) + len(outs))
    tile = tuple(ir.DenseI64ArrayAttr(func.attributes[TILE])) if TILE in func.attributes else ()
    first = next((v for v, flag in zip((*op.operands, *op.results), cut, strict=True) if flag), None)
    extent = type_of(first).shape[: len(tile)] if first is not None else ()
    shapes = tile_shapes(extent, tile)
    folds = ("",) * len(outs)
    if FOLD in func.attributes:
        folds = tuple([ir.StringAttr(fold).value for fold in ir.ArrayAttr(func.attributes[FOLD])])
    tiles = Tiles(extent, cut, shapes, folds)
    bodies = tuple([cut_flow(whole, extent, shape, cut) for shape in shapes])
    return Node(group.family, None, {}, ins, outs, tiles, bodies, span, path)


def _flags(func: Any, name: str, count: int) -> tuple[bool, ...]:
    if name not in func.attributes:
        return (False,) * count
    return tuple([bool(flag) for flag in ir.DenseI64ArrayAttr(func.attributes[name])])
