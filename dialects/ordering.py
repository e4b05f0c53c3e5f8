"""Lines put in order. Equal elements keep the order of their places, so every result is the only one possible; NaN
counts as greater than any number, as NumPy has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sexpgpu.diag import error
from sexpgpu.dialects.arrays import deliver_all, plain
from sexpgpu.dialects.opdef import Array, Attr, OpDef, Order, sample
from sexpgpu.dialects.rules import NUMBERS, require_axis, require_dtype
from sexpgpu.tensortype import DType, TensorType


def _infer(op: str, dtype: DType | None = None) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, axis: int) -> TensorType:
        require_dtype(op, "x", x, NUMBERS)
        require_axis(op, axis, x.rank)
        return TensorType(x.shape, dtype or x.dtype)

    return infer


def _top_infer(x: TensorType, *, k: int) -> tuple[TensorType, TensorType]:
    require_dtype("top_k", "x", x, NUMBERS)
    require_axis("top_k", x.rank - 1, x.rank)
    if not 0 <= k <= x.shape[-1]:
        raise error(
            "E-VALUE-012",
            "top_k: there are not that many elements along the last axis",
            expected=f"a count from 0 to {x.shape[-1]}",
            actual=f"{k} of x: {x}",
        )
    shape = (*x.shape[:-1], k)
    return TensorType(shape, x.dtype), TensorType(shape, "i32")


def _sort(x: Array, *, axis: int) -> Array:
    return np.sort(x, axis, kind="stable")


def _argsort(x: Array, *, axis: int) -> Array:
    return np.argsort(x, axis, kind="stable").astype(np.int32)


def _top_k(x: Array, *, k: int, out: tuple[Array, ...] | None = None) -> tuple[Array, ...]:
    # Ascending order of the reversed line, read from behind, is descending order in which equals keep their places.
    places = x.shape[-1] - 1 - np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1][..., :k]
    return deliver_all((np.take_along_axis(x, places, -1), places.astype(np.int32)), out)


def _sort_vjp(b: Any, g: Any, out: Any, x: Any, *, axis: int) -> tuple[Any, ...]:
    places = b("argsort", x, axis=axis)
    return (b("add_along_axis", b.constant(0, x.type), places, g, axis=axis),)


def _top_vjp(b: Any, g: Any, out: Any, x: Any, *, k: int) -> tuple[Any, ...]:
    return (b("add_along_axis", b.constant(0, x.type), out[1], g[0], axis=x.type.rank - 1),)


_SAMPLES = (
    sample("f64[3, 4]", axis=1),
    sample("f64[4, 2, 2]", axis=0),
    sample("f64[1]", axis=0),
    sample("f32[2, 0]", axis=1),
    sample("bf16[5]", axis=0),
    sample("i32[2, 6]", axis=1),
    sample("u8[7]", axis=0),
)

OPERATIONS = (
    OpDef(
        name="sort",
        kind=Order(descending=False, gives="values"),
        operands=("x",),
        attrs=(Attr("axis", "int"),),
        infer=_infer("sort"),
        numpy=plain(_sort),
        vjp=_sort_vjp,
        samples=_SAMPLES,
        doc="each line along the axis in ascending order; equal elements keep their order",
    ),
    OpDef(
        name="argsort",
        kind=Order(descending=False, gives="places"),
        operands=("x",),
        attrs=(Attr("axis", "int"),),
        infer=_infer("argsort", "i32"),
        numpy=plain(_argsort),
        vjp=None,
        samples=_SAMPLES,
        doc="where each element of the line in ascending order was before",
    ),
    OpDef(
        name="top_k",
        kind=Order(descending=True, gives="both"),
        operands=("x",),
        attrs=(Attr("k", "int"),),
        infer=_top_infer,
        numpy=_top_k,
        vjp=_top_vjp,
        results=2,
        samples=(
            sample("f64[3, 4]", k=2),
            sample("f64[2, 2, 3]", k=3),
            sample("f64[5]", k=0),
            sample("f32[0, 3]", k=1),
            sample("bf16[4]", k=2),
            sample("i32[2, 6]", k=4),
            sample("u8[7]", k=3),
        ),
        doc="the k greatest of each line along the last axis, descending, and where they are; the first of equals",
    ),
)
