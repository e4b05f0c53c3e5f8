"""What a scan in a logarithm of turns computes, noted beside its operations: `passes/prefixes.py` reads it.

The operations are right on every device, but one that runs thousands of elements at once does better with turns in
order. So the function that was combined with is kept as a private function of one place, taken from the turn that
combined places one by one, and the tensors it went along and gave are marked with its name:

    sx.places = [@combine, 0, 1]       a slice of tensor 0 of the scan, which goes along axis 1
    sx.prefixes = [@combine, 0, 1]     the prefixes of tensor 0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from sexpgpu.dialects.loops import close_body, module_of, new_body
from sexpgpu.dialects.prefixes import PLACES, PREFIXES, Mark, write_mark
from sexpgpu.dialects.read import definition_of
from sexpgpu.trace.graph import GraphTrace
from sexpgpu.trace.tensor import Tensor


def note_prefixes(
    graph: GraphTrace,
    starts: Sequence[Tensor],
    prefixes: Sequence[Tensor],
    combined: tuple[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]],
    axes: Sequence[int],
) -> None:
    """Mark `prefixes`, and `starts`, slices of what they are the prefixes of.

    `combined` are tensors of one place, left and right, and what the function made of them. Where it reads other
    tensors than these, or another graph's, nothing is noted.
    """
    left, right, made = combined
    taken = [t.val for t in (*left, *right)]
    ops = _between({v.value for v in taken}, [t.val.value for t in made], graph.block)
    if ops is None:
        return
    builder = graph.builder
    symbol, block = new_body(
        module_of(graph.func), builder, f"{graph.name} combine".replace(" ", "_"), [v.type for v in taken]
    )
    values = dict(zip([v.value for v in taken], block.arguments, strict=True))
    ip = ir.InsertionPoint(block)
    for op in ops:
        copy = op.clone(ip)
        for place, operand in enumerate(op.operands):
            copy.operands[place] = values[operand]
        values.update(zip(op.results, copy.results, strict=True))
    close_body(block, [values[t.val.value] for t in made], graph.context.location(None))
    for name, tensors in ((PLACES, starts), (PREFIXES, prefixes)):
        for number, (tensor, axis) in enumerate(zip(tensors, axes, strict=True)):
            write_mark(tensor.val.value.owner, name, Mark(symbol, number, axis))


def _between(taken: set[Any], made: Sequence[Any], block: Any) -> list[Any] | None:
    """The operations of the block that compute `made` from `taken` and constants, in order; None where there are more
    to read."""
    found: dict[Any, None] = {}
    pending = [value for value in made if value not in taken]
    while pending:
        value = pending.pop()
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.operation.block != block or definition_of(owner.operation) is None:
            return None
        op = owner.operation
        if op not in found:
            found[op] = None
            pending += [operand for operand in op.operands if operand not in taken]
    ops = set(found)
    return [op.operation for op in block.operations if op.operation in ops]
