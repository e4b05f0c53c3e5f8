"""Attention in NumPy by blocks: a few heads and rows at a time, whose scores stay in the cache.

The weights of all rows never exist together. Keys that no row of a block sees, behind the diagonal of a causal mask or
out of the window's reach, are not read. Of each line the logarithm of its sum of exponentials is kept, from which the
derivative computes the weights again (Dao et al., "FlashAttention", 2022). bf16 operands, f32 arrays of rounded values,
have their scores, weights and the derivatives of both rounded where the product that makes or reads them is bf16.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import frozen

from sexpgpu.dialects.arrays import deliver_all, targets
from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.opdef import Array

_ROWS = 96  # a block of scores and its derivative, at 1024 keys in f32, stay below 1 MiB
_SCORES = 1 << 15  # scores of a block: 128 KiB

Slices = tuple[slice, slice]
Rest = tuple[Array, Array, Array, Array]


@frozen
class Form:
    """What the scores are multiplied by, and which keys a row sees (see `attention`)."""

    scale: float
    causal: bool
    window: int
    rounded: bool  # the operands are bf16


@frozen
class _Block:
    """Some batches and heads of keys, rows `first` to `last` of each query head, the keys `low` to `high`."""

    at: Slices
    first: int
    last: int
    low: int
    high: int

    @property
    def rows(self) -> tuple[slice, ...]:
        return (*self.at, slice(None), slice(self.first, self.last))

    @property
    def keys(self) -> tuple[slice, ...]:
        return (*self.at, slice(self.low, self.high))


def _blocks(queries: Array, keys: int, form: Form) -> Iterator[_Block]:
    """Blocks of queries [batch, key heads, group, rows, dim], the heads of a block in the outer loop."""
    batch, heads, group, rows, _ = queries.shape
    height = min(rows, _ROWS)
    most = max(1, _SCORES // max(1, group * height * keys))
    together = max(1, most // max(1, heads)) if most >= heads else 1
    for b in range(0, batch, together):
        for h in range(0, heads, most):
            at = (slice(b, b + together), slice(h, h + most))
            for first in range(0, rows, _ROWS):
                last = min(first + _ROWS, rows)
                yield _Block(at, first, last, *_reach(first, last, keys - rows, keys, form))


def _reach(first: int, last: int, offset: int, keys: int, form: Form) -> tuple[int, int]:
    """The keys that any of the rows sees; at least one, so that a row that sees nothing has a line."""
    low, high = 0, keys
    if form.window:
        low = first + offset - form.window + 1
        high = last + offset + (0 if form.causal else form.window - 1)
    elif form.causal:
        high = last + offset
    low = min(max(low, 0), max(keys - 1, 0))
    return low, max(min(high, keys), min(low + 1, keys))


def _hide(scores: Array, block: _Block, offset: int, form: Form) -> None:
    """-inf where a row does not see a key; scores are [..., rows, keys] of the block."""
    rows = np.arange(block.first, block.last)[:, None] + offset
    keys = np.arange(block.low, block.high)
    ahead = 0 if form.causal else form.window - 1
    if form.causal or form.window:
        start = min(max(block.first + offset + ahead + 1 - block.low, 0), len(keys))
        if start < len(keys):
            np.copyto(scores[..., start:], -np.inf, where=keys[start:] > rows + ahead)
    if form.window:
        end = min(max(block.last + offset - form.window - block.low, 0), len(keys))
        if end:
            np.copyto(scores[..., :end], -np.inf, where=keys[:end] <= rows - form.window)


def _grouped(x: Array, heads: int) -> Array:
    """[batch, heads of queries, ...] as [batch, heads of keys, group, ...]."""
    return x.reshape(x.shape[0], heads, x.shape[1] // heads, *x.shape[2:])


def _stacked(x: Array) -> Array:
    """[batch, heads, group, rows, ...] with the rows of a group one behind the other."""
    return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3], *x.shape[4:])


def _part(bias: Array, block: _Block) -> Array:
    """The bias of a block, [batch, heads, group, rows, keys] with ones where it repeats."""
    wanted = (*block.rows, slice(block.low, block.high))
    return bias[tuple(s if n > 1 else slice(None) for s, n in zip(wanted, bias.shape, strict=True))]


class _Operands:
    """Arrays in their grouped shapes, and the scores of any block of them."""

    def __init__(self, form: Form, q: Array, k: Array, v: Array, bias: Array | None) -> None:
        heads = k.shape[1]
        self.form = form
        self.q, self.k, self.v = _grouped(_dense(q), heads), _dense(k), _dense(v)
        self.bias = None
        if bias is not None:
            self.bias = _grouped(bias, heads) if bias.shape[1] > 1 else bias[:, :, None]
        self.offset = k.shape[2] - q.shape[2]

    def blocks(self) -> Iterator[_Block]:
        return _blocks(self.q, self.k.shape[2], self.form)

    def scores(self, block: _Block) -> Array:
        """[batch, heads, stacked rows, keys] of the block: scaled, biased, -inf where not seen."""
        form = self.form
        rows = self.q[block.rows]
        scores: Array = np.matmul(_stacked(rows), self.k[block.keys].swapaxes(-1, -2))
        if form.rounded:
            scores = round_bf16(scores)
        if form.scale != 1:
            scores *= form.scale
        split = scores.reshape(*rows.shape[:-1], scores.shape[-1])
        if self.bias is not None:
            split += _part(self.bias, block)
        _hide(split, block, self.offset, form)
        return scores


def _dense(x: Array) -> Array:
    """The array, copied where rows are not dense: products would leave BLAS for it."""
    return x if x.strides[-1] == x.itemsize else np.ascontiguousarray(x)


def attend(
    q: Array, k: Array, v: Array, bias: Array | None, form: Form, out: tuple[Array, ...] | None
) -> tuple[Array, ...]:
    """(softmax(scores) v, the logarithm of each line's sum of exponentials)."""
    given = _Operands(form, q, k, v, bias)
    y, lse = targets(out, ((*q.shape[:3], v.shape[3]), q.dtype), (q.shape[:3], q.dtype))
    result, logs = _grouped(y, k.shape[1]), _grouped(lse, k.shape[1])
    for block in given.blocks():
        _forward(given, block, result, logs)
    return deliver_all((y, lse), out)


def _forward(given: _Operands, block: _Block, result: Array, logs: Array) -> None:
    """One block of `attend`: a function, so that its scores are gone before the next block's are made."""
    scores = given.scores(block)
    peak = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    peak = np.where(np.isfinite(peak), peak, peak.dtype.type(0))
    scores -= peak
    weights = np.exp(scores, out=scores)
    total = np.matmul(weights, np.ones((weights.shape[-1], 1), weights.dtype))  # faster than sums of short lines
    if given.form.rounded:
        weights /= total
        weights = round_bf16(weights)
    part = np.matmul(weights, given.v[block.keys])
    if not given.form.rounded:
        part /= total
    result[block.rows] = part.reshape(result[block.rows].shape)
    np.log(total, out=total)
    total += peak
    logs[block.rows] = total.reshape(logs[block.rows].shape)


def _slopes(given: _Operands, block: _Block, rest: Rest) -> tuple[Array, Array, Array]:
    """(weights, the derivative to the scores before they are scaled, the block's part of g)."""
    heads = given.k.shape[1]
    g, h, y, lse = (_stacked(_grouped(x, heads)[block.rows]) for x in rest)
    weights = given.scores(block)
    weights -= lse[..., None]
    np.exp(weights, out=weights)
    slopes: Array = np.matmul(g, given.v[block.keys].swapaxes(-1, -2))
    if given.form.rounded:
        slopes = round_bf16(slopes)
        share = np.einsum("...k,...k->...", weights, slopes)
    else:
        share = np.einsum("...d,...d->...", g, y)
    slopes -= (share - h)[..., None]
    slopes *= weights
    return weights, slopes, g


def attend_back(
    q: Array, k: Array, v: Array, bias: Array | None, form: Form, rest: Rest, out: tuple[Array, ...] | None
) -> tuple[Array, ...]:
    """The derivatives to q, k and v; `rest` is g, h, y, lse: cotangents, and what the forward pass gave."""
    given = _Operands(form, q, k, v, bias)
    dq, dk, dv = targets(out, (q.shape, q.dtype), (k.shape, k.dtype), (v.shape, v.dtype))
    dk.fill(0)
    dv.fill(0)
    result = _grouped(dq, k.shape[1])
    for block in given.blocks():
        _backward(given, block, rest, (result, dk, dv))
    return deliver_all((dq, dk, dv), out)


def _backward(given: _Operands, block: _Block, rest: Rest, into: tuple[Array, Array, Array]) -> None:
    """One block of `attend_back`."""
    form = given.form
    dq, dk, dv = into
    weights, slopes, g = _slopes(given, block, rest)
    if form.scale != 1:
        slopes *= form.scale
    if form.rounded:
        weights, slopes = round_bf16(weights), round_bf16(slopes)
    rows = given.q[block.rows]
    dv[block.keys] += np.matmul(weights.swapaxes(-1, -2), g)
    dk[block.keys] += np.matmul(slopes.swapaxes(-1, -2), _stacked(rows))
    dq[block.rows] = np.matmul(slopes, given.k[block.keys]).reshape(rows.shape)


def bias_back(q: Array, k: Array, v: Array, bias: Array, form: Form, rest: Rest) -> Array:
    """The derivative to the bias, summed where it repeats."""
    given = _Operands(form, q, k, v, bias)
    total: Any = np.zeros(bias.shape, bias.dtype)
    split = _grouped(total, k.shape[1]) if bias.shape[1] > 1 else total[:, :, None]
    repeats = tuple(axis for axis, n in enumerate(split.shape) if n == 1)
    for block in given.blocks():
        _, slopes, _ = _slopes(given, block, rest)
        part = slopes.reshape(*given.q[block.rows].shape[:-1], slopes.shape[-1])
        target = _part(split, block)
        target += part.sum(axis=repeats, keepdims=True)
    return np.asarray(total)
