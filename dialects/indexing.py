"""Places read from an index tensor: gathers, and their transposes that accumulate.

An index outside the axis is an error wherever it is found; nothing is clamped and no index counts from the
end. Repeated indices fold in input order, so the value does not depend on how the work is split.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sexpgpu.diag import error
from sexpgpu.dialects.arrays import deliver, plain
from sexpgpu.dialects.movement import reshaped
from sexpgpu.dialects.opdef import Array, Attr, Index, OpDef, sample
from sexpgpu.dialects.rules import (
    ANY,
    INDICES,
    NUMBERS,
    differing,
    require_axis,
    require_dtype,
    require_same_dtype,
)
from sexpgpu.tensortype import TensorType


def _gathered(op: str, x: TensorType, indices: TensorType, axis: int) -> tuple[int, ...]:
    require_axis(op, axis, x.rank)
    require_dtype(op, "indices", indices, INDICES)
    return (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _gather_infer(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    return TensorType(_gathered("gather", x, indices, axis), x.dtype)


def _scatter_infer(x: TensorType, indices: TensorType, updates: TensorType, *, axis: int) -> TensorType:
    shape = _gathered("scatter_add", x, indices, axis)
    _require_updates("scatter_add", x, updates, shape)
    return x


def _update_infer(x: TensorType, indices: TensorType, updates: TensorType, *, axis: int) -> TensorType:
    shape = _gathered("index_update", x, indices, axis)
    _require_updates("index_update", x, updates, shape, ANY)
    return x


def _along(op: str, x: TensorType, indices: TensorType, axis: int) -> None:
    require_axis(op, axis, x.rank)
    require_dtype(op, "indices", indices, INDICES)
    others = [(*type.shape[:axis], *type.shape[axis + 1 :]) for type in (x, indices)]
    if indices.rank != x.rank or others[0] != others[1]:
        raise error(
            "E-SHAPE-015",
            f"{op}: indices differ from x in another axis than axis {axis}",
            expected=f"the other axes of x: {differing(x, indices, axis)[0]}",
            actual=f"indices: {differing(x, indices, axis)[1]}",
        )


def _take_infer(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    _along("take_along_axis", x, indices, axis)
    return TensorType(indices.shape, x.dtype)


def _add_along_infer(x: TensorType, indices: TensorType, updates: TensorType, *, axis: int) -> TensorType:
    _along("add_along_axis", x, indices, axis)
    _require_updates("add_along_axis", x, updates, indices.shape)
    return x


def _require_updates(
    op: str, x: TensorType, updates: TensorType, shape: tuple[int, ...], allowed: frozenset[str] = NUMBERS
) -> None:
    require_dtype(op, "x", x, allowed)
    require_same_dtype(op, "x", x, "updates", updates)
    if updates.shape != shape:
        raise error(
            "E-SHAPE-016",
            f"{op}: updates do not have one element for each place that the indices name",
            expected=f"updates: {TensorType(shape, x.dtype)}",
            actual=f"updates: {updates}",
        )


def within(op: str, indices: Array, length: int) -> Array:
    """`indices`; E-VALUE-101 where one lies outside range(`length`)."""
    if indices.size:
        low, high = int(indices.min()), int(indices.max())
        if low < 0 or high >= length:
            raise error(
                "E-VALUE-101",
                f"{op}: an index lies outside the axis",
                expected=f"indices from 0 to {length - 1}" if length else "no index: the axis is empty",
                actual=f"index {low if low < 0 else high}",
                index=low if low < 0 else high,
            )
    return indices


def _gather(x: Array, indices: Array, *, axis: int, out: Array | None = None) -> Array:
    within("gather", indices, x.shape[axis])
    # The range is known to hold; mode "raise" would copy through a buffer.
    return np.asarray(np.take(x, indices, axis, out=out, mode="clip"))


def _take(x: Array, indices: Array, *, axis: int) -> Array:
    return np.take_along_axis(x, within("take_along_axis", indices, x.shape[axis]), axis)


_STRETCH = 1 << 14
"""Elements that are added at a time: a few of their places stay in the cache."""


def _accumulate(x: Array, rows: NDArray[np.intp], inner: int, updates: Array, out: Array | None) -> Array:
    """Adds lines of `inner` elements of `updates` to those rows of a copy of x, one after the other."""
    if out is None or not out.flags.c_contiguous or np.may_share_memory(out, updates):
        result = np.array(x, order="C")
    else:
        result = out
        if out is not x:
            np.copyto(out, x)
    flat, lines = result.reshape(-1), updates.reshape(-1, inner) if inner else updates.reshape(0, 1)
    within_line = np.arange(inner)
    count = max(1, _STRETCH // max(1, inner))
    for start in range(0, len(lines), count):
        places = rows[start : start + count, None] * inner + within_line
        # On one axis ufunc.at has a fast loop, and it keeps the order of its input.
        np.add.at(flat, places.reshape(-1), lines[start : start + count].reshape(-1))
    if out is not None and result is not out:
        np.copyto(out, result)
        return out
    return result


def _scatter_add(x: Array, indices: Array, updates: Array, *, axis: int, out: Array | None = None) -> Array:
    length = x.shape[axis]
    within("scatter_add", indices, length)
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    rows = np.arange(outer)[:, None] * length + indices.reshape(1, -1)
    return _accumulate(x, rows.reshape(-1), inner, updates, out)


def _add_along(x: Array, indices: Array, updates: Array, *, axis: int, out: Array | None = None) -> Array:
    length = x.shape[axis]
    within("add_along_axis", indices, length)
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    rows = np.arange(outer)[:, None, None] * length + indices.reshape(outer, indices.shape[axis], inner)
    places = rows * inner + np.arange(inner)
    return _accumulate(x, places.reshape(-1), 1, updates, out)


def _index_update(x: Array, indices: Array, updates: Array, *, axis: int, out: Array | None = None) -> Array:
    flat = within("index_update", indices, x.shape[axis]).reshape(-1)
    # NumPy does not say which of repeated indices wins: only the last of each is written.
    places, from_behind = np.unique(flat[::-1], return_index=True)
    lines = updates.reshape(*x.shape[:axis], flat.size, *x.shape[axis + 1 :])
    written = np.take(lines, flat.size - 1 - from_behind, axis)
    result = deliver(x, out) if out is not None else np.array(x)
    np.moveaxis(result, axis, 0)[places] = np.moveaxis(written, axis, 0)
    return result


def _update_vjp(b: Any, g: Any, out: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> tuple[Any, ...]:
    """What was overwritten has no derivative: neither x at the indices, nor an update that a later one replaced."""
    flat = reshaped(b, indices, (indices.type.size,))
    number = b("iota", shape=flat.type.shape, axis=0, dtype="i32")
    length = x.type.shape[axis]
    winners = b("index_update", b.constant(-1, TensorType((length,), "i32")), flat, number, axis=0)
    won = reshaped(b, b("eq", b("gather", winners, flat, axis=0), number), indices.type.shape)
    shape = updates.type.shape
    rank = indices.type.rank
    aligned = reshaped(b, won, (*indices.type.shape, *(1,) * (len(shape) - axis - rank)))
    zero = b.constant(0, updates.type)
    kept = b("where", b("broadcast", aligned, shape=shape), b("gather", g, indices, axis=axis), zero)
    return b("index_update", g, indices, zero, axis=axis), None, kept


def _gather_vjp(b: Any, g: Any, out: Any, x: Any, indices: Any, *, axis: int) -> tuple[Any, ...]:
    return b("scatter_add", b.constant(0, x.type), indices, g, axis=axis), None


def _scatter_vjp(b: Any, g: Any, out: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> tuple[Any, ...]:
    return g, None, b("gather", g, indices, axis=axis)


def _take_vjp(b: Any, g: Any, out: Any, x: Any, indices: Any, *, axis: int) -> tuple[Any, ...]:
    return b("add_along_axis", b.constant(0, x.type), indices, g, axis=axis), None


def _add_along_vjp(b: Any, g: Any, out: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> tuple[Any, ...]:
    return g, None, b("take_along_axis", g, indices, axis=axis)


_AXIS = (Attr("axis", "int"),)

OPERATIONS = (
    OpDef(
        name="gather",
        kind=Index("read"),
        operands=("x", "indices"),
        attrs=_AXIS,
        infer=_gather_infer,
        numpy=_gather,
        vjp=_gather_vjp,
        samples=(
            sample("f64[5, 3]", "i32[4]", axis=0, below=5),
            sample("f64[2, 3, 4]", "i64[2, 2]", axis=1, below=3),
            sample("f64[3]", "i32[]", axis=0, below=3),
            sample("f32[3, 2]", "i32[0]", axis=1),
            sample("u8[3]", "i32[2]", axis=0, below=3),
            sample("bool[3]", "i32[2]", axis=0, below=3),
        ),
        doc="the slices of x at the indices along the axis; the axes of indices take the place of the axis",
    ),
    OpDef(
        name="scatter_add",
        kind=Index("add"),
        operands=("x", "indices", "updates"),
        attrs=_AXIS,
        infer=_scatter_infer,
        numpy=_scatter_add,
        vjp=_scatter_vjp,
        samples=(
            sample("f64[3, 2]", "i32[5]", "f64[5, 2]", axis=0, below=3),
            sample("f64[2, 3, 2]", "i64[2, 2]", "f64[2, 2, 2, 2]", axis=1, below=3),
            sample("f64[3]", "i32[]", "f64[]", axis=0, below=3),
            sample("f32[2, 3]", "i32[0]", "f32[2, 0]", axis=1),
            sample("i32[3]", "i32[4]", "i32[4]", axis=0, below=3),
        ),
        doc="x with the updates added to its slices at the indices, in the order of the indices",
        inplace=True,
    ),
    OpDef(
        name="index_update",
        kind=Index("set"),
        operands=("x", "indices", "updates"),
        attrs=_AXIS,
        infer=_update_infer,
        numpy=_index_update,
        vjp=_update_vjp,
        samples=(
            sample("f64[3, 2]", "i32[5]", "f64[5, 2]", axis=0, below=3),
            sample("f64[2, 3, 2]", "i64[2, 2]", "f64[2, 2, 2, 2]", axis=1, below=3),
            sample("f64[3]", "i32[]", "f64[]", axis=0, below=3),
            sample("f32[2, 3]", "i32[0]", "f32[2, 0]", axis=1),
            sample("i32[3]", "i32[4]", "i32[4]", axis=0, below=3),
            sample("f64[3]", "i32[3]", "f64[3]", axis=0, below=3),
            sample("bool[3]", "i32[2]", "bool[2]", axis=0, below=3),
        ),
        doc="x with its slices at the indices replaced by the updates; of repeated indices the last one wins",
        inplace=True,
    ),
    OpDef(
        name="take_along_axis",
        kind=Index("read", lines=True),
        operands=("x", "indices"),
        attrs=_AXIS,
        infer=_take_infer,
        numpy=plain(_take),
        vjp=_take_vjp,
        samples=(
            sample("f64[2, 3]", "i32[2, 1]", axis=1, below=3),
            sample("f64[3, 2]", "i64[4, 2]", axis=0, below=3),
            sample("f64[2, 0]", "i32[2, 0]", axis=1),
            sample("u8[4]", "i32[2]", axis=0, below=4),
        ),
        doc="on each line along the axis, the elements at that line's own indices",
    ),
    OpDef(
        name="add_along_axis",
        kind=Index("add", lines=True),
        operands=("x", "indices", "updates"),
        attrs=_AXIS,
        infer=_add_along_infer,
        numpy=_add_along,
        vjp=_add_along_vjp,
        samples=(
            sample("f64[2, 3]", "i32[2, 2]", "f64[2, 2]", axis=1, below=3),
            sample("f64[3, 2]", "i64[4, 2]", "f64[4, 2]", axis=0, below=3),
            sample("f32[2, 0]", "i32[2, 0]", "f32[2, 0]", axis=1),
            sample("i64[4]", "i32[2]", "i64[2]", axis=0, below=4),
        ),
        doc="x with the updates added on each line along the axis at that line's own indices, in their order",
        inplace=True,
    ),
)
