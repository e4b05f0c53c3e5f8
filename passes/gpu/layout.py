"""Where the elements of a value lie: strides and an offset, and places among its elements as numbers in registers.

NumPy's own rules decide what is a view, so a layout comes from the array that stands in for the value.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import define, frozen
from numpy.lib.stride_tricks import as_strided

from sexpgpu.dialects.opdef import Array, Move, OpDef
from sexpgpu.passes.gpu.kernel import Index, Kernel
from sexpgpu.plan.storage import viewed
from sexpgpu.tensortype import TensorType

Ints = tuple[int, ...]


@frozen
class Layout:
    """Element (i, j, ...) is `offset + i * strides[0] + j * strides[1] + ...` elements behind the buffer's first."""

    shape: Ints
    strides: Ints
    offset: int = 0

    @classmethod
    def dense(cls, shape: Ints) -> Layout:
        """In row-major order from the first byte."""
        return cls(shape, dense_strides(shape))

    @classmethod
    def of_view(cls, view: Array, buffer: Array) -> Layout:
        """How a NumPy view shows the buffer that it is a view of."""
        size = view.itemsize
        offset = view.__array_interface__["data"][0] - buffer.__array_interface__["data"][0]
        return cls(view.shape, tuple([s // size for s in view.strides]), offset // size)

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie one behind another; the strides of axes of one place say nothing."""
        dense = dense_strides(self.shape)
        return all(s == d or n == 1 for n, s, d in zip(self.shape, self.strides, dense, strict=True))

    @property
    def reach(self) -> int:
        """One more than the greatest distance of an element from the buffer's first."""
        return 1 + self.offset + sum(max(0, (n - 1) * s) for n, s in zip(self.shape, self.strides, strict=True))


def layout_before(record: OpDef | None, attrs: dict[str, Any], layout: Layout, operand: TensorType) -> Layout | None:
    """Where an operand of a movement lies if the result is to lie as `layout` says; those of a sum lie with it.

    None where strides cannot say so: of axes that lie apart and were one before.
    """
    assert record is not None
    kind = record.kind
    if not isinstance(kind, Move):
        return layout
    match kind.form:
        case "pad":
            skipped = sum(low * step for low, step in zip(attrs["low"], layout.strides, strict=True))
            return Layout(operand.shape, layout.strides, layout.offset + skipped)
        case "permute":
            strides = [0] * len(layout.strides)
            for step, axis in zip(layout.strides, attrs["perm"], strict=True):
                strides[axis] = step
            return Layout(operand.shape, tuple(strides), layout.offset)
        case _:
            # Strides of bytes, which are not read.
            shown = as_strided(np.empty((), np.int8), layout.shape, layout.strides, writeable=False)
            view = viewed(record, {"shape": operand.shape}, shown, operand)
            return None if view is None else Layout(operand.shape, tuple(view.strides), layout.offset)


def dense_strides(shape: Ints) -> Ints:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


@define(eq=False)
class Place:
    """A place among the elements of a value of `shape`: its coordinates, its number in row-major order, or both.

    With `lane_axis` it is as many places as a vector has lanes, one behind another along that axis from this one;
    `aligned`: the first's coordinate there is a multiple of that count.
    """

    shape: Ints
    lane_axis: int | None
    aligned: bool = True
    known_axes: tuple[Index, ...] | None = None
    known_number: Index | None = None

    def axes(self, k: Kernel) -> tuple[Index, ...]:
        if self.known_axes is None:
            assert self.known_number is not None
            self.known_axes = coordinates(k, self.known_number, self.shape)
        return self.known_axes

    def number(self, k: Kernel) -> Index:
        if self.known_number is None:
            assert self.known_axes is not None
            self.known_number = offset_of(k, self.known_axes, dense_strides(self.shape))
        return self.known_number

    def index(self, k: Kernel, layout: Layout) -> Index:
        """Where the element lies in a buffer, in elements."""
        number = self.number(k) if layout.is_dense else offset_of(k, self.axes(k), layout.strides)
        return k.add(number, layout.offset)


def coordinates(k: Kernel, number: Index, shape: Ints) -> tuple[Index, ...]:
    """The coordinates of a number in row-major order."""
    found: list[Index] = []
    for place, n in reversed(list(enumerate(shape))):
        if place == 0 or math.prod(shape[:place]) == 1:
            found.append(number if place == 0 or n > 1 else 0)
            found += [0] * place
            break
        found.append(k.rem(number, n))
        number = k.div(number, n)
    return tuple(reversed(found))


def offset_of(k: Kernel, axes: tuple[Index, ...], strides: Ints) -> Index:
    total: Index = 0
    for index, stride in zip(axes, strides, strict=True):
        total = k.add(total, k.mul(index, stride))
    return total
