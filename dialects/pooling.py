"""Pools: the greatest element or the mean of each window. Padding is no element: it is never chosen nor counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sexpgpu.diag import error
from sexpgpu.dialects.movement import reshaped
from sexpgpu.dialects.opdef import Array, Attr, OpDef, Sample, Window, sample
from sexpgpu.dialects.rules import require_count, require_same_dtype
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


def _max_grad_infer(g: TensorType, x: TensorType, *, kernel: Ints, stride: Ints, low: Ints, high: Ints) -> TensorType:
    require_same_dtype("pool_max_grad", "x", x, "g", g)
    windows = _windows("pool_max_grad", x, kernel, stride, low, high)
    _require_one_each("pool_max_grad", g, (*x.shape[:2], *windows.count))
    return x


def _require_one_each(op: str, g: TensorType, shape: Ints) -> None:
    if g.shape != shape:
        raise error(
            "E-SHAPE-016",
            f"{op}: g has not one element for each window",
            expected=f"g: {TensorType(shape, g.dtype)}",
            actual=f"g: {g}",
        )


def _spread_infer(g: TensorType, *, size: Ints, kernel: Ints, stride: Ints, low: Ints, high: Ints) -> TensorType:
    require_images("pool_mean_grad", g)
    require_count("pool_mean_grad", "size", size, g.rank - 2)
    x = TensorType((*g.shape[:2], *size), g.dtype)
    windows = _windows("pool_mean_grad", x, kernel, stride, low, high)
    _require_one_each("pool_mean_grad", g, (*g.shape[:2], *windows.count))
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


def _max_grad(
    g: Array, x: Array, *, kernel: Ints, stride: Ints, low: Ints, high: Ints, out: Array | None = None
) -> Array:
    result: Array = np.empty(x.shape, x.dtype) if out is None else out
    result.fill(0)
    bits = np.ascontiguousarray(g).view(_WORDS[g.itemsize])
    images = max(1, _STRETCH_BYTES // max(1, math.prod(x.shape[1:]) * x.itemsize))
    for start in range(0, len(x), images):
        part = slice(start, start + images)
        _spread_to_first(x[part], bits[part], _over(x.shape, kernel, stride, low, high), result[part])
    return result


def _spread_to_first(x: Array, bits: Array, windows: Windows, result: Array) -> None:
    """Adds each window's cotangent, given by its bits, to the first of its greatest elements."""
    greatest = _max(x, kernel=windows.kernel, stride=windows.stride, low=windows.low, high=windows.high)
    broken = bool(np.isnan(greatest).any())
    waiting = np.ones(greatest.shape, np.bool_)  # windows whose greatest has not been met
    for places, elements in windows.within():
        given = x[elements]
        hit = given == greatest[places]
        if broken:
            hit |= np.isnan(given)
        hit &= waiting[places]
        waiting[places] ^= hit
        result[elements] += (bits[places] * hit).view(x.dtype)  # of a float, infinity times false would be NaN


_STRETCH_BYTES = 1 << 18  # what is worked on at once stays in the cache
_WORDS: dict[int, type[np.signedinteger[Any]]] = {4: np.int32, 8: np.int64}


def _max_vjp(b: Any, g: Any, out: Any, x: Any, **attrs: Any) -> tuple[Any, ...]:
    return (b("pool_max_grad", g, x, **attrs),)


def _max_grad_vjp(b: Any, h: Any, out: Any, g: Any, x: Any, **attrs: Any) -> tuple[Any, ...]:
    lead, windows = x.type.shape[:2], math.prod(g.type.shape[2:])
    chosen = reshaped(b, b("pool_argmax", x, **attrs), (*lead, windows))
    lines = reshaped(b, h, (*lead, math.prod(x.type.shape[2:])))
    return reshaped(b, b("take_along_axis", lines, chosen, axis=2), g.type.shape), None


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
        name="pool_max_grad",
        kind=Window("max", "operand"),
        operands=("g", "x"),
        attrs=_ATTRS,
        infer=_max_grad_infer,
        numpy=_max_grad,
        vjp=_max_grad_vjp,
        samples=tuple(
            Sample((_infer("pool_max")(*given.types, **given.attrs), *given.types), given.attrs) for given in _SAMPLES
        ),
        doc="the derivative of pool_max at x, times g: each window's to the first of its greatest elements",
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
