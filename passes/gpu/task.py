"""What a family of kernels is given, a group of operations over memory, and what it gives back: launches."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from sexpgpu.dialects.opdef import Index
from sexpgpu.passes.gpu.kernel import BYTES, Kernel, KernelModule
from sexpgpu.passes.gpu.layout import Layout
from sexpgpu.passes.gpu.memory import Operand
from sexpgpu.passes.gpu.product_squares import Tiles
from sexpgpu.passes.gpu.scalar import MEMORY
from sexpgpu.plan.dataflow import Dataflow
from sexpgpu.plan.records import FAULTS, Launch, Launches
from sexpgpu.plan.tensor_maps import TensorMap
from sexpgpu.tensortype import TensorType

_LARGE = 1 << 30
"""Elements from which on indices need 64 bits; half of what 32 hold, since a last block counts past the end."""


@define(eq=False)
class Task:
    """One group to lower: `flow` says what it computes, of primitive operations alone; `layouts` how operands lie.

    Its results are dense. Where `tf32`, products may round factors of f32 to tf32. A temporary is made by `temporary`
    and is an argument of kernels as operands and results are. Of the result at the place `squared`, where there is one,
    the sums of squares over `tiles` are a further result, behind the others.
    """

    module: KernelModule
    symbol: str
    flow: Dataflow
    layouts: tuple[Layout, ...]
    tf32: bool = False
    squared: int = -1
    temporaries: list[TensorType] = field(factory=list, init=False)
    launches: list[Launch] = field(factory=list, init=False)
    over: int = field(default=-1, init=False)  # the operand that the first result holds before
    tiles: Tiles | None = field(default=None, init=False)  # those that the squares are summed over

    @property
    def results(self) -> tuple[int, ...]:
        """The numbers of the values that the group gives."""
        return self.flow.results

    def result(self, place: int) -> int:
        """The argument that a result of the group is written to."""
        return self.flow.given + place

    def temporary(self, type: TensorType) -> int:
        """A new temporary of a type, as an argument of kernels."""
        self.temporaries.append(type)
        return self.sums + (self.squared >= 0) + len(self.temporaries) - 1

    @property
    def sums(self) -> int:
        """The argument that sums of squares are written to."""
        return self.flow.given + len(self.results)

    def type(self, argument: int) -> TensorType:
        """The type of an operand, a result or a temporary."""
        if argument < self.flow.given:
            return self.flow.types[argument]
        argument -= self.flow.given
        if argument < len(self.results):
            return self.flow.types[self.results[argument]]
        argument -= len(self.results)
        if self.squared >= 0:
            if not argument:
                assert self.tiles is not None, "what sums up squares says first over which tiles"
                return self.tiles.type
            argument -= 1
        return self.temporaries[argument]

    def layout(self, argument: int) -> Layout:
        return self.layouts[argument] if argument < self.flow.given else Layout.dense(self.type(argument).shape)

    def begin(
        self,
        reads: Sequence[int],
        writes: Sequence[int],
        blocks: int,
        threads: int,
        dynamic: int = 0,
        per_multiprocessor: int = 0,
        maps: Sequence[TensorMap] = (),
    ) -> tuple[Kernel, dict[int, Operand]]:
        """A kernel open for writing, and its tensors by the numbers of its arguments; `dynamic`: shared bytes.

        `per_multiprocessor`: the blocks that a multiprocessor has to hold at once, which bounds registers; 0: any.
        `maps`: how bulk copies see what it reads.
        """
        arguments = (*reads, *writes)
        layouts = [self.layout(a) for a in arguments]
        wide = any(max(layout.reach, self.type(a).size) > _LARGE for a, layout in zip(arguments, layouts, strict=True))
        name = self.symbol if not self.launches else f"{self.symbol}_{len(self.launches) + 1}"
        k = Kernel(self.module, name, threads, wide)
        faults = any(node.record is not None and isinstance(node.record.kind, Index) for node in self.flow.nodes)
        elements = [(MEMORY[self.type(a).dtype], a in reads) for a in arguments]
        k.begin(elements, blocks, faults, per_multiprocessor, maps=len(maps))
        numbers = (*arguments, FAULTS) if faults else arguments
        self.launches.append(Launch(name, (blocks, 1, 1), (threads, 1, 1), dynamic, numbers, maps=tuple(maps)))
        tensors = zip(arguments, k.pointers, layouts, strict=True)
        return k, {a: Operand(pointer, layout, self.type(a).dtype) for a, pointer, layout in tensors}

    def lowered(self) -> Launches:
        sizes = [type.size * device_itemsize(type) for type in self.temporaries]
        return Launches(tuple(self.launches), tuple(sizes), self.over)


def device_itemsize(type: TensorType) -> int:
    """Bytes of one element in a device's memory."""
    return BYTES[MEMORY[type.dtype]]
