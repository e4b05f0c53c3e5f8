"""Loops over an axis: calls whose callee says how a body function is iterated.

    func.func private @cell(%state, %item, %shared) -> (%next, %out)                      the body, ordinary operations
    func.func private @scan(%first, %items, %shared) -> (%last, %outs)                    a declaration
        attributes {sx.body = @cell, sx.states = 1, sx.items = [1], sx.outs = [1]}
    %last, %outs = func.call @scan(%first, %items, %shared)

The body runs once for each place along the iterated axes: it takes the states, that place's slice of every item and
the shared values whole, and gives the next states and one slice of every out. Every function stays a flat list of
operations this way, calls are checked by MLIR, and a pass that knows nothing of loops sees one opaque operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen
from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.signature import terminator_of, type_of
from sexpgpu.tensortype import TensorType

CALL = "func.call"


@frozen
class Loop:
    """How a body is iterated.

    `items` and `outs` give the axis that runs, one for each item and out; `reverse` starts at the last place, and
    outs lie where the items of their turn lay. The number of turns is the size of the items on their axes.
    `associative`: the first items are as many as the states and of their types, and the next states are what an
    associative function makes of both, so turns may be combined with each other first. `linear`: the derivative of
    such a loop, whose next states are a linear function of the states and a term; turns may be composed first.
    """

    body: str
    states: int
    items: tuple[int, ...]
    outs: tuple[int, ...]
    reverse: bool = False
    associative: bool = False
    linear: bool = False

    def turns(self, operands: Sequence[TensorType]) -> int:
        """How often the body runs on operands of these types."""
        return operands[self.states].shape[self.items[0]]

    def body_types(self, operands: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The types the body takes where the loop takes `operands`."""
        first = self.states + len(self.items)
        items = [without(type, axis) for type, axis in zip(operands[self.states : first], self.items, strict=True)]
        return (*operands[: self.states], *items, *operands[first:])

    def result_types(self, operands: Sequence[TensorType], given: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The types of the loop's results where the body gives `given`."""
        turns = self.turns(operands)
        outs = [with_axis(type, axis, turns) for type, axis in zip(given[self.states :], self.outs, strict=True)]
        return (*given[: self.states], *outs)


def without(type: TensorType, axis: int) -> TensorType:
    """The type of one slice along `axis`."""
    return TensorType(type.shape[:axis] + type.shape[axis + 1 :], type.dtype)


def with_axis(type: TensorType, axis: int, size: int) -> TensorType:
    """The type of `size` slices of `type` along a new `axis`."""
    return TensorType((*type.shape[:axis], size, *type.shape[axis:]), type.dtype)


def module_of(op: Any) -> Any:
    """The module operation around `op`."""
    while op.parent is not None:
        op = op.parent
    return op.operation


def function(module: Any, symbol: str) -> Any:
    """The `func.func` of that name in the module operation."""
    return ir.SymbolTable(module)[symbol].operation


def callee(op: Any, symbols: ir.SymbolTable | None = None) -> Any:
    """The declaration that a `func.call` names; `symbols` of its module, for whoever has many calls to look up."""
    name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
    return function(module_of(op), name) if symbols is None else symbols[name].operation


def read_loop(declaration: Any) -> Loop | None:
    """The loop that a function stands for, None for an ordinary one."""
    attributes = declaration.attributes
    if "sx.body" not in attributes:
        return None
    return Loop(
        ir.FlatSymbolRefAttr(attributes["sx.body"]).value,
        ir.IntegerAttr(attributes["sx.states"]).value,
        tuple(ir.DenseI64ArrayAttr(attributes["sx.items"])),
        tuple(ir.DenseI64ArrayAttr(attributes["sx.outs"])),
        "sx.reverse" in attributes,
        "sx.associative" in attributes,
        "sx.linear" in attributes,
    )


def loop_of(op: Any) -> tuple[Loop, Any] | None:
    """The loop that an operation runs and its body, None for any other operation."""
    if op.operation.name != CALL:
        return None
    loop = read_loop(callee(op))
    return None if loop is None else (loop, function(module_of(op), loop.body))


def check_loop(op: Any) -> str | None:
    """What is wrong with a loop by what it says of its body, or None."""
    found = loop_of(op)
    if found is None:
        return None
    loop, body = found
    operands = [type_of(v) for v in op.operands]
    given = [type_of(v) for v in terminator_of(body).operands]
    taken = tuple(type_of(a) for a in body.regions[0].blocks[0].arguments)
    if loop.states + len(loop.outs) != len(given) or not 1 <= len(loop.items) <= len(operands) - loop.states:
        return f"the loop over {loop.body} has other states, items or outs than its body and operands"
    lengths = {type.shape[a] for type, a in zip(operands[loop.states :], loop.items, strict=False)}
    if len(lengths) > 1:
        return f"the items of the loop over {loop.body} differ in length"
    if loop.body_types(operands) != taken:
        return f"{loop.body} takes other types than the loop passes"
    if given[: loop.states] != operands[: loop.states]:
        return f"{loop.body} changes the type of a state"
    if loop.result_types(operands, given) != tuple(type_of(r) for r in op.results):
        return f"the loop over {loop.body} gives other types than its body makes"
    return None


def call_loop(builder: Builder, module: Any, loop: Loop, name: str, operands: Sequence[Val]) -> tuple[Val, ...]:
    """Declare `loop` as a function called `name` or nearly so, and call it at the builder's place."""
    mlir = builder.context.mlir
    body = function(module, loop.body)
    given = [type_of(v) for v in terminator_of(body).operands]
    types = [v.type for v in operands]
    results = loop.result_types(types, given)
    i64 = ir.IntegerType.get_signless(64, context=mlir)
    mlir_results = [builder.context.type(t) for t in results]
    function_type = ir.FunctionType.get([builder.context.type(t) for t in types], mlir_results, context=mlir)
    symbol = free_symbol(module, name)
    attributes: dict[str, Any] = {
        "sym_name": ir.StringAttr.get(symbol, context=mlir),
        "sym_visibility": ir.StringAttr.get("private", context=mlir),
        "function_type": ir.TypeAttr.get(function_type, context=mlir),
        "sx.body": ir.FlatSymbolRefAttr.get(loop.body, context=mlir),
        "sx.states": ir.IntegerAttr.get(i64, loop.states),
        "sx.items": ir.DenseI64ArrayAttr.get(loop.items, context=mlir),
        "sx.outs": ir.DenseI64ArrayAttr.get(loop.outs, context=mlir),
    }
    flags = {"sx.reverse": loop.reverse, "sx.associative": loop.associative, "sx.linear": loop.linear}
    attributes |= {flag: ir.UnitAttr.get(context=mlir) for flag, holds in flags.items() if holds}
    loc = builder.context.location(None)
    ip = ir.InsertionPoint(module.regions[0].blocks[0])
    ir.Operation.create("func.func", attributes=attributes, regions=1, loc=loc, ip=ip)
    made = ir.Operation.create(
        CALL,
        results=mlir_results,
        operands=[v.value for v in operands],
        attributes={"callee": ir.FlatSymbolRefAttr.get(symbol, context=mlir)},
        loc=builder.location,
        ip=builder.ip,
    )
    return tuple(Val(builder, value, type) for value, type in zip(made.results, results, strict=True))


def new_body(module: Any, builder: Builder, name: str, types: Sequence[TensorType]) -> tuple[str, Any]:
    """A private function called `name` or nearly so, with an empty block that takes `types`: its symbol and block."""
    context = builder.context
    symbol = free_symbol(module, name)
    loc = context.location(None)
    func = ir.Operation.create(
        "func.func",
        attributes={
            "sym_name": ir.StringAttr.get(symbol, context=context.mlir),
            "sym_visibility": ir.StringAttr.get("private", context=context.mlir),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [], context=context.mlir), context=context.mlir),
        },
        regions=1,
        loc=loc,
        ip=ir.InsertionPoint(module.regions[0].blocks[0]),
    )
    block = func.regions[0].blocks.append(*[context.type(t) for t in types], arg_locs=[loc] * len(types))
    return symbol, block


def close_body(block: Any, results: Sequence[Any], location: Any) -> None:
    """End a body with what it gives, and set its function's type."""
    ir.Operation.create("func.return", operands=list(results), loc=location, ip=ir.InsertionPoint(block))
    func = block.owner.operation
    type = ir.FunctionType.get([a.type for a in block.arguments], [v.type for v in results], context=func.context)
    func.attributes["function_type"] = ir.TypeAttr.get(type, context=func.context)


def inline(builder: Builder, body: Any, arguments: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Copy the operations of `body` to the builder's place: the copies, and what the body gives there."""
    block = body.regions[0].blocks[0]
    values = dict(zip(block.arguments, arguments, strict=True))
    copies: list[Any] = []
    for op in [op.operation for op in block.operations]:
        if op.name == "func.return":
            return copies, [values[v] for v in op.operands]
        copy = op.clone(builder.ip)
        for i, operand in enumerate(op.operands):
            copy.operands[i] = values[operand]
        values.update(zip(op.results, copy.results, strict=True))
        copies.append(copy)
    raise ValueError("a body ends with func.return")


def free_symbol(module: Any, name: str) -> str:
    """`name`, or it with a number, such that the module has no function called so."""
    table = ir.SymbolTable(module)
    return next(symbol for symbol in _numbered(name) if symbol not in table)


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 1
    while True:
        number += 1
        yield f"{name}_{number}"
