"""Pools: the greatest element or the mean of each window. Padding is no element: it is never chosen nor counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sexpgpu.diag import error
from sexpgpu.dialects.movement import reshaped
from sexpgpu.dialects.opdef import Array, Attr, OpDef, Sample, Window, sample
from sexpgpu.dialects.rules import require_count
from sexpgpu.dialects.window import Ints, Windows, require_images, require_windows
from sexpgpu.tensortype import DType, TensorType


def _windows(op: str, x: TensorType, kernel: Ints, stride: Ints, low: Ints, high: Ints) -> Windows:
    require_images(op, x)
    windows = Windows(x.shape[2:], kernel, stride, low, high, (1,) * len(kernel))
    require_windows(op, windows, x)
    if any(pad >= k for pad, k in zip(low + high, kernel + kernel, strict=True)) or 0 in windows.sizes:
        raise error(
            "E-SHAPE-041",
            f"{op}: a window would hold padding alone",
            expected=f"padding below the window's size {list(kernel)}, and an element along each axis",
            actual=f"padding {list(low)} before and {list(high)} behind; x: {x}",
        )
    return windows


def _infer(op: str, dtype: DType | None = None) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, kernel: Ints, stride: Ints, low: Ints, high: Ints) -> TensorType:
        windows = _windows(op, x, kernel, stride, low, high)
        return TensorType((*x.shape[:2], *windows.count), dtype or x.dtype)

    return infer


def _spread_infer(g: TensorType, *, size: Ints, kernel: Ints, stride: Ints, low: Ints, high: Ints) -> TensorType:
    require_images("pool_mean_grad", g)
    require_count("pool_mean_grad", "size", size, g.rank - 2)
    x = TensorType((*g.shape[:2], *size), g.dtype)
    windows = _windows("pool_mean_grad", x, kernel, stride, low, high)
    if g.shape[2:] != windows.count:
        raise error(
            "E-SHAPE-016",
            "pool_mean_grad: g has not one element for each window",
            expected=f"g: {TensorType((*g.shape[:2], *windows.count), g.dtype)}",
            actual=f"g: {g}",
        )
    return x


def _over(x_shape: Ints, kernel: Ints, stride: Ints, low: Ints, high: Ints) -> Windows:
    return Windows(x_shape[2:], kernel, stride, low, high, (1,) * len(kernel))


def _max(x: Array, *, kernel: Ints, stride: Ints, low: Ints, high: Ints, out: Array | None = None) -> Array:
    windows = _over(x.shape, kernel, stride, low, high)
    result: Array = np.empty((*x.shape[:2], *windows.count), x.dtype) if out is None else out
    result.fill(-np.inf)
    for places, elements in windows.within():
        np.maximum(result[places], x[elements], out=result[places])
    return result


def _argmax(x: Array, *, kernel: Ints, stride: Ints, low: Ints, high: Ints, out: Array | None = None) -> Array:
    windows = _over(x.shape, kernel, stride, low, high)
    greatest = _max(x, kernel=kernel, stride=stride, low=low, high=high)
    chosen: Array = np.empty(greatest.shape, np.int32) if out is None else out
    chosen.fill(0)
    flat = np.arange(math.prod(windows.sizes), dtype=np.int32).reshape(windows.sizes)
    broken = bool(np.isnan(greatest).any())
    for places, elements in reversed(list(windows.within())):  # the first of equals is written last
        given = x[elements]
        hit = given == greatest[places]
        if broken:
            hit |= np.isnan(given)
        step = flat[elements] - chosen[places]
        step *= hit
        chosen[places] += step
    return chosen


def _mean(x: Array, *, kernel: Ints, stride: Ints, low: Ints, high: Ints, out: Array | None = None) -> Array:
    windows = _over(x.shape, kernel, stride, low, high)
    result: Array = np.empty((*x.shape[:2], *windows.count), x.dtype) if out is None else out
    result.fill(0)
    for places, elements in windows.within():
        result[places] += x[elements]
    np.divide(result, windows.populations().astype(x.dtype), out=result)
    return result


def _mean_grad(
    g: Array, *, size: Ints, kernel: Ints, stride: Ints, low: Ints, high: Ints, out: Array | None = None
) -> Array:
    windows = Windows(size, kernel, stride, low, high, (1,) * len(kernel))
    share = g / windows.populations().astype(g.dtype)
    result = np.empty((*g.shape[:2], *size), g.dtype) if out is None else out
    result.fill(0)
    for places, elements in windows.within():
        result[elements] += share[places]
    return result


def _max_vjp(b: Any, g: Any, out: Any, x: Any, **attrs: Any) -> tuple[Any, ...]:
    shape = x.type.shape
    lead, windows, elements = shape[:2], math.prod(g.type.shape[2:]), math.prod(shape[2:])
    chosen = reshaped(b, b("pool_argmax", x, **attrs), (*lead, windows))
    zeros = b.constant(0, TensorType((*lead, elements), x.type.dtype))
    spread = b("add_along_axis", zeros, chosen, reshaped(b, g, (*lead, windows)), axis=2)
    return (reshaped(b, spread, shape),)


def _mean_vjp(b: Any, g: Any, out: Any, x: Any, **attrs: Any) -> tuple[Any, ...]:
    return (b("pool_mean_grad", g, size=x.type.shape[2:], **attrs),)


def _mean_grad_vjp(b: Any, h: Any, out: Any, g: Any, *, size: Ints, **attrs: Any) -> tuple[Any, ...]:
    return (b("pool_mean", h, **attrs),)


_ATTRS = tuple(Attr(name, "ints") for name in ("kernel", "stride", "low", "high"))


def _case(x: str, kernel: Ints, stride: Ints, low: Ints, high: Ints) -> Sample:
    return sample(x, kernel=kernel, stride=stride, low=low, high=high)


_SAMPLES = (
    _case("f64[2, 3, 6]", (2,), (2,), (0,), (0,)),
    _case("f64[1, 2, 5, 6]", (3, 2), (2, 1), (1, 0), (1, 1)),
    _case("f64[2, 1, 4, 4]", (2, 2), (3, 3), (0, 1), (1, 0)),
    _case("f64[1, 1, 1]", (1,), (1,), (0,), (0,)),
    _case("f64[0, 2, 3]", (2,), (1,), (0,), (0,)),
    _case("f32[2, 2, 7]", (3,), (2,), (2,), (0,)),
    _case("bf16[1, 2, 3, 3]", (2, 2), (1, 1), (0, 0), (0, 0)),
)


def _spread_samples() -> tuple[Sample, ...]:
    infer = _infer("pool_mean")
    return tuple(
        Sample((infer(*given.types, **given.attrs),), {"size": given.types[0].shape[2:], **given.attrs})
        for given in _SAMPLES
    )


OPERATIONS = (
    OpDef(
        name="pool_max",
        kind=Window("max", "result"),
        operands=("x",),
        attrs=_ATTRS,
        infer=_infer("pool_max"),
        numpy=_max,
        vjp=_max_vjp,
        samples=_SAMPLES,
        doc="the greatest element of each window, NaN if one is; the derivative goes to the first of equals",
    ),
    OpDef(
        name="pool_argmax",
        kind=Window("argmax", "result"),
        operands=("x",),
        attrs=_ATTRS,
        infer=_infer("pool_argmax", "i32"),
        numpy=_argmax,
        vjp=None,
        samples=_SAMPLES,
        doc="where the greatest element of each window is, counted through the axes of space; the first of equals",
    ),
    OpDef(
        name="pool_mean",
        kind=Window("mean", "result"),
        operands=("x",),
        attrs=_ATTRS,
        infer=_infer("pool_mean"),
        numpy=_mean,
        vjp=_mean_vjp,
        samples=_SAMPLES,
        doc="the mean of each window's elements, padding apart",
    ),
    OpDef(
        name="pool_mean_grad",
        kind=Window("mean", "operand"),
        operands=("g",),
        attrs=(Attr("size", "ints"), *_ATTRS),
        infer=_spread_infer,
        numpy=_mean_grad,
        vjp=_mean_grad_vjp,
        samples=_spread_samples(),
        doc="the derivative of pool_mean, whose x has space of `size`, times g: each window's share to its elements",
    ),
)
