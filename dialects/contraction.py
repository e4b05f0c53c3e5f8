"""Products summed over a shared axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from sexpgpu.diag import error
from sexpgpu.dialects.opdef import Array, Contract, OpDef, sample
from sexpgpu.dialects.rules import BF16, NUMBERS, marked, require_dtype, require_same_dtype, with_dtype
from sexpgpu.tensortype import TensorType


def _infer(x: TensorType, y: TensorType) -> TensorType:
    require_dtype("matmul", "x", x, NUMBERS)
    require_same_dtype("matmul", "x", x, "y", y)
    if x.rank < 2 or x.rank != y.rank or x.shape[:-2] != y.shape[:-2]:
        raise error(
            "E-SHAPE-012",
            "matmul: x and y are not matrices, or stacks of matrices of one length",
            expected="[..., m, k] and [..., k, n] with the same axes in front",
            actual=f"x: {x}, y: {y}",
        )
    if x.shape[-1] != y.shape[-2]:
        raise error(
            "E-SHAPE-013",
            "matmul: the columns of x are not as many as the rows of y",
            expected=f"y with {x.shape[-1]} rows, as x has columns: {marked(x, -1)}",
            actual=f"y with {y.shape[-2]} rows: {marked(y, -2)}",
            help="(transpose y) swaps the last two axes" if x.shape[-1] == y.shape[-1] else None,
        )
    return TensorType((*x.shape[:-1], y.shape[-1]), x.dtype)


def _matmul(x: Array, y: Array, out: Array | None = None) -> Array:
    return np.matmul(_for_blas(x), _for_blas(y), out=out)


def _for_blas(x: Array) -> Array:
    # NumPy leaves BLAS for a slow loop unless one of the last two axes is dense; a repeated axis has stride
    # 0.
    rows, columns = x.strides[-2:]
    dense = (columns == x.itemsize and rows >= columns) or (rows == x.itemsize and columns >= rows)
    return x if dense or x.size == 0 else np.ascontiguousarray(x)


def _wide_infer(x: TensorType, y: TensorType) -> TensorType:
    require_dtype("matmul_wide", "x", x, BF16)
    return with_dtype(_infer(x, y), "f32")


def _wide_vjp(b: Any, g: Any, out: Any, x: Any, y: Any) -> tuple[Any, ...]:
    return _vjp(b, b("cast", g, dtype="bf16"), out, x, y)


def _swapped(b: Any, x: Any) -> Any:
    rank = x.type.rank
    return b("transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2))


def _vjp(b: Any, g: Any, out: Any, x: Any, y: Any) -> tuple[Any, ...]:
    return b("matmul", g, _swapped(b, y)), b("matmul", _swapped(b, x), g)


OPERATIONS = (
    OpDef(
        name="matmul",
        kind=Contract(wide="matmul_wide"),
        operands=("x", "y"),
        infer=_infer,
        numpy=_matmul,
        vjp=_vjp,
        samples=(
            sample("f64[2, 3]", "f64[3, 4]"),
            sample("f64[5, 2, 3]", "f64[5, 3, 1]"),
            sample("f64[2, 1, 2, 2]", "f64[2, 1, 2, 3]"),
            sample("f64[1, 1]", "f64[1, 1]"),
            sample("f64[2, 0]", "f64[0, 3]"),
            sample("f32[0, 2]", "f32[2, 3]"),
            sample("bf16[2, 3]", "bf16[3, 2]"),
            sample("i32[2, 3]", "i32[3, 2]"),
        ),
        doc="the matrix product [..., m, k] x [..., k, n]; the axes in front count the products",
    ),
    OpDef(
        name="matmul_wide",
        kind=Contract(),
        operands=("x", "y"),
        infer=_wide_infer,
        numpy=_matmul,
        vjp=_wide_vjp,
        samples=(
            sample("bf16[2, 3]", "bf16[3, 2]"),
            sample("bf16[4, 2, 3]", "bf16[4, 3, 1]"),
            sample("bf16[2, 0]", "bf16[0, 3]"),
        ),
        doc="matmul of bf16 operands with an f32 result: what was summed, not rounded",
    ),
)
