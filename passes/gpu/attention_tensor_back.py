"""The derivatives of attention of bf16 on tensor cores, from what it saved; no two blocks add to the same sums.

    P = e^(scores - lse),  S = P (g v^T - D) scale
    dq = S k              a block keeps rows of q and g, and sweeps over keys
    dv = P^T g            a block keeps rows of k and v, and sweeps over the queries of every head that they serve;
    dk = S^T q            its products are k q^T and v g^T, so that P^T and S^T lie as first factors do

Dao, "FlashAttention-2" (2023), Algorithm 2, with the loop for dq apart: its sums need no atomic operations then.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from sexpgpu.passes.gpu.attention_pairs import LOG2E, Block, Pairs, block_rows, of_row
from sexpgpu.passes.gpu.attention_tensor import KEPT, Given, tiles_of, write
from sexpgpu.passes.gpu.attention_tile import (
    STAGES,
    THREADS,
    Lines,
    Room,
    Tile,
    dots,
    exp2,
    gather,
    lefts,
    rounded_all,
    sweep,
)
from sexpgpu.passes.gpu.attention_warp import Form, Result, Sight, arguments_of, lesser, say
from sexpgpu.passes.gpu.kernel import Index, Kernel, Reg
from sexpgpu.passes.gpu.layout import Place
from sexpgpu.passes.gpu.memory import Operand, load
from sexpgpu.passes.gpu.sweep import Rows
from sexpgpu.passes.gpu.task import Task
from sexpgpu.passes.gpu.tensorcore import TensorCore, commit, wait

SHORT = 64
"""The longest rows of which a warp can keep 32, or a tile have 64 that are swept."""


def lower_backward(task: Task, form: Form, given: Given, shares: int, results: Sequence[Result]) -> None:
    """Two kernels: dq, then dk and dv; `shares` holds D."""
    _to_queries(task, form, given, shares, results[0])
    _to_keys(task, form, given, shares, results[1:])


@frozen(eq=False)
class _Line:
    """What a row of scores has by itself: -log2 of its sum of exponentials, and -D scale; 0 where it sees nothing."""

    level: Reg
    share: Reg

    @classmethod
    def of(cls, k: Kernel, form: Form, lse: Reg, share: Reg) -> _Line:
        some, zero = k.compare("gt", lse, k.const(float("-inf"), "f32")), k.const(0, "f32")
        level = k.op("arith.mulf", lse, k.const(-LOG2E, "f32"))
        share = k.op("arith.mulf", share, k.const(-form.scale, "f32"))
        return cls(k.select(some, level, zero), k.select(some, share, zero))


def _weight(k: Kernel, pairs: Pairs, score: Reg, line: _Line) -> Reg:
    return exp2(k, k.op("math.fma", score, k.const(pairs.factor, "f32"), line.level))


def _slope(k: Kernel, form: Form, weight: Reg, reached: Reg, line: _Line) -> Reg:
    return k.op("arith.mulf", weight, k.op("math.fma", reached, k.const(form.scale, "f32"), line.share))


def _reads(given: Given, shares: int) -> list[int]:
    return list(dict.fromkeys([*(given[n] for n in given if n not in ("y", "h")), shares]))


def _to_queries(task: Task, form: Form, given: Given, shares: int, result: Result) -> None:
    batch, heads, count, length = task.type(given["q"]).shape
    _, shared, keys, width = task.type(given["v"]).shape
    biased, longest = "bias" in given, max(length, width)
    tiles = tiles_of(batch, heads, count, longest <= SHORT and not biased)
    rows, swept = block_rows(tiles), 64 if longest <= SHORT and tiles == 1 else 32
    blocks = batch * heads * -(-count // rows)
    k, tensors = task.begin(_reads(given, shares), [result.argument], blocks, THREADS)
    core, room = TensorCore(k), Room(k)
    block = Block(k, count, heads, tiles, form.causal)
    kv = k.div(block.head, heads // shared)
    q, g = (Rows(tensors[given[name]], block.batch, block.head) for name in ("q", "g"))
    keyed, valued = (Rows(tensors[given[name]], block.batch, kv) for name in ("k", "v"))
    bias = tensors[given["bias"]] if biased else None
    pairs = Pairs(block, Sight(k, form, count, keys), swept, True, bias, block.batch, block.head)
    kept = Tile.take(core, room, rows, length), Tile.take(core, room, rows, width)
    key_tile = Tile.take(core, room, swept, length, STAGES)
    value_tile = Tile.take(core, room, swept, width, STAGES)
    for tile, source in zip(kept, (q, g), strict=True):
        tile.copy(source, block.first, 0, count % rows == 0)
    commit(k)
    wait(k, 0)
    k.barrier()
    keep = tiles * (length + width) <= KEPT
    left_q, left_g = (lefts(tile.shown(block.own), tiles, tile.length, keep) for tile in kept)
    lines = [_line(k, form, block, row, tensors[given["lse"]], tensors[shares]) for row in block.numbers()]

    def bring(first: Index, stage: Index) -> None:
        key_tile.copy(keyed, first, stage, pairs.whole)
        value_tile.copy(valued, first, stage, pairs.whole)

    def turn(first: Reg, stage: Reg, sums: list[Reg]) -> Sequence[Reg]:
        shown = key_tile.shown(0, stage)
        scores = pairs.exponents(dots(left_q, tiles, shown, swept, length), first)
        reached = rounded_all(k, dots(left_g, tiles, value_tile.shown(0, stage), swept, width))
        slopes = list(scores)
        for place, line in enumerate(lines):
            for at in of_row(scores, place, swept):
                slopes[at] = _slope(k, form, _weight(k, pairs, scores[at], line), reached[at], line)
        return gather(slopes, tiles, shown, swept, length, sums)

    low, high = pairs.range()
    begin = [k.const(0, "f32")] * (tiles * length // 8 * 4)
    write(block, result.of(tensors), sweep(k, low, high, swept, bring, begin, turn), None)
    k.end()
    say(task, f"mma {rows}x{swept} d{length}: dq", room.used)


def _line(k: Kernel, form: Form, block: Block, row: Index, lse: Operand, shares: Operand) -> _Line:
    where = (block.batch, block.head, lesser(k, row, block.count - 1))
    return _Line.of(k, form, *(load(k, t, Place(t.layout.shape, None, known_axes=where), 0) for t in (lse, shares)))


def _to_keys(task: Task, form: Form, given: Given, shares: int, results: Sequence[Result]) -> None:
    batch, heads, count, length = task.type(given["q"]).shape
    _, shared, keys, width = task.type(given["v"]).shape
    biased, longest, group = "bias" in given, max(length, width), heads // shared
    tiles = tiles_of(batch, shared, keys, longest <= SHORT and not biased)
    rows, swept = block_rows(tiles), 64 if longest <= SHORT and tiles == 1 else 32
    blocks = batch * shared * -(-keys // rows)
    k, tensors = task.begin(_reads(given, shares), arguments_of(results), blocks, THREADS)
    core, room = TensorCore(k), Room(k)
    block = Block(k, keys, shared, tiles, False)
    keyed, valued = (Rows(tensors[given[name]], block.batch, block.head) for name in ("k", "v"))
    kept = Tile.take(core, room, rows, length), Tile.take(core, room, rows, width)
    query_tile = Tile.take(core, room, swept, length, STAGES)
    grad_tile = Tile.take(core, room, swept, width, STAGES)
    lse_tile, share_tile = Lines.take(room, swept), Lines.take(room, swept)
    for tile, source in zip(kept, (keyed, valued), strict=True):
        tile.copy(source, block.first, 0, keys % rows == 0)
    commit(k)
    wait(k, 0)
    k.barrier()
    keep = tiles * (length + width) <= KEPT
    left_k, left_v = (lefts(tile.shown(block.own), tiles, tile.length, keep) for tile in kept)
    to_keys = tiles * length // 8 * 4
    zero = k.const(0, "f32")
    with k.loop(0, group, 1, [zero] * (to_keys + tiles * width // 8 * 4)) as each:
        head = k.add(k.mul(block.head, group), each.index)
        q, g = (Rows(tensors[given[name]], block.batch, head) for name in ("q", "g"))
        bias = tensors[given["bias"]] if biased else None
        pairs = Pairs(block, Sight(k, form, count, keys), swept, False, bias, block.batch, head)

        def bring(first: Index, stage: Index) -> None:
            query_tile.copy(q, first, stage, pairs.whole)
            grad_tile.copy(g, first, stage, pairs.whole)
            lse_tile.copy(tensors[given["lse"]], block.batch, head, first, stage)
            share_tile.copy(tensors[shares], block.batch, head, first, stage)

        def turn(first: Reg, stage: Reg, sums: list[Reg]) -> Sequence[Reg]:
            queries, grads = query_tile.shown(0, stage), grad_tile.shown(0, stage)
            scores = pairs.exponents(dots(left_k, tiles, queries, swept, length), first)
            both = (each.pairs(stage, block.column) for each in (lse_tile, share_tile))
            lines = [_Line.of(k, form, lse, share) for lse, share in zip(*both, strict=True)]
            weights, slopes = list(scores), list(scores)
            for place in range(2 * tiles):
                for at, line in zip(of_row(scores, place, swept), lines, strict=True):
                    weights[at] = _weight(k, pairs, scores[at], line)
            to_values = gather(weights, tiles, grads, swept, width, sums[to_keys:])
            reached = rounded_all(k, dots(left_v, tiles, grads, swept, width))
            for place in range(2 * tiles):
                for at, line in zip(of_row(scores, place, swept), lines, strict=True):
                    slopes[at] = _slope(k, form, weights[at], reached[at], line)
            return [*gather(slopes, tiles, queries, swept, length, sums[:to_keys]), *to_values]

        low, high = pairs.range()
        each.next(*sweep(k, low, high, swept, bring, each.carried, turn))
    write(block, results[0].of(tensors), each.results[:to_keys], None)
    write(block, results[1].of(tensors), each.results[to_keys:], None)
    k.end()
    say(task, f"mma {rows}x{swept} d{length}: dk, dv", room.used)
