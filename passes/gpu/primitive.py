"""A group's body of primitive operations: composites taken apart, in f32 where their tensors are bf16.

The interpreter computes a composite of bf16 in f32 and rounds what it gives; so does this. A reduction of lines of one
element gives that element in another shape, or the place 0.
"""

from __future__ import annotations

from typing import Any

from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.groups import group_of
from sexpgpu.dialects.loops import inline
from sexpgpu.dialects.opdef import Composite, OpDef, Reduce
from sexpgpu.dialects.read import attrs_of, definition_of
from sexpgpu.dialects.signature import type_of
from sexpgpu.passes.flow import operations_of, read_flow
from sexpgpu.plan.dataflow import Dataflow
from sexpgpu.tensortype import TensorType


def primitive_flow(context: Context, func: Any) -> Dataflow:
    """What a group's function, or a loop's body, computes, as operations that no other operation is made of.

    Groups within are taken apart; attention is left whole, and so are loops.
    """
    scratch = ir.Module.create(loc=func.location)
    copy = func.operation.clone(ir.InsertionPoint(scratch.body))
    for op, own in zip(operations_of(copy)[:-1], operations_of(func)[:-1], strict=True):
        if (group := group_of(own)) is not None:
            _inline(context, op, group[1])
    pending = operations_of(copy)[:-1]
    while pending:
        op = pending.pop(0)
        record = definition_of(op)
        if record is not None and _taken_apart(record):
            pending = [*_decompose(context, op, record), *pending]
        elif record is not None and isinstance(record.kind, Reduce) and _of_one(op):
            _fold_one(context, op, record.kind)
    return read_flow(copy, bodies=False)


def _inline(context: Context, op: Any, func: Any) -> None:
    """Put the operations of a group in the place of its call."""
    _, results = inline(Builder(context, ir.InsertionPoint(op), op.location), func, list(op.operands))
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(new)
    context.erase(op)


def _taken_apart(record: OpDef) -> bool:
    whole = isinstance(record.kind, Composite) and record.kind.family == "attention"
    return record.decompose is not None and not whole


def _of_one(op: Any) -> bool:
    """Whether a reduction folds lines of one element."""
    return type_of(op.operands[0]).size == type_of(op.results[0]).size > 0


def _fold_one(context: Context, op: Any, kind: Reduce) -> None:
    """Put what lines of one element fold to in the place of a reduction: their places, which are 0, or the elements."""
    builder = Builder(context, ir.InsertionPoint(op), op.location)
    (given,), (result,) = op.operands, op.results
    if kind.combine in ("argmax", "argmin"):
        made = builder.constant(0, type_of(result))
    else:
        made = builder("reshape", Val(builder, given, type_of(given)), shape=type_of(result).shape)
    result.replace_all_uses_with(made.value)
    context.erase(op)


def _decompose(context: Context, op: Any, record: OpDef) -> list[Any]:
    """Put the parts of an operation in its place: the operations that were made."""
    builder = Builder(context, ir.InsertionPoint(op), op.location)
    block = op.block
    first = _place(op)
    operands = [_widened(builder, Val(builder, v, type_of(v))) for v in op.operands]
    assert record.decompose is not None
    made = record.decompose(builder, *operands, **attrs_of(op))
    results = made if isinstance(made, tuple) else (made,)
    for old, new in zip(op.results, results, strict=True):
        old.replace_all_uses_with(_narrowed(builder, new, type_of(old)).value)
    created = [o.operation for o in list(block.operations)[first : _place(op)]]
    context.erase(op)
    return created


def _place(op: Any) -> int:
    """The operation's number in its block."""
    return next(i for i, other in enumerate(op.block.operations) if other.operation == op)


def _widened(builder: Builder, value: Val) -> Val:
    return builder("cast", value, dtype="f32") if value.type.dtype == "bf16" else value


def _narrowed(builder: Builder, value: Val, type: TensorType) -> Val:
    return value if value.type == type else builder("cast", value, dtype=type.dtype)
