"""Adapters that give NumPy functions the form of `OpDef.numpy`: `(*arrays, out=None, **attrs) -> ndarray`.

NumPy turns results without axes into scalars; the interpreter holds arrays only, so these keep arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sexpgpu.dialects.opdef import Array


def ufunc(function: Callable[..., Any]) -> Callable[..., Array]:
    """A NumPy ufunc (or function with `out=`) whose result has the dtype it gives."""

    def apply(*arrays: Array, out: Array | None = None) -> Array:
        if out is None:
            return np.asarray(function(*arrays))
        function(*arrays, out=out)
        return out

    return apply


def plain(function: Callable[..., Any]) -> Callable[..., Array]:
    """A function without `out=`: its result is copied there."""

    def apply(*arrays: Array, out: Array | None = None, **attrs: Any) -> Array:
        return deliver(np.asarray(function(*arrays, **attrs)), out)

    return apply


_BLOCK_BYTES = 1 << 16  # a handful of such rows stays in the second-level cache


def blockwise(function: Callable[..., None]) -> Callable[..., Array]:
    """An elementwise function of several passes, run over short stretches so that they meet in the cache.

    `function(*stretches, out=stretch, **attrs)` works on arrays with one axis and leaves the result in `out`, which
    may be one of the operands.
    """

    def apply(*arrays: Array, out: Array | None = None, **attrs: Any) -> Array:
        first = arrays[0]
        result = out if out is not None and out.flags.c_contiguous else np.empty(first.shape, first.dtype)
        target = result.reshape(-1)
        sources = [array.reshape(-1) for array in arrays]
        length = _BLOCK_BYTES // first.itemsize
        for start in range(0, target.size, length):
            stretch = slice(start, start + length)
            function(*[source[stretch] for source in sources], out=target[stretch], **attrs)
        return result if out is None or out is result else deliver(result, out)

    return apply


def deliver(result: Array, out: Array | None) -> Array:
    """`result`, in `out` when it is given."""
    if out is None:
        return result
    np.copyto(out, result)
    return out


Kept = tuple[tuple[int, ...], Any]
"""The shape and the NumPy dtype of a result."""


def targets(out: tuple[Array, ...] | None, *kinds: Kept) -> tuple[Array, ...]:
    """Contiguous arrays to compute several results in: those of `out` where they are so, new ones elsewhere."""
    given = (None,) * len(kinds) if out is None else out
    return tuple(
        array if array is not None and array.flags.c_contiguous else np.empty(shape, dtype)
        for array, (shape, dtype) in zip(given, kinds, strict=True)
    )


def deliver_all(results: tuple[Array, ...], out: tuple[Array, ...] | None) -> tuple[Array, ...]:
    """The results, in the arrays of `out` when these are given."""
    if out is None:
        return results
    for result, target in zip(results, out, strict=True):
        if result is not target:
            np.copyto(target, result)
    return out


_WORDS: dict[int, type[np.signedinteger[Any]]] = {4: np.int32, 8: np.int64}
_FEW = 4096  # up to here `numpy.where` costs less than the extra calls


def select(condition: Array, x: Array, y: Array, out: Array | None = None) -> Array:
    """`numpy.where` without its allocation and its branches; `out` may be x or y.

    A condition that repeats along an axis is a mask of positions, whose runs NumPy's masked copy follows well. Any
    other is taken as irregular: there a branch on every element costs several times more than exchanging bits.
    """
    word = _WORDS.get(x.itemsize)
    if word is None or condition.size <= _FEW:
        return deliver(np.asarray(np.where(condition, x, y)), out)
    result = out if out is not None and out.flags.c_contiguous else np.empty(x.shape, x.dtype)
    if any(step == 0 and size > 1 for step, size in zip(condition.strides, condition.shape, strict=True)):
        if _is_at(result, x):
            np.copyto(result, y, where=~condition)
        else:
            if not _is_at(result, y):
                np.copyto(result, y)
            np.copyto(result, x, where=condition)
    else:
        _exchange(condition, x, y, result, word)
    return result if out is None or out is result else deliver(result, out)


def _is_at(left: Array, right: Array) -> bool:
    """Whether two arrays of one shape lie at one place; they may be different views of it."""
    same: bool = left.__array_interface__["data"] == right.__array_interface__["data"] and left.strides == right.strides
    return same


def _exchange(condition: Array, x: Array, y: Array, result: Array, word: type[np.signedinteger[Any]]) -> None:
    """Bits of y exchanged for those of x under a mask, a few rows at a time so that the passes meet in the cache."""
    lead = 0
    while lead < x.ndim - 1 and math.prod(x.shape[lead + 1 :]) * x.itemsize >= _BLOCK_BYTES:
        lead += 1
    rows = max(1, _BLOCK_BYTES // max(1, math.prod(x.shape[lead + 1 :]) * x.itemsize))
    for place in np.ndindex(x.shape[:lead]):
        parts = [array[place] for array in (condition, x, y, result)]
        for start in range(0, x.shape[lead], rows):
            test, one, other, target = (part[start : start + rows] for part in parts)
            mask = test.view(np.int8).astype(word)
            np.negative(mask, out=mask)  # all ones where the condition holds
            mask &= np.bitwise_xor(one.view(word), other.view(word))
            np.bitwise_xor(mask, other.view(word), out=target.view(word))
