"""Matrix products, with the casts of their factors and what is made of the result by elements.

    block      one tile of one product, or of one part of its sum
    sums       of the tile, by multiply-add (`product_fma`) or on tensor cores (`product_tensor`)
    results    by elements of the sums, in the same kernel; where the sum is in parts, in a second one that adds them

The parts are added in order, so that every run gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, evolve
from mlir import ir

from sexpgpu.dialects.opdef import Contract
from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.kernel import Index, Kernel, Reg
from sexpgpu.passes.gpu.lanes import widest
from sexpgpu.passes.gpu.layout import Place, coordinates
from sexpgpu.passes.gpu.memory import Operand, store
from sexpgpu.passes.gpu.product_epilogue import drain
from sexpgpu.passes.gpu.product_factor import Factor, Reading, Tensor, reading_of
from sexpgpu.passes.gpu.product_fma import MultiplyAdd
from sexpgpu.passes.gpu.product_pipeline import accumulate
from sexpgpu.passes.gpu.product_tensor import WarpProducts
from sexpgpu.passes.gpu.product_tiling import REGISTERS, Problem, Tiling, tiling_of
from sexpgpu.passes.gpu.scalar import rounded
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.dataflow import Node
from sexpgpu.plan.records import Launches
from sexpgpu.tensortype import TensorType

GROUPED = 8
"""Tiles of rows that blocks beside each other take, so that they find the same columns in the cache."""
THREADS = 256
WIDE = 16
"""Registers more that a thread needs where indices have 64 bits, and none is to spare."""
MOST_BLOCKS = 4
"""Small blocks may be more on a multiprocessor, but need not be."""

Open = Callable[[Kernel, dict[int, Operand]], tuple[Factor, Factor]]
"""Gives the factors of a product in a kernel, over the tensors that it reads."""
Number = Callable[[Kernel, Index, Index, Index], Index]
"""The number among the result's elements of a row and a column of a product of the batch."""


def lower(task: Task) -> Launches:
    """One kernel, or two where the sum is in parts."""
    (node,) = [n for n in task.flow.nodes if n.record is not None and isinstance(n.record.kind, Contract)]
    x, y = node.ins
    (*batch, rows, depth), columns = task.flow.types[x].shape, task.flow.types[y].shape[-1]
    count = 1
    for n in batch:
        count *= n
    readings = reading_of(task, x, False), reading_of(task, y, True)
    scattered = not readings[0].lanes, not readings[1].lanes
    problem = Problem(count, rows, columns, depth, task.flow.types[x].dtype, scattered)

    def opened(k: Kernel, operands: dict[int, Operand]) -> tuple[Factor, Factor]:
        return _tensor(k, task, readings[0], operands), _tensor(k, task, readings[1], operands)

    write(Product(task, node, problem, opened, columns))
    return task.lowered()


def _tensor(k: Kernel, task: Task, reading: Reading, operands: dict[int, Operand]) -> Tensor:
    given = [operands[a] for a in range(task.flow.given)]
    return Tensor(k, reading, Elements(k, task.flow, given, reading.lanes), operands)


@define(eq=False)
class Product:
    """The product that a node of a task is, and where its elements lie: `run` columns one behind another."""

    task: Task
    node: Node
    problem: Problem
    factors: Open
    run: int
    number: Number | None = None

    @property
    def value(self) -> int:
        return self.node.outs[0]

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


def write(product: Product) -> None:
    """The kernels of a product."""
    if not product.problem.size:
        return
    if not product.problem.depth:
        _write_results(product, None, 0)
        return
    tiling = tiling_of(product.problem)
    if tiling.parts == 1:
        _write_tiles(product, tiling, None)
        return
    partial = product.task.temporary(TensorType((tiling.parts, product.problem.size), _sum_dtype(product.problem)))
    _write_tiles(product, tiling, partial)
    _write_results(product, partial, tiling.parts)


def _sum_dtype(problem: Problem) -> Any:
    """The dtype that holds sums between kernels: that of registers."""
    return problem.register


def _write_tiles(product: Product, tiling: Tiling, partial: int | None) -> None:
    """A kernel that makes sums, and of them the results, or sums of parts."""
    task, problem = product.task, product.problem
    given = range(task.flow.given)
    writes = [task.result(place) for place in range(len(task.results))] if partial is None else [partial]
    k, operands = task.begin(given, writes, tiling.blocks(problem), tiling.threads, tiling.shared)
    task.launches[-1] = evolve(task.launches[-1], how=str(tiling))
    _limit_registers(k, tiling)
    number: Index = k.block_number()
    part: Index = 0
    if tiling.parts > 1:
        part, number = k.rem(number, tiling.parts), k.div(number, tiling.parts)
    batch, row, column = _tile(k, tiling, problem, number)
    factors = product.factors(k, operands)
    core: MultiplyAdd | WarpProducts
    core = MultiplyAdd(k, tiling, factors) if tiling.instruction == "fma" else WarpProducts(k, tiling, factors)
    streams = core.streams()
    steps: Index = tiling.steps(problem)
    first = k.mul(part, tiling.steps(problem) * tiling.depth)
    whole = -(-problem.depth // tiling.depth)
    if whole % tiling.steps(problem):
        rest = k.sub(whole, k.mul(part, tiling.steps(problem)))
        steps = rest if isinstance(rest, int) else k.op("arith.minsi", rest, k.reg(steps))
    for stream, line in zip(streams, (row, column), strict=True):
        stream.begin(batch, line, first)
    core.spread(accumulate(k, streams, steps, tiling.stages, core.zero(), core.step))
    k.barrier()
    room = (
        tiling.rows if problem.rows % tiling.rows == 0 else k.sub(problem.rows, row),
        tiling.columns if problem.columns % tiling.columns == 0 else k.sub(problem.columns, column),
    )
    lanes = product.lanes
    results = _Results(product, k, operands, lanes)

    def emit(r: Index, c: Index, sums: Reg) -> None:
        line, at = product.element(k, batch, k.add(row, r), k.add(column, c))
        if partial is None:
            results.write(at, line, k.add(column, c), sums)
        else:
            k.store(sums, operands[partial].pointer, k.add(k.mul(part, problem.size), at))

    drain(k, core.sums, tiling, room, lanes, emit)
    k.end()


def _tile(k: Kernel, tiling: Tiling, problem: Problem, number: Index) -> tuple[Index, Index, Index]:
    """The product of the batch that a block works on, and the first row and column of its tile."""
    down, across = tiling.down(problem), tiling.across(problem)
    batch: Index = 0
    if problem.batch > 1:
        batch, number = k.div(number, down * across), k.rem(number, down * across)
    group = max(g for g in range(1, GROUPED + 1) if down % g == 0)
    first, within = k.mul(k.div(number, group * across), group), k.rem(number, group * across)
    row, column = k.add(first, k.rem(within, group)), k.div(within, group)
    return batch, k.mul(row, tiling.rows), k.mul(column, tiling.columns)


def _limit_registers(k: Kernel, tiling: Tiling) -> None:
    """Have so many registers a thread at most that as many blocks run at once as the cost model counts on."""
    needed = tiling.registers + (WIDE if k.wide and tiling.instruction == "fma" else 0)
    blocks = min(tiling.resident, REGISTERS // (tiling.threads * needed), MOST_BLOCKS)
    k.at.block.owner.attributes["nvvm.minctasm"] = ir.IntegerAttr.get(k.type("i32"), max(1, blocks))


def _write_results(product: Product, partial: int | None, parts: int) -> None:
    """A kernel that makes the results of the sums of parts; of zeros, where there are none."""
    task, problem, lanes = product.task, product.problem, product.lanes
    each = max(lanes, 1)
    threads = min(THREADS, max(32, -(-problem.size // each) // 32 * 32))
    blocks = -(-problem.size // (each * threads))
    reads = [*range(task.flow.given), *([] if partial is None else [partial])]
    k, operands = task.begin(reads, [task.result(place) for place in range(len(task.results))], blocks, threads)
    at = k.mul(k.add(k.mul(k.block_number(), threads), k.thread()), each)
    results = _Results(product, k, operands, lanes)

    def body() -> None:
        total = k.const(0, problem.register, lanes)
        for part in range(parts):
            assert partial is not None
            found = k.load(operands[partial].pointer, k.add(at, part * problem.size), lanes)
            total = found if part == 0 else k.op("arith.addf" if _is_float(found) else "arith.addi", total, found)
        results.write(at, None, 0, total)

    if blocks * threads * each == problem.size:
        body()
    else:
        with k.when(k.below(at, problem.size)):
            body()
    k.end()


def _is_float(value: Reg) -> bool:
    return value.type.startswith("f")


@define(eq=False)
class _Results:
    """Makes the results of a product from its sums."""

    product: Product
    kernel: Kernel
    operands: dict[int, Operand]
    lanes: int

    def write(self, number: Index, line: Index | None, column: Index, sums: Reg) -> None:
        """All results at the elements from `number` on, in a column of a line where that is known."""
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

    def _place(self, shape: tuple[int, ...], number: Index, line: Index | None, column: Index) -> Place:
        k = self.kernel
        axes = None
        if line is not None and shape[-1] == self.product.problem.columns:
            axes = (*coordinates(k, line, shape[:-1]), column)
        return Place(shape, len(shape) - 1 if self.lanes else None, known_axes=axes, known_number=number)
