"""A product among the operations of a task, and its results: what is made of its sums by elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define

from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.kernel import Index, Kernel, Reg
from sexpgpu.passes.gpu.lanes import widest
from sexpgpu.passes.gpu.layout import Place, coordinates
from sexpgpu.passes.gpu.memory import Operand, store
from sexpgpu.passes.gpu.product_bulk import Bulk
from sexpgpu.passes.gpu.product_factor import Factor
from sexpgpu.passes.gpu.product_squares import squares
from sexpgpu.passes.gpu.product_tiling import Problem
from sexpgpu.passes.gpu.scalar import REGISTER, rounded
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.dataflow import Node

Open = Callable[[Kernel, dict[int, Operand]], tuple[Factor, Factor]]
"""Gives the factors of a product in a kernel, over the tensors that it reads."""
Number = Callable[[Kernel, Index, Index, Index], Index]
"""The number among the result's elements of a row and a column of a product of the batch."""


@define(eq=False)
class Product:
    """The product that a node of a task is, and where its elements lie: `run` columns one behind another.

    `bulks`: its factors as bulk copies bring them, where they can.
    """

    task: Task
    node: Node
    problem: Problem
    factors: Open
    run: int
    number: Number | None = None
    bulks: tuple[Bulk, Bulk] | None = None

    @property
    def value(self) -> int:
        return self.node.outs[0]

    @property
    def writes(self) -> list[int]:
        """The arguments of kernels that the results are written to."""
        results = [self.task.result(place) for place in range(len(self.task.results))]
        return [*results, self.task.sums] if self.task.squared >= 0 else results

    @property
    def lanes(self) -> int:
        """How many elements are made of the sums at once."""
        flow = self.task.flow
        lanes = widest(flow, [*self.task.results, self.value], frozenset({self.value}))
        while lanes and self.run % lanes:
            lanes = lanes // 2 if lanes > 2 else 0
        return lanes

    def element(self, k: Kernel, batch: Index, row: Index, column: Index) -> tuple[Index | None, Index]:
        """The number of an element, and of its line where the lines of the batch follow one another."""
        if self.number is not None:
            return None, self.number(k, batch, row, column)
        line = k.add(k.mul(batch, self.problem.rows), row)
        return line, k.add(k.mul(line, self.problem.columns), column)


@define(eq=False)
class Results:
    """Makes the results of a product from its sums."""

    product: Product
    kernel: Kernel
    operands: dict[int, Operand]
    lanes: int

    def nothing(self) -> list[Reg]:
        """What a thread has of sums of squares before it has written results: nothing, where none are wanted."""
        task = self.product.task
        if task.squared < 0:
            return []
        return [self.kernel.const(0, REGISTER[task.type(task.result(task.squared)).dtype])]

    def write(
        self, number: Index, line: Index | None, column: Index, sums: Reg, held: Sequence[Reg] = ()
    ) -> Sequence[Reg]:
        """All results at the elements from `number` on, in a column of a line where that is known; what the thread has
        of sums of squares then.
        """
        task, product, k = self.product.task, self.product, self.kernel
        flow = task.flow
        value = rounded(k, sums, flow.types[product.value].dtype)
        given = [self.operands[a] for a in range(flow.given)]
        elements = Elements(k, flow, given, self.lanes, {product.value: lambda _: value})
        places: dict[tuple[int, ...], Place] = {}
        made = []
        for place, result in enumerate(task.results):
            shape = flow.types[result].shape
            at = places.setdefault(shape, self._place(shape, number, line, column))
            made.append((self.operands[task.result(place)], at, elements.at(result, at)))
        for operand, at, found in made:
            store(k, operand, at, found, self.lanes)
        return [squares(k, made[task.squared][2], sum) for sum in held]

    def _place(self, shape: tuple[int, ...], number: Index, line: Index | None, column: Index) -> Place:
        k = self.kernel
        axes = None
        if line is not None and shape[-1] == self.product.problem.columns:
            axes = (*coordinates(k, line, shape[:-1]), column)
        return Place(shape, len(shape) - 1 if self.lanes else None, known_axes=axes, known_number=number)
