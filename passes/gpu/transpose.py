"""Copies into another order of axes: tiles go through shared memory, so that reads and writes are both of neighbours.

A tile is as wide as a warp in both directions, counted in vectors of `lanes` elements. Rows of a tile in shared memory
lie one vector further apart than they are wide, so that a column touches every bank (Ruetsch and Micikevicius,
"Optimizing matrix transpose in CUDA", 2009).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import frozen

from sexpgpu.dialects.opdef import Move
from sexpgpu.passes.gpu.kernel import BYTES, WARP, Index, Kernel
from sexpgpu.passes.gpu.layout import coordinates
from sexpgpu.passes.gpu.scalar import MEMORY
from sexpgpu.passes.gpu.task import Task

_ROWS = 8
"""Rows of a tile that the block's warps take at a time."""
_LEAST = 8
"""The elements along an axis from which on tiles are worth it."""


@frozen
class Turned:
    """A copy whose result runs along an axis of `inner` elements, and its operand along another, of `outer`.

    `read` and `written` are the strides of those two, in this order; `others` are the rest: size and the two strides.
    """

    outer: int
    inner: int
    read: int
    written: int
    others: tuple[tuple[int, int, int], ...]
    offset: int
    lanes: int


@frozen
class _Axis:
    size: int
    read: int


def turned(task: Task) -> Turned | None:
    """How the task copies one operand into another order; None where it does something else, or keeps the order."""
    flow = task.flow
    if flow.given != 1 or len(flow.results) != 1 or not flow.nodes or not flow.types[0].size:
        return None
    layout = task.layout(0)
    axes = [_Axis(n, stride) for n, stride in zip(layout.shape, layout.strides, strict=True)]
    value, flat = 0, False
    for node in flow.nodes:
        kind = node.record.kind if node.record is not None else None
        if not isinstance(kind, Move) or node.ins != (value,):
            return None
        (value,) = node.outs
        match kind.form:
            case "permute" if not flat:
                axes = [axes[axis] for axis in node.attrs["perm"]]
            case "reshape":  # in the order that is reached
                flat = True
            case "same":
                pass
            case _:
                return None
    if value != flow.results[0]:
        return None
    return _turned(_merged(axes), layout.offset, BYTES[MEMORY[flow.types[0].dtype]])


def _merged(axes: list[_Axis]) -> list[_Axis]:
    """Axes that run on from one another as one."""
    found: list[_Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if found and found[-1].read == axis.read * axis.size:
            found[-1] = _Axis(found[-1].size * axis.size, axis.read)
        else:
            found.append(axis)
    return found


def _turned(axes: list[_Axis], offset: int, itemsize: int) -> Turned | None:
    written = [math.prod(axis.size for axis in axes[i + 1 :]) for i in range(len(axes))]
    along = next((i for i, axis in enumerate(axes[:-1]) if axis.read == 1), None)
    if along is None or axes[-1].read == 1 or min(axes[along].size, axes[-1].size) < _LEAST:
        return None
    others = tuple([(a.size, a.read, w) for i, (a, w) in enumerate(zip(axes, written, strict=True))
                    if i not in (along, len(axes) - 1)])  # fmt: skip
    outer, inner, read = axes[along].size, axes[-1].size, axes[-1].read
    lanes = max(1, 4 // itemsize)
    steps = [outer, inner, read, written[along], offset, *(step for _, *both in others for step in both)]
    if any(step % lanes for step in steps):
        lanes = 1
    return Turned(outer, inner, read, written[along], others, offset, lanes)


def write_turned(task: Task, copy: Turned) -> None:
    """The kernel: a block for each tile of 32 by 32 vectors."""
    lanes = copy.lanes
    side = WARP * lanes
    down, across = -(-copy.outer // side), -(-copy.inner // side)
    blocks = down * across * math.prod(size for size, _, _ in copy.others)
    k, tensors = task.begin([0], [task.result(0)], blocks, WARP * _ROWS)
    source, target = tensors[0], tensors[task.result(0)]
    space = k.shared(source.pointer.type, side * (side + lanes))
    thread = k.thread()
    lane, row = k.rem(thread, WARP), k.div(thread, WARP)
    where = coordinates(k, k.block_number(), (*[size for size, _, _ in copy.others], down, across))
    *rest, first_outer, first_inner = where
    first_outer, first_inner = k.mul(first_outer, side), k.mul(first_inner, side)
    base: Index = copy.offset
    start: Index = 0
    for index, (_, read, written) in zip(rest, copy.others, strict=True):
        base, start = k.add(base, k.mul(index, read)), k.add(start, k.mul(index, written))
    column, pitch = k.mul(lane, lanes), side + lanes
    width = lanes if lanes > 1 else 0
    for step in range(0, side, _ROWS):
        i, j = column, k.add(row, step)
        outer, inner = k.add(first_outer, i), k.add(first_inner, j)
        with _within(k, copy, side, outer, inner):
            found = k.load(source.pointer, k.add(base, k.add(outer, k.mul(inner, copy.read))), width)
            for number in range(lanes):
                k.store(k.lane(found, number), space, k.add(k.mul(k.add(i, number), pitch), j))
    k.barrier()
    for step in range(0, side, _ROWS):
        i, j = k.add(row, step), column
        outer, inner = k.add(first_outer, i), k.add(first_inner, j)
        with _within(k, copy, side, outer, inner):
            moved = k.load(space, k.add(k.mul(i, pitch), j), width)
            k.store(moved, target.pointer, k.add(start, k.add(inner, k.mul(outer, copy.written))))
    k.end()


@contextmanager
def _within(k: Kernel, copy: Turned, side: int, outer: Index, inner: Index) -> Iterator[None]:
    """What is written within the block happens where there are elements."""
    conditions = [k.below(index, size) for index, size in ((outer, copy.outer), (inner, copy.inner)) if size % side]
    if not conditions:
        yield
        return
    with k.when(conditions[0] if len(conditions) == 1 else k.op("arith.andi", *conditions)):
        yield
