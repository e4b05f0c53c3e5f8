"""Cloning operations of the forward pass among the gradients."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mlir import ir

from sexpgpu.passes.recomputing.marks import CLONE, REGION


def compute_again(
    ops: Sequence[Any],
    before: Mapping[int, int],
    number: int,
    reads: Mapping[Any, Collection[Any]],
) -> None:
    """Clone the operations `before` of a block, each before another one of it, and let them be read instead.

    `ops` are all operations of the block in order, `reads` the values to read from clones and the operations that do.
    Clones carry `sx.recompute = number`.
    """
    values: dict[Any, Any] = {}
    for each in sorted(before):
        op = ops[each]
        clone = op.clone(ir.InsertionPoint(ops[before[each]]))
        clone.attributes[CLONE] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context=op.context), number)
        if REGION in clone.attributes:
            del clone.attributes[REGION]
        _read(clone, values)
        values.update(zip(op.results, clone.results, strict=True))
    for value, readers in reads.items():
        for reader in readers:
            _read(reader, {value: values[value]})


def _read(op: Any, values: Mapping[Any, Any]) -> None:
    for i, operand in enumerate(op.operands):
        if operand in values:
            op.operands[i] = values[operand]
