"""Matrix products, with the casts of their factors and what is made of the result by elements.

    block      one tile of one product, or of one part of its sum
    sums       of the tile, by multiply-add (`product_fma`) or on tensor cores (`product_tensor`); where a sum is short
               and few others share its factors, by one thread
    results    by elements of the sums, in the same kernel; where the sum is in parts, in a second one that adds them

The parts are added in order, so that every run gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve
from mlir import ir

from sexpgpu.dialects.opdef import Contract
from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.kernel import BYTES, Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.layout import coordinates
from sexpgpu.passes.gpu.memory import Operand
from sexpgpu.passes.gpu.product_bulk import Bulk, bulk_of
from sexpgpu.passes.gpu.product_epilogue import drain, where_all
from sexpgpu.passes.gpu.product_factor import Factor, Reading, Tensor, reading_of
from sexpgpu.passes.gpu.product_fma import MultiplyAdd, multiplied
from sexpgpu.passes.gpu.product_pipeline import accumulate
from sexpgpu.passes.gpu.product_results import Product, Results
from sexpgpu.passes.gpu.product_squares import Tiles, keep
from sexpgpu.passes.gpu.product_tensor import WarpProducts
from sexpgpu.passes.gpu.product_tiling import MULTIPROCESSORS, REGISTERS, Problem, Tiling, tiling_of
from sexpgpu.passes.gpu.product_warpgroup import WarpgroupProducts
from sexpgpu.passes.gpu.scalar import MEMORY, combine
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.records import Launches
from sexpgpu.tensortype import TensorType

GROUPED = 8
"""Tiles of rows that blocks beside each other take, so that they find the same columns in the cache."""
THREADS = 256
WIDE = 16
"""Registers more that a thread needs where indices have 64 bits, and none is to spare."""
MOST_BLOCKS = 4
"""Small blocks may be more on a multiprocessor, but need not be."""


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
    passed = _passed(task, readings[0]), _passed(task, readings[1])
    bulks = _bulks(task, readings)
    dtype = task.flow.types[x].dtype
    problem = Problem(count, rows, columns, depth, dtype, scattered, passed, task.tf32, bulks is not None)

    def opened(k: Kernel, operands: dict[int, Operand]) -> tuple[Factor, Factor]:
        return _tensor(k, task, readings[0], operands), _tensor(k, task, readings[1], operands)

    write(Product(task, node, problem, opened, columns, bulks=bulks))
    return task.lowered()


def _bulks(task: Task, readings: tuple[Reading, Reading]) -> tuple[Bulk, Bulk] | None:
    """The factors as bulk copies bring them, on a chip whose warpgroups take them from there."""
    if task.module.chip != "sm_90a":
        return None
    first, second = (bulk_of(task, reading) for reading in readings)
    return (first, second) if first is not None and second is not None else None


def _passed(task: Task, reading: Reading) -> float:
    """Registers that an element of a vector takes where it is computed before it is brought to shared memory."""
    if reading.plain or not reading.lanes or reading.argument is None:
        return 0
    return BYTES[MEMORY[task.flow.types[reading.argument].dtype]] / 4


def _tensor(k: Kernel, task: Task, reading: Reading, operands: dict[int, Operand]) -> Tensor:
    given = [operands[a] for a in range(task.flow.given)]
    return Tensor(k, reading, Elements(k, task.flow, given, reading.lanes), operands)


def write(product: Product) -> None:
    """The kernels of a product."""
    if not product.problem.size:
        return
    if not product.problem.depth:
        _write_results(product, None, 0)
        return
    tiling = tiling_of(product.problem)
    if tiling.instruction == "dot":
        _write_dots(product, tiling)
        return
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
    squares = task.squared >= 0 and partial is None
    if squares:
        task.tiles = Tiles(problem.batch, problem.rows, problem.columns, tiling.rows, tiling.columns)
    writes = product.writes if partial is None else [partial]
    bulks = product.bulks if tiling.instruction == "wgmma" else None
    lines = tiling.rows, tiling.columns
    maps = [bulk.map(n, tiling.depth) for bulk, n in zip(bulks, lines, strict=True)] if bulks is not None else []
    k, operands = task.begin(given, writes, tiling.blocks(problem), tiling.threads, tiling.shared, maps=maps)
    task.launches[-1] = evolve(task.launches[-1], how=str(tiling))
    _limit_registers(k, tiling, problem)
    number: Index = k.block_number()
    part: Index = 0
    if tiling.parts > 1:
        part, number = k.rem(number, tiling.parts), k.div(number, tiling.parts)
    batch, row, column = _tile(k, tiling, problem, number)
    steps: Index = tiling.steps(problem)
    first = k.mul(part, tiling.steps(problem) * tiling.depth)
    whole = -(-problem.depth // tiling.depth)
    if whole % tiling.steps(problem):
        rest = k.sub(whole, k.mul(part, tiling.steps(problem)))
        steps = rest if isinstance(rest, int) else k.op("arith.minsi", rest, k.reg(steps))
    sums: Pointer
    if bulks is not None:
        groups = WarpgroupProducts(k, tiling, bulks)
        groups.accumulate(batch, row, column, first, steps)
        sums = groups.sums
    else:
        factors = product.factors(k, operands)
        core: MultiplyAdd | WarpProducts
        core = MultiplyAdd(k, tiling, factors) if tiling.instruction == "fma" else WarpProducts(k, tiling, factors)
        streams = core.streams()
        for stream, line in zip(streams, (row, column), strict=True):
            stream.begin(batch, line, first)
        core.spread(accumulate(k, streams, steps, tiling.stages, core.zero(), core.step))
        sums = core.sums
    k.barrier()
    room = (
        tiling.rows if problem.rows % tiling.rows == 0 else k.sub(problem.rows, row),
        tiling.columns if problem.columns % tiling.columns == 0 else k.sub(problem.columns, column),
    )
    lanes = product.lanes
    results = Results(product, k, operands, lanes)

    def emit(r: Index, c: Index, found: Reg, held: Sequence[Reg]) -> Sequence[Reg]:
        line, at = product.element(k, batch, k.add(row, r), k.add(column, c))
        if partial is None:
            return results.write(at, line, k.add(column, c), found, held)
        k.store(found, operands[partial].pointer, k.add(k.mul(part, problem.size), at))
        return held

    held = drain(k, sums, tiling, room, lanes, emit, results.nothing() if squares else ())
    if task.tiles is not None:
        keep(k, held[0], tiling.threads, operands[task.sums], task.tiles.number(k, batch, row, column))
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


def _limit_registers(k: Kernel, tiling: Tiling, problem: Problem) -> None:
    """Have so many registers a thread at most that as many blocks run at once as the cost model counts on, and no less
    where there are not so many.
    """
    needed = tiling.registers + (WIDE if k.wide and tiling.instruction == "fma" else 0)
    there = -(-tiling.blocks(problem) // MULTIPROCESSORS)
    blocks = min(tiling.resident, REGISTERS // (tiling.threads * needed), MOST_BLOCKS, there)
    k.at.block.owner.attributes["nvvm.minctasm"] = ir.IntegerAttr.get(k.type("i32"), max(1, blocks))


def _write_results(product: Product, partial: int | None, parts: int) -> None:
    """A kernel that makes the results of the sums of parts; of zeros, where there are none."""
    task, problem, lanes = product.task, product.problem, product.lanes
    each = max(lanes, 1)
    threads = min(THREADS, max(32, -(-problem.size // each) // 32 * 32))
    blocks = -(-problem.size // (each * threads))
    reads = [*range(task.flow.given), *([] if partial is None else [partial])]
    if task.squared >= 0:
        task.tiles = Tiles.in_order(problem.size, threads * each)
    k, operands = task.begin(reads, product.writes, blocks, threads)
    at = k.mul(k.add(k.mul(k.block_number(), threads), k.thread()), each)
    results = Results(product, k, operands, lanes)
    nothing = results.nothing()

    def added() -> Sequence[Reg]:
        total = k.const(0, problem.register, lanes)
        for part in range(parts):
            assert partial is not None
            found = k.load(operands[partial].pointer, k.add(at, part * problem.size), lanes)
            total = found if part == 0 else combine(k, "add", total, found)
        return results.write(at, None, 0, total, nothing)

    ragged = blocks * threads * each != problem.size
    held = where_all(k, [k.below(at, problem.size)] if ragged else [], added, nothing)
    if held:
        keep(k, held[0], threads, operands[task.sums], k.block_number())
    k.end()


def _write_dots(product: Product, tiling: Tiling) -> None:
    """A kernel whose threads each make the whole sum of one element, of factors as they lie in memory."""
    task, problem = product.task, product.problem
    blocks = -(-problem.size // tiling.threads)
    if task.squared >= 0:
        task.tiles = Tiles.in_order(problem.size, tiling.threads)
    k, operands = task.begin(range(task.flow.given), product.writes, blocks, tiling.threads)
    task.launches[-1] = evolve(task.launches[-1], how=str(tiling))
    results = Results(product, k, operands, 0)
    nothing = results.nothing()
    number = k.add(k.mul(k.block_number(), tiling.threads), k.thread())

    def summed() -> Sequence[Reg]:
        batch, row, column = coordinates(k, number, (problem.batch, problem.rows, problem.columns))
        first, second = product.factors(k, operands)
        first.lanes = second.lanes = 0
        # Where finding elements takes many instructions, several turns at once run out of registers.
        with k.loop(0, problem.depth, 1, [k.const(0, problem.register)], rolled=any(problem.scattered)) as turn:
            a, b = first.read(batch, row, turn.index), second.read(batch, column, turn.index)
            turn.next(multiplied(k, a, b, turn.carried[0]))
        line, at = product.element(k, batch, row, column)
        return results.write(at, line, column, turn.results[0], nothing)

    ragged = blocks * tiling.threads != problem.size
    held = where_all(k, [k.below(number, problem.size)] if ragged else [], summed, nothing)
    if held:
        keep(k, held[0], tiling.threads, operands[task.sums], k.block_number())
    k.end()
