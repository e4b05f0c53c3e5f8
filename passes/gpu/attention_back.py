"""The derivatives of attention, from what it saved: the weights are computed again, and go to memory nowhere.

    P = e^(scores - lse),  D = sum(g y) - h,  S = P (g v^T - D)
    dq = scale S k        a warp keeps rows of queries and sweeps over keys
    dk = scale S^T q      a warp keeps rows of keys and sweeps over the queries of every head that they serve,
    dv = P^T g            so that no two warps add to the same sums
    dbias = S             a thread for each element of the bias, over the axes along which it repeats

Dao et al., "FlashAttention" (2022), Algorithm 4.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from sexpgpu.passes.gpu.attention_warp import (
    ROWS,
    THREADS,
    Form,
    Result,
    Scores,
    Sight,
    Warp,
    arguments_of,
    blocks_of,
    say,
    swept_row,
    write_row,
)
from sexpgpu.passes.gpu.kernel import WARP, Index, Kernel, Reg
from sexpgpu.passes.gpu.layout import Place
from sexpgpu.passes.gpu.memory import Operand, load, store
from sexpgpu.passes.gpu.sweep import Rows, columns, dots, fused, gather, over_warp
from sexpgpu.passes.gpu.task import Task
from sexpgpu.tensortype import TensorType

Given = dict[str, int]
"""The arguments of the task, by the names of the operation's operands."""


def lower_back(task: Task, form: Form, given: Given, results: Sequence[Result], how: str) -> None:
    """Three kernels: D, dq, then dk and dv."""
    if task.type(given["q"]).size:
        shares = shares_of(task, given)
        _to_queries(task, form, given, shares, results[0])
        say(task, f"{how}: dq")
    else:
        shares = task.temporary(task.type(given["lse"]))
    if task.type(given["k"]).size + task.type(given["v"]).size:
        _to_keys(task, form, given, shares, results[1:])
        say(task, f"{how}: dk, dv")


def shares_of(task: Task, given: Given) -> int:
    """D of every row, in a temporary: a warp for each row."""
    type = task.type(given["lse"])
    shares = task.temporary(TensorType(type.shape, type.dtype))
    warps = THREADS // WARP
    reads = list(dict.fromkeys(given[name] for name in ("g", "y", "h")))
    k, tensors = task.begin(reads, [shares], -(-type.size // warps), THREADS)
    thread = k.thread()
    lane = k.reg(k.rem(thread, WARP))
    row = k.add(k.mul(k.block_number(), warps), k.div(thread, WARP))
    with k.when(k.below(row, type.size)):
        place = Place(type.shape, None, known_number=row)
        batch, head, at = place.axes(k)
        g, y = (Rows(tensors[given[name]], batch, head) for name in ("g", "y"))
        with k.loop(lane, g.length, WARP, [k.const(0, g.register)]) as turn:
            turn.next(fused(k, g.at(k, at, turn.index), y.at(k, at, turn.index), turn.carried[0]))
        total = over_warp(k, turn.results[0], "addf")
        total = k.op("arith.subf", total, load(k, tensors[given["h"]], place, 0))
        with k.when(k.compare("eq", lane, k.reg(0))):
            store(k, tensors[shares], place, total, 0)
    k.end()
    say(task, "warps: D")
    return shares


@frozen(eq=False)
class _Slopes:
    """P and S of pairs of a row and a key."""

    k: Kernel
    form: Form
    scores: Scores
    lse: Operand
    shares: Operand

    def of(self, product: Reg, reached: Reg, row: Index, key: Index, exists: Reg) -> tuple[Reg, Reg]:
        """(P, S), from q k^T and g v^T; 0 where the row does not see the key."""
        k = self.k
        where = (self.scores.batch, self.scores.head, row)
        place = Place(self.lse.layout.shape, None, known_axes=where)
        score = self.scores.of(product, row, key, exists)
        weight = k.op("math.exp", k.op("arith.subf", score, load(k, self.lse, place, 0)))
        slope = k.op("arith.mulf", weight, k.op("arith.subf", reached, load(k, self.shares, place, 0)))
        # A row that sees nothing has no sum: e^(-inf + inf) is NaN where there is no derivative.
        seen = self.scores.sight.seen(row, key)
        seen = exists if seen is None else k.op("arith.andi", exists, seen)
        zero = k.const(0, weight.type)
        return k.select(seen, weight, zero), k.select(seen, slope, zero)


def _scaled(k: Kernel, form: Form, value: Reg) -> Reg:
    return value if form.scale == 1 else k.op("arith.mulf", value, k.const(form.scale, value.type))


def _to_queries(task: Task, form: Form, given: Given, shares: int, result: Result) -> None:
    batch, heads, count, _ = task.type(given["q"]).shape
    _, shared, keys, _ = task.type(given["v"]).shape
    reads = list(dict.fromkeys([*(given[n] for n in given if n not in ("y", "h")), shares]))
    k, tensors = task.begin(reads, [result.argument], blocks_of(batch, heads, count), THREADS)
    warp = Warp(k, count, heads=heads)
    kv = k.div(warp.head, heads // shared)
    q, g = (Rows(tensors[given[name]], warp.batch, warp.head) for name in ("q", "g"))
    keyed, valued = (Rows(tensors[given[name]], warp.batch, kv) for name in ("k", "v"))
    sight = Sight(k, form, count, keys)
    scores = Scores(k, form, sight, tensors[given["bias"]] if "bias" in given else None, warp.batch, warp.head)
    slopes = _Slopes(k, form, scores, tensors[given["lse"]], tensors[shares])
    rows = warp.rows
    parts = columns(keyed)
    low, high = sight.keys_of(warp.first)
    with k.loop(low, high, WARP, [k.const(0, q.register)] * (ROWS * parts)) as turn:
        key, exists = swept_row(k, turn.index, warp.lane, high, keys)
        products = dots(k, q, rows, keyed, key)
        reached = dots(k, g, rows, valued, key)
        numbers = [
            _scaled(k, form, slopes.of(product, reach, row, key, exists)[1])
            for row, product, reach in zip(rows, products, reached, strict=True)
        ]
        turn.next(*gather(k, numbers, keyed, turn.index, high, turn.carried, warp.lane))
    _write(warp, result.of(tensors), rows, turn.results)
    k.end()


def _to_keys(task: Task, form: Form, given: Given, shares: int, results: Sequence[Result]) -> None:
    batch, heads, count, _ = task.type(given["q"]).shape
    _, shared, keys, _ = task.type(given["v"]).shape
    group = heads // shared
    reads = list(dict.fromkeys([*(given[n] for n in given if n not in ("y", "h")), shares]))
    k, tensors = task.begin(reads, arguments_of(results), blocks_of(batch, shared, keys), THREADS)
    warp = Warp(k, keys, heads=shared)
    keyed, valued = (Rows(tensors[given[name]], warp.batch, warp.head) for name in ("k", "v"))
    mine = warp.rows
    zero = k.const(0, keyed.register)
    sizes = ROWS * columns(keyed), ROWS * columns(valued)
    sight = Sight(k, form, count, keys)
    low, high = sight.rows_of(warp.first)
    with k.loop(0, group, 1, [zero] * sum(sizes)) as each:
        head = k.add(k.mul(warp.head, group), each.index)
        q, g = (Rows(tensors[given[name]], warp.batch, head) for name in ("q", "g"))
        bias = tensors[given["bias"]] if "bias" in given else None
        scores = Scores(k, form, sight, bias, warp.batch, head)
        slopes = _Slopes(k, form, scores, tensors[given["lse"]], tensors[shares])
        with k.loop(low, high, WARP, each.carried) as turn:
            row, exists = swept_row(k, turn.index, warp.lane, high, count)
            products = dots(k, keyed, mine, q, row)
            reached = dots(k, valued, mine, g, row)
            pairs = [
                slopes.of(product, reach, row, key, exists)
                for key, product, reach in zip(mine, products, reached, strict=True)
            ]
            to_key = turn.carried[: sizes[0]]
            to_value = turn.carried[sizes[0] :]
            scaled = [_scaled(k, form, slope) for _, slope in pairs]
            to_key = gather(k, scaled, q, turn.index, high, to_key, warp.lane)
            to_value = gather(k, [weight for weight, _ in pairs], g, turn.index, high, to_value, warp.lane)
            turn.next(*to_key, *to_value)
        each.next(*turn.results)
    _write(warp, results[0].of(tensors), mine, each.results[: sizes[0]])
    _write(warp, results[1].of(tensors), mine, each.results[sizes[0] :])
    k.end()


def _write(warp: Warp, tensor: Operand, rows: Sequence[Index], sums: Sequence[Reg]) -> None:
    """Writes the sums of a warp's rows."""
    parts = len(sums) // ROWS

    def one(place: int) -> None:
        own = list(sums[place * parts : (place + 1) * parts])
        write_row(warp.k, tensor, (warp.batch, warp.head, rows[place]), own, warp.lane)

    for place in range(ROWS):
        warp.write(place, lambda place=place: one(place))  # type: ignore[misc]


def lower_bias(task: Task, form: Form, given: Given) -> None:
    """The derivative to the bias: a warp for each element, whose lanes sum over the pairs that it was added to."""
    shape = task.type(given["bias"]).shape
    full = (*task.type(given["q"]).shape[:3], task.type(given["k"]).shape[2])
    if not task.type(given["bias"]).size:
        return
    shares = shares_of(task, given) if task.type(given["q"]).size else task.temporary(task.type(given["lse"]))
    warps = THREADS // WARP
    size = task.type(given["bias"]).size
    reads = list(dict.fromkeys([*(given[n] for n in given if n not in ("y", "h")), shares]))
    k, tensors = task.begin(reads, [task.result(0)], -(-size // warps), THREADS)
    thread = k.thread()
    lane = k.reg(k.rem(thread, WARP))
    number = k.add(k.mul(k.block_number(), warps), k.div(thread, WARP))
    with k.when(k.below(number, size)):
        place = Place(shape, None, known_number=number)
        own = place.axes(k)
        repeated = tuple([1 if n == m else m for n, m in zip(shape, full, strict=True)])
        pairs = 1
        for n in repeated:
            pairs *= n
        sight = Sight(k, form, full[2], full[3])
        group = full[1] // task.type(given["k"]).shape[1]
        with k.loop(lane, pairs, WARP, [k.const(0, Rows(tensors[given["q"]], 0, 0).register)]) as turn:
            along = Place(repeated, None, known_number=turn.index).axes(k)
            axes = [a if n == 1 else b for n, a, b in zip(repeated, own, along, strict=True)]
            batch, head, row, key = axes
            kv = k.div(head, group)
            q, g = (Rows(tensors[given[name]], batch, head) for name in ("q", "g"))
            keyed, valued = (Rows(tensors[given[name]], batch, kv) for name in ("k", "v"))
            (product,) = dots(k, q, [row], keyed, key)
            (reach,) = dots(k, g, [row], valued, key)
            scores = Scores(k, form, sight, tensors[given["bias"]], batch, head)
            slopes = _Slopes(k, form, scores, tensors[given["lse"]], tensors[shares])
            slope = slopes.of(product, reach, row, key, k.const(1, "i1"))[1]
            turn.next(k.op("arith.addf", turn.carried[0], slope))
        total = over_warp(k, turn.results[0], "addf")
        with k.when(k.compare("eq", lane, k.reg(0))):
            store(k, tensors[task.result(0)], place, total, 0)
    k.end()
    say(task, "warps: dbias")
