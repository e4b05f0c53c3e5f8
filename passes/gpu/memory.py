"""Tensors in memory as a kernel reads and writes them: by scalars, or by vectors where elements lie side by side."""

from __future__ import annotations

from attrs import frozen

from sexpgpu.passes.gpu.kernel import BYTES, Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.layout import Layout, Place
from sexpgpu.passes.gpu.scalar import MEMORY, loaded, stored
from sexpgpu.tensortype import DType

WIDEST = 16
"""Bytes that one instruction reads or writes."""


@frozen(eq=False)
class Operand:
    """A tensor in memory: where its buffer begins, and where its elements lie in it."""

    pointer: Pointer
    layout: Layout
    dtype: DType


def load(k: Kernel, operand: Operand, place: Place, lanes: int) -> Reg:
    """The elements at a place, in registers: one, a vector where they lie side by side, or gathered one by one."""
    layout, dtype = operand.layout, operand.dtype
    index = place.index(k, layout)
    lane = place.lane_axis
    if lane is None or not lanes or layout.strides[lane] == 0:
        return loaded(k, k.load(operand.pointer, index), dtype)
    if layout.strides[lane] == 1 and place.aligned and vectors(layout, lane, lanes):
        return _vector(k, operand, index, lanes)
    step = layout.strides[lane]
    parts = [k.load(operand.pointer, k.add(index, i * step)) for i in range(lanes)]
    return loaded(k, k.pack(parts), dtype)


def _vector(k: Kernel, operand: Operand, index: Index, lanes: int) -> Reg:
    most = WIDEST // BYTES[MEMORY[operand.dtype]]
    if lanes <= most:
        return loaded(k, k.load(operand.pointer, index, lanes), operand.dtype)
    return loaded(
        k, k.joined([k.load(operand.pointer, k.add(index, i), most) for i in range(0, lanes, most)]), operand.dtype
    )


def vectors(layout: Layout, lane: int, lanes: int) -> bool:
    """Whether every vector along an axis begins at a multiple of its size."""
    others = [s for axis, s in enumerate(layout.strides) if axis != lane and layout.shape[axis] > 1]
    return all(s % lanes == 0 for s in (*others, layout.offset))


def store(k: Kernel, operand: Operand, place: Place, value: Reg, lanes: int) -> None:
    """Writes what registers hold at a place: one element, or a vector of them; as `load` reads."""
    layout = operand.layout
    index = place.index(k, layout)
    lane = place.lane_axis
    if lane is None or not lanes:
        k.store(stored(k, value, operand.dtype), operand.pointer, index)
        return
    value = stored(k, k.splat(value, lanes), operand.dtype)
    if layout.strides[lane] == 1 and place.aligned and vectors(layout, lane, lanes):
        most = min(lanes, WIDEST // BYTES[value.type])
        for first in range(0, lanes, most):
            part = value if most == lanes else k.pack([k.lane(value, first + i) for i in range(most)])
            k.store(part, operand.pointer, k.add(index, first))
        return
    for i in range(lanes):
        k.store(k.lane(value, i), operand.pointer, k.add(index, i * layout.strides[lane]))
