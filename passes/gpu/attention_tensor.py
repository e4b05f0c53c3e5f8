"""Attention of bf16 on tensor cores: a block keeps 64 or 128 queries of a head and sweeps over the keys that they see.

S = q k^T, P = e^(S - its greatest so far) and y = P v stay in registers; sums are f32, P is bf16 where it is multiplied
with v. Each line is divided by its sum of weights at the end. Dao, "FlashAttention-2" (2023), Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sexpgpu.passes.gpu.attention_pairs import LOG2E, Block, Pairs, block_rows, of_row
from sexpgpu.passes.gpu.attention_tile import (
    CHUNK,
    FRAGMENT,
    STAGES,
    THREADS,
    Room,
    Tile,
    dots,
    exp2,
    folded,
    gather,
    lefts,
    log2,
    over_quad,
    reciprocal,
    sweep,
)
from sexpgpu.passes.gpu.attention_warp import Form, Result, Sight, finite, say
from sexpgpu.passes.gpu.kernel import Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.layout import Place
from sexpgpu.passes.gpu.memory import Operand, store, vectors
from sexpgpu.passes.gpu.scalar import stored
from sexpgpu.passes.gpu.sweep import Rows
from sexpgpu.passes.gpu.task import Task
from sexpgpu.passes.gpu.tensorcore import TensorCore, commit, wait

MULTIPROCESSORS = 132
LONGEST = 256
"""The longest rows: those of the result fill half the registers of a thread."""
KEPT = 128
"""Elements of the kept rows that a quad of threads holds as fragments, in each of the 8 rows; more are loaded again."""

WIDE = 96
"""The longest rows of which a warp can keep 32: the sums of longer ones leave too few registers for the scores."""

Given = Mapping[str, int]


def reason_against(task: Task, form: Form, given: Given) -> str:
    """Why an operation cannot run on tensor cores; nothing where it can."""
    if not form.rounded:
        return task.type(given["q"]).dtype
    for name in ("q", "k", "v", *(["g"] if "g" in given else ())):
        layout = task.layout(given[name])
        length = layout.shape[3]
        if 0 in layout.shape:
            return f"{name} is empty"
        if length % FRAGMENT or length > LONGEST:
            return f"rows of {length}"
        if layout.strides[3] != 1 or not vectors(layout, 3, CHUNK):
            return f"{name} is not aligned"
    width = task.type(given["q"]).shape[3] + task.type(given["v"]).shape[3]
    return f"rows of {width // 2}" if "g" in given and width > LONGEST else ""


def tiles_of(batch: int, heads: int, rows: int, wide: bool) -> int:
    """How many times 16 rows a warp keeps: 2 where registers suffice, `wide`, and enough blocks are left."""
    return 2 if wide and batch * heads * -(-rows // block_rows(2)) >= MULTIPROCESSORS else 1


def lower_forward(task: Task, form: Form, given: Given, results: Sequence[Result]) -> None:
    batch, heads, count, length = task.type(given["q"]).shape
    _, shared, keys, width = task.type(given["v"]).shape
    biased, longest = "bias" in given, max(length, width)
    tiles = tiles_of(batch, heads, count, longest <= WIDE and not biased)
    tile_rows = 64 if longest * tiles <= 128 else 16 if biased else 32
    rows = block_rows(tiles)
    reads = list(dict.fromkeys(given.values()))
    blocks = batch * heads * -(-count // rows)
    k, tensors = task.begin(reads, [result.argument for result in results], blocks, THREADS)
    core, room = TensorCore(k), Room(k)
    block = Block(k, count, heads, tiles, form.causal)
    kv = k.div(block.head, heads // shared)
    q = Rows(tensors[given["q"]], block.batch, block.head)
    keyed, valued = (Rows(tensors[given[name]], block.batch, kv) for name in ("k", "v"))
    bias = tensors[given["bias"]] if biased else None
    pairs = Pairs(block, Sight(k, form, count, keys), tile_rows, True, bias, block.batch, block.head)
    low, high = pairs.range()
    queries = Tile.take(core, room, rows, length)
    key_tile = Tile.take(core, room, tile_rows, length, STAGES)
    value_tile = Tile.take(core, room, tile_rows, width, STAGES)
    queries.copy(q, block.first, 0, count % rows == 0)
    commit(k)
    wait(k, 0)
    k.barrier()
    left = lefts(queries.shown(block.own), tiles, length, tiles * length <= KEPT)
    states = 2 * tiles

    def bring(first: Index, stage: Index) -> None:
        key_tile.copy(keyed, first, stage, pairs.whole)
        value_tile.copy(valued, first, stage, pairs.whole)

    def turn(first: Reg, stage: Reg, carried: list[Reg]) -> Sequence[Reg]:
        products = dots(left, tiles, key_tile.shown(0, stage), tile_rows, length)
        scores = pairs.exponents(products, first)
        before, totals, sums = carried[:states], carried[states : 2 * states], carried[2 * states :]
        peaks, totals, weights, shrinks = _weights(k, pairs, scores, before, totals)
        for place, shrink in enumerate(shrinks):
            for at in of_row(sums, place, width):
                sums[at] = k.op("arith.mulf", sums[at], shrink)
        sums = gather(weights, tiles, value_tile.shown(0, stage), tile_rows, width, sums)
        return [*peaks, *totals, *sums]

    lowest, zero = k.const(-math.inf, "f32"), k.const(0, "f32")
    begin = [lowest] * states + [zero] * (states + tiles * width // 8 * 4)
    found = sweep(k, low, high, tile_rows, bring, begin, turn)
    peaks, totals, sums = found[:states], found[states : 2 * states], found[2 * states :]
    y, lse = (result.of(tensors) for result in results)
    inverses = []
    for row, peak, part in zip(block.numbers(), peaks, totals, strict=True):
        total = over_quad(k, part, "addf")
        inverses.append(reciprocal(k, total))
        level = k.op("math.fma", finite(k, peak), k.const(pairs.factor, "f32"), log2(k, total))
        log = k.op("arith.mulf", level, k.const(1 / LOG2E, "f32"))
        with k.when(k.op("arith.andi", k.below(row, count), k.compare("eq", k.reg(block.column), k.reg(0)))):
            store(k, lse, Place(lse.layout.shape, None, known_axes=(block.batch, block.head, row)), log, 0)
    write(block, y, sums, inverses)
    k.end()
    say(task, f"mma {rows}x{tile_rows} d{length}", room.used)


def _weights(
    k: Kernel, pairs: Pairs, scores: Sequence[Reg], before: Sequence[Reg], totals: Sequence[Reg]
) -> tuple[list[Reg], list[Reg], list[Reg], list[Reg]]:
    """The greatest scores and sums of weights so far of each row, the weights, and what earlier ones shrink by."""
    peaks, sums, shrinks, weights = [], [], [], list(scores)
    factor = k.const(pairs.factor, "f32")
    for place, (peak, total) in enumerate(zip(before, totals, strict=True)):
        own = of_row(scores, place, pairs.swept)
        greatest = over_quad(k, folded(k, [scores[at] for at in own], "maximumf"), "maximumf")
        greatest = k.op("arith.maximumf", peak, greatest)
        level = k.op("arith.negf", k.op("arith.mulf", finite(k, greatest), factor))
        shrink = exp2(k, k.op("math.fma", peak, factor, level))
        for at in own:
            weights[at] = exp2(k, k.op("math.fma", scores[at], factor, level))
        peaks.append(greatest)
        shrinks.append(shrink)
        sums.append(k.op("math.fma", total, shrink, folded(k, [weights[at] for at in own], "addf")))
    return peaks, sums, weights, shrinks


def write(block: Block, tensor: Operand, sums: Sequence[Reg], factors: Sequence[Reg] | None) -> None:
    """Write the sums of a block's rows, each row times its factor, two elements at a time."""
    k = block.kernel
    shape = tensor.layout.shape
    for place, row in enumerate(block.numbers()):
        with k.when(k.below(row, block.count)):
            start = Place(shape, 3, known_axes=(block.batch, block.head, row, block.column)).index(k, tensor.layout)
            base = Pointer(k.address(tensor.pointer, start), tensor.pointer.type, align=4)
            own = of_row(sums, place, shape[3])
            for number in range(0, len(own), 2):
                both = k.pack([sums[at] for at in own[number : number + 2]])
                if factors is not None:
                    both = k.op("arith.mulf", both, k.splat(factors[place], 2))
                k.store(stored(k, both, tensor.dtype), base, number // 2 * 8)
