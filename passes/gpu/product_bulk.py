"""Factors of products as bulk copies bring them to shared memory: tensor maps, and the boxes of a tile.

A row of a box has as many bytes as the swizzle, along the axis in which elements lie beside each other: the depth, of
which a tile has no more, or the factor's lines, of which a tile takes several boxes.
"""

from __future__ import annotations

from itertools import pairwise

from attrs import frozen

from sexpgpu.passes.gpu.kernel import Index, Kernel
from sexpgpu.passes.gpu.layout import Layout, coordinates
from sexpgpu.passes.gpu.product_factor import Reading
from sexpgpu.passes.gpu.task import Task
from sexpgpu.passes.gpu.warpgroup import SWIZZLE
from sexpgpu.plan.tensor_maps import TensorMap

ITEM = 2
"""Bytes of an element."""
WIDTH = SWIZZLE // ITEM
"""Elements of a row of a box."""
GRAIN = 16
"""Bytes that addresses and strides are multiples of."""
MOST_AXES = 5
MOST_STRIDE = 1 << 40


@frozen
class Bulk:
    """A factor that lies in argument `argument`: `axes` are those of its value that a map has, innermost first.

    Axes along which it repeats are not among them. `across`: its lines lie beside each other.
    """

    argument: int
    layout: Layout
    axes: tuple[int, ...]
    line: int
    across: bool

    @property
    def depth(self) -> int:
        """The axis along which products are summed."""
        rank = len(self.layout.shape)
        return 2 * rank - 3 - self.line

    def boxes(self, lines: int) -> int:
        """The boxes of a tile of so many lines."""
        return lines // WIDTH if self.across else 1

    def map(self, lines: int, depth: int) -> TensorMap:
        """The map for tiles of so many lines and places of the sum."""
        layout = self.layout
        other = depth if self.across else lines
        last = self.line, self.depth
        box = [WIDTH, *(other if axis in last else 1 for axis in self.axes[1:])]
        return TensorMap(
            self.argument,
            layout.offset * ITEM,
            tuple([layout.shape[axis] for axis in self.axes]),
            tuple([layout.strides[axis] * ITEM for axis in self.axes[1:]]),
            tuple(box),
            SWIZZLE,
        )

    def corner(self, k: Kernel, batch: Index, line: Index, place: Index) -> list[Index]:
        """Where a box begins that does so at a line and a place of the sum of a product of the batch."""
        whole = [*coordinates(k, batch, self.layout.shape[:-2]), 0, 0]
        whole[self.line], whole[self.depth] = line, place
        return [whole[axis] for axis in self.axes]


def bulk_of(task: Task, reading: Reading) -> Bulk | None:
    """A factor as tensor maps see it; None where they cannot.

    The limits are those of cuTensorMapEncodeTiled, of which the strides are taken as strictly as any release says it.
    """
    layout = reading.layout
    if not reading.plain or layout is None or reading.argument is None or reading.type.dtype != "bf16":
        return None
    if task.type(reading.argument).dtype != "bf16" or (layout.offset * ITEM) % GRAIN:
        return None
    rank = reading.type.rank
    line = rank - 1 if reading.turned else rank - 2
    kept = [axis for axis, n in enumerate(layout.shape) if axis >= rank - 2 or (n > 1 and layout.strides[axis])]
    axes = sorted(kept, key=lambda axis: layout.strides[axis])
    strides = [layout.strides[axis] for axis in axes]
    across = reading.along == "lines"
    if axes[0] not in (rank - 2, rank - 1) or (axes[0] == line) != across or strides[0] != 1:
        return None
    even = all(b * ITEM % GRAIN == 0 and b % a == 0 for a, b in pairwise(strides))
    if not even or len(axes) > MOST_AXES or strides[-1] * ITEM >= MOST_STRIDE:
        return None
    return Bulk(reading.argument, layout, tuple(axes), line, across)
