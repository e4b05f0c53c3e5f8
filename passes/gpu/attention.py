"""Attention: on tensor cores where the operands allow it, else in their own precision; scores go to memory nowhere.

Here is the latter, for any operands. A warp keeps four rows of queries of one head and sweeps over the keys that they
see, 32 at a time, with the running maximum and sum of Milakov and Gimelshein, "Online normalizer calculation for
softmax" (2018), as Dao et al., "FlashAttention" (2022) use them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sexpgpu.passes.gpu.attention_back import lower_back, lower_bias, shares_of
from sexpgpu.passes.gpu.attention_tensor import lower_forward, reason_against
from sexpgpu.passes.gpu.attention_tensor_back import lower_backward
from sexpgpu.passes.gpu.attention_warp import (
    ROWS,
    THREADS,
    Form,
    Result,
    Scores,
    Sight,
    Warp,
    blocks_of,
    finite,
    form_of,
    say,
    swept_row,
    write_row,
    written,
)
from sexpgpu.passes.gpu.kernel import WARP, Index, Reg
from sexpgpu.passes.gpu.layout import Place
from sexpgpu.passes.gpu.memory import store
from sexpgpu.passes.gpu.sweep import Rows, columns, dots, gather, over_warp
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.records import Launches


def lower(task: Task) -> Launches:
    """Kernels for one attention operation."""
    node = task.flow.nodes[0]
    names = node.record.operands if node.record is not None else ()
    # An operand that is read twice is one argument of the group.
    given = dict(zip(names, node.ins, strict=True))
    form = form_of(node)
    against = reason_against(task, form, given)
    if "g" not in given:
        if against:
            _forward(task, form, given, written(task, node), f"warps: {against}")
        else:
            lower_forward(task, form, given, written(task, node))
    elif len(node.outs) == 3:
        if against:
            lower_back(task, form, given, written(task, node), f"warps: {against}")
        else:
            lower_backward(task, form, given, shares_of(task, given), written(task, node))
    else:
        lower_bias(task, form, given)
    return task.lowered()


def _forward(task: Task, form: Form, given: dict[str, int], results: Sequence[Result], how: str) -> None:
    batch, heads, count, _ = task.type(given["q"]).shape
    _, shared, keys, _ = task.type(given["v"]).shape
    if batch * heads * count == 0:
        return
    reads = list(dict.fromkeys(given.values()))
    blocks = blocks_of(batch, heads, count)
    k, tensors = task.begin(reads, [result.argument for result in results], blocks, THREADS)
    warp = Warp(k, count, heads=heads)
    kv = k.div(warp.head, heads // shared)
    q = Rows(tensors[given["q"]], warp.batch, warp.head)
    keyed, valued = (Rows(tensors[given[name]], warp.batch, kv) for name in ("k", "v"))
    bias = tensors[given["bias"]] if "bias" in given else None
    sight = Sight(k, form, count, keys)
    scores = Scores(k, form, sight, bias, warp.batch, warp.head)
    type = q.register
    parts = columns(valued)
    rows = warp.rows
    lowest, zero = k.const(-math.inf, type), k.const(0, type)
    low, high = sight.keys_of(warp.first)
    begin = [lowest] * ROWS + [zero] * (ROWS + ROWS * parts)
    with k.loop(low, high, WARP, begin) as turn:
        key, exists = swept_row(k, turn.index, warp.lane, high, keys)
        products = dots(k, q, rows, keyed, key)
        peaks, totals, sums, weights = [], [], [], []
        for place, (row, product) in enumerate(zip(rows, products, strict=True)):
            score = scores.of(product, row, key, exists)
            before, total = turn.carried[place], turn.carried[ROWS + place]
            peak = k.op("arith.maximumf", before, over_warp(k, score, "maximumf"))
            level = finite(k, peak)
            weight = k.op("math.exp", k.op("arith.subf", score, level))
            shrink = k.op("math.exp", k.op("arith.subf", before, level))
            total = k.op("arith.addf", k.op("arith.mulf", total, shrink), over_warp(k, weight, "addf"))
            own = turn.carried[2 * ROWS + place * parts : 2 * ROWS + (place + 1) * parts]
            sums += [k.op("arith.mulf", value, shrink) for value in own]
            peaks.append(peak)
            totals.append(total)
            weights.append(weight)
        sums = gather(k, weights, valued, turn.index, high, sums, warp.lane)
        turn.next(*peaks, *totals, *sums)
    peaks, totals, sums = turn.results[:ROWS], turn.results[ROWS : 2 * ROWS], turn.results[2 * ROWS :]
    y, lse = (result.of(tensors) for result in results)
    for place, row in enumerate(rows):
        own = [k.op("arith.divf", value, totals[place]) for value in sums[place * parts : (place + 1) * parts]]
        log = k.op("arith.addf", k.op("math.log", totals[place]), finite(k, peaks[place]))

        def write(row: Index = row, own: list[Reg] = own, log: Reg = log) -> None:
            write_row(k, y, (warp.batch, warp.head, row), own, warp.lane)
            with k.when(k.compare("eq", warp.lane, k.reg(0))):
                store(k, lse, Place(lse.layout.shape, None, known_axes=(warp.batch, warp.head, row)), log, 0)

        warp.write(place, write)
    k.end()
    say(task, how)
