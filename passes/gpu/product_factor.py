"""The factors of a product as a block reads them: elements by line and place in the sum, or addresses of these."""

from __future__ import annotations

from typing import Literal, Protocol

from attrs import define, field, frozen

from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.kernel import BYTES, Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.lanes import Lanes
from sexpgpu.passes.gpu.layout import Layout, Place, coordinates, offset_of
from sexpgpu.passes.gpu.memory import WIDEST, Operand, vectors
from sexpgpu.passes.gpu.scalar import MEMORY
from sexpgpu.passes.gpu.shown import shown
from sexpgpu.passes.gpu.task import Task
from sexpgpu.tensortype import TensorType

Along = Literal["lines", "depth"]


class Factor(Protocol):
    """One factor of a batch of products: lines of `depth` elements each.

    Elements come in vectors of `lanes` (0: one by one) `along` the axis in which they lie beside each other. `copied`:
    vectors can be copied as they are, from `address`.
    """

    lines: int
    depth: int
    lanes: int
    along: Along

    @property
    def copied(self) -> bool: ...

    def read(self, batch: Index, line: Index, place: Index) -> Reg:
        """The elements at a line and a place in the sum, both inside."""
        ...

    def address(self, batch: Index, line: Index, place: Index) -> tuple[Pointer, Index]:
        """Where these lie in memory."""
        ...


@frozen
class Reading:
    """How a value of the group, a factor of its product, is read.

    `turned`: its lines are its last axis, not its depth. `argument` and `layout` where it is a view of an operand, and
    `plain` where nothing is computed of that.
    """

    value: int
    type: TensorType
    turned: bool
    lanes: int
    along: Along
    argument: int | None
    layout: Layout | None
    plain: bool


def reading_of(task: Task, value: int, turned: bool) -> Reading:
    """The widest way to read a factor of the task's product."""
    type = task.flow.types[value]
    found = shown(task, value)
    argument, layout = (found.argument, found.layout) if found is not None else (None, None)
    rank = type.rank
    line, depth = (rank - 1, rank - 2) if turned else (rank - 2, rank - 1)
    along: Along = "depth"
    lanes = 0
    if layout is not None:
        steps = [layout.strides[axis] if type.shape[axis] > 1 else 0 for axis in (line, depth)]
        if steps[0] == 1 or (steps[1] != 1 and 0 < steps[0] < steps[1]):
            along = "lines"
        axis = line if along == "lines" else depth
        if layout.strides[axis] == 1 and argument is not None:
            lanes = _lanes(task, value, BYTES[MEMORY[task.flow.types[argument].dtype]], layout, axis)
    return Reading(value, type, turned, lanes, along, argument, layout, found is not None and not found.computed)


def _lanes(task: Task, value: int, item: int, layout: Layout, axis: int) -> int:
    """Elements of `item` bytes along an axis that one instruction reads."""
    for lanes in (8, 4, 2):
        fits = lanes * item <= WIDEST and layout.shape[axis] % lanes == 0 and vectors(layout, axis, lanes)
        if fits and Lanes(task.flow, lanes).along(value, axis):
            return lanes
    return 0


@define(eq=False)
class Tensor:
    """A factor that is a value of the group: [..., lines, depth], or [..., depth, lines] where it is `turned`."""

    kernel: Kernel
    reading: Reading
    elements: Elements
    operands: dict[int, Operand]
    lines: int = field(init=False)
    depth: int = field(init=False)
    lanes: int = field(init=False)
    along: Along = field(init=False)

    def __attrs_post_init__(self) -> None:
        reading = self.reading
        last = reading.type.shape[-2:]
        self.lines, self.depth = reversed(last) if reading.turned else last
        self.lanes = reading.lanes
        self.along = reading.along

    @property
    def copied(self) -> bool:
        return self.reading.plain and self.lanes * BYTES[MEMORY[self.reading.type.dtype]] in (4, 8, 16)

    def read(self, batch: Index, line: Index, place: Index) -> Reg:
        axes = self._axes(batch, line, place)
        rank = len(axes)
        lane = None
        if self.lanes:
            lane = rank - 1 if (self.along == "lines") == self.reading.turned else rank - 2
        with self.elements.scope():
            return self.elements.vector(self.reading.value, Place(self.reading.type.shape, lane, known_axes=axes))

    def address(self, batch: Index, line: Index, place: Index) -> tuple[Pointer, Index]:
        reading = self.reading
        assert reading.argument is not None
        assert reading.layout is not None
        at = offset_of(self.kernel, self._axes(batch, line, place), reading.layout.strides)
        return self.operands[reading.argument].pointer, self.kernel.add(at, reading.layout.offset)

    def _axes(self, batch: Index, line: Index, place: Index) -> tuple[Index, ...]:
        last = (place, line) if self.reading.turned else (line, place)
        return (*coordinates(self.kernel, batch, self.reading.type.shape[:-2]), *last)
