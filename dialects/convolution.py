"""Convolution and its two transposes: three products over windows, each the derivative of the others.

With K places in a window and P windows, an image's windows are the columns of a [K, P] matrix (Chellapilla, Puri and
Simard, "High performance convolutional neural networks for document processing", 2006), and all three are products
with it or with its transpose:

    conv              y = W cols(x)
    conv_input_grad   x' = cols^T(W^T y')
    conv_weight_grad  W' = y' cols(x)^T
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from sexpgpu.diag import error
from sexpgpu.dialects.arrays import deliver
from sexpgpu.dialects.opdef import Array, Attr, OpDef, Sample, Window, sample
from sexpgpu.dialects.rules import BF16, require_axis, require_count, require_dtype, require_same_dtype, with_dtype
from sexpgpu.dialects.window import Ints, Windows, require_images, require_windows
from sexpgpu.tensortype import TensorType

_COLUMN_BYTES = 1 << 18
"""Columns made at once, where an image has fewer: they are read from the cache, and no product is small."""


def _require_weights(op: str, channels: int, w: TensorType, rank: int, groups: int) -> None:
    if w.rank != rank:
        raise error(
            "E-SHAPE-043",
            f"{op}: w has another number of axes than the tensor it is convolved with",
            expected=f"w: [out, in / groups, kernel...] with {rank} axes",
            actual=f"w: {w}",
        )
    if groups < 1 or w.shape[0] % groups or channels != w.shape[1] * groups:
        wanted = f"{channels // groups}" if groups >= 1 and channels % groups == 0 else "in / groups"
        raise error(
            "E-SHAPE-044",
            f"{op}: the channels do not fit the weights",
            expected=f"w: [out, {wanted}, kernel...] with out a multiple of groups, for {channels} channels",
            actual=f"w: {w}, groups {groups}",
            help="x is [batch, channels, space...], w is [out, in / groups, kernel...]",
        )


def _infer(
    x: TensorType, w: TensorType, *, stride: Ints, low: Ints, high: Ints, dilation: Ints, groups: int
) -> TensorType:
    require_images("conv", x)
    require_same_dtype("conv", "x", x, "w", w)
    _require_weights("conv", x.shape[1], w, x.rank, groups)
    windows = Windows(x.shape[2:], w.shape[2:], stride, low, high, dilation)
    require_windows("conv", windows, x)
    return TensorType((x.shape[0], w.shape[0], *windows.count), x.dtype)


def _require_result(op: str, g: TensorType, images: int, channels: int, windows: Windows) -> None:
    wanted = (images, channels, *windows.count)
    if g.shape != wanted:
        raise error(
            "E-SHAPE-016",
            f"{op}: g is not the cotangent of such a convolution",
            expected=f"g: {TensorType(wanted, g.dtype)}",
            actual=f"g: {g}",
        )


def _input_infer(
    g: TensorType,
    w: TensorType,
    *,
    size: Ints,
    stride: Ints,
    low: Ints,
    high: Ints,
    dilation: Ints,
    groups: int,
) -> TensorType:
    require_images("conv_input_grad", g)
    require_same_dtype("conv_input_grad", "g", g, "w", w)
    require_count("conv_input_grad", "size", size, g.rank - 2)
    require_axis("conv_input_grad", 1, w.rank)
    channels = w.shape[1] * groups
    _require_weights("conv_input_grad", channels, w, g.rank, groups)
    x = TensorType((g.shape[0], channels, *size), g.dtype)
    windows = Windows(size, w.shape[2:], stride, low, high, dilation)
    require_windows("conv_input_grad", windows, x)
    _require_result("conv_input_grad", g, g.shape[0], w.shape[0], windows)
    return x


def _weight_infer(
    x: TensorType,
    g: TensorType,
    *,
    kernel: Ints,
    stride: Ints,
    low: Ints,
    high: Ints,
    dilation: Ints,
    groups: int,
) -> TensorType:
    require_images("conv_weight_grad", x)
    require_same_dtype("conv_weight_grad", "x", x, "g", g)
    windows = Windows(x.shape[2:], kernel, stride, low, high, dilation)
    require_windows("conv_weight_grad", windows, x)
    _require_result("conv_weight_grad", g, x.shape[0], g.shape[1] if g.rank == x.rank else 0, windows)
    w = TensorType((g.shape[1], x.shape[1] // max(groups, 1), *kernel), x.dtype)
    _require_weights("conv_weight_grad", x.shape[1], w, x.rank, groups)
    return w


def _parts(images: int, bytes_each: int) -> list[slice]:
    """Stretches of the batch whose columns fit the cache."""
    length = max(1, _COLUMN_BYTES // max(1, bytes_each))
    return [slice(start, min(start + length, images)) for start in range(0, images, length)]


class _Columns:
    """The columns of a batch under windows, a stretch of images at a time: [groups, K, images * P].

    All are made in one piece of memory: fresh pages would cost more than the copy.
    """

    def __init__(self, batch: Array, windows: Windows, groups: int, filters: int) -> None:
        self.batch = batch
        self.windows = windows
        self.groups = groups
        channels = batch.shape[1]
        self.rows = channels // groups * math.prod(windows.kernel)
        # Beside the columns stand the lines that they are multiplied to, or with: one for each filter.
        self.parts = _parts(len(batch), max(groups * self.rows, filters) * math.prod(windows.count) * batch.itemsize)
        self._most = max((part.stop - part.start for part in self.parts), default=0)
        self._memory = np.empty((channels, *windows.kernel, self._most, *windows.count), batch.dtype)
        self._wide = None
        if any(windows.low + windows.high):
            self._wide = np.zeros((self._most, channels, *windows.padded), batch.dtype)

    def of(self, part: slice) -> Array:
        images, windows = self.batch[part], self.windows
        if self._wide is not None:
            wide = self._wide[: len(images)]
            wide[windows.inner] = images
            images = wide
        rank = len(windows.kernel)
        steps = images.strides[2:]
        view = as_strided(
            images,
            (images.shape[1], *windows.kernel, len(images), *windows.count),
            (
                images.strides[1],
                *(b * d for b, d in zip(steps, windows.dilation, strict=True)),
                images.strides[0],
                *(b * s for b, s in zip(steps, windows.stride, strict=True)),
            ),
            writeable=False,
        )
        # Fewer images than the memory holds come last, if at all: their columns are packed anew.
        target = self._memory if len(images) == self._most else np.empty(view.shape, view.dtype)
        for channel in range(view.shape[0]):
            target[channel] = view[channel]
        return target.reshape(self.groups, self.rows, math.prod(view.shape[1 + rank :]))


def _lines(g: Array, groups: int, part: slice) -> Array:
    """[images, channels, P...] as [groups, channels / groups, images * P]."""
    images = g[part]
    moved = images.reshape(*images.shape[:2], math.prod(images.shape[2:])).swapaxes(0, 1)
    return moved.reshape(groups, g.shape[1] // groups, moved.shape[1] * moved.shape[2])


def _filters(w: Array, groups: int) -> Array:
    """[out, in / groups, kernel...] as [groups, out / groups, K]."""
    return w.reshape(groups, len(w) // groups, math.prod(w.shape[1:]))


def _conv(
    x: Array,
    w: Array,
    *,
    stride: Ints,
    low: Ints,
    high: Ints,
    dilation: Ints,
    groups: int,
    out: Array | None = None,
) -> Array:
    windows = Windows(x.shape[2:], w.shape[2:], stride, low, high, dilation)
    result: Array = np.empty((len(x), len(w), *windows.count), x.dtype) if out is None else out
    columns = _Columns(x, windows, groups, len(w))
    filters = _filters(w, groups)
    for part in columns.parts:
        product = np.matmul(filters, columns.of(part))
        result[part] = product.reshape(len(w), -1, *windows.count).swapaxes(0, 1)
    return result


def _input_grad(
    g: Array,
    w: Array,
    *,
    size: Ints,
    stride: Ints,
    low: Ints,
    high: Ints,
    dilation: Ints,
    groups: int,
    out: Array | None = None,
) -> Array:
    windows = Windows(size, w.shape[2:], stride, low, high, dilation)
    channels = w.shape[1] * groups
    result: Array = np.empty((len(g), channels, *size), g.dtype) if out is None else out
    filters = _filters(w, groups).swapaxes(1, 2)
    for part in _parts(len(g), channels * math.prod(windows.kernel + windows.count) * g.itemsize):
        images = part.stop - part.start
        columns = np.matmul(filters, _lines(g, groups, part))
        places = columns.reshape(channels, *windows.kernel, images, *windows.count)
        wide = np.zeros((channels, images, *windows.padded), g.dtype)
        for place in np.ndindex(windows.kernel):
            wide[windows.sources(place)] += places[(slice(None), *place)]
        result[part] = wide[windows.inner].swapaxes(0, 1)
    return result


def _weight_grad(
    x: Array,
    g: Array,
    *,
    kernel: Ints,
    stride: Ints,
    low: Ints,
    high: Ints,
    dilation: Ints,
    groups: int,
    out: Array | None = None,
) -> Array:
    windows = Windows(x.shape[2:], kernel, stride, low, high, dilation)
    filters = g.shape[1]
    columns = _Columns(x, windows, groups, filters)
    total = np.zeros((groups, filters // groups, columns.rows), x.dtype)
    for part in columns.parts:
        total += np.matmul(_lines(g, groups, part), columns.of(part).swapaxes(1, 2))
    return deliver(total.reshape(filters, x.shape[1] // groups, *kernel), out)


def _vjp(b: Any, g: Any, out: Any, x: Any, w: Any, **attrs: Any) -> tuple[Any, ...]:
    return (
        b("conv_input_grad", g, w, size=x.type.shape[2:], **attrs),
        b("conv_weight_grad", x, g, kernel=w.type.shape[2:], **attrs),
    )


def _input_vjp(b: Any, h: Any, out: Any, g: Any, w: Any, *, size: Ints, **attrs: Any) -> tuple[Any, ...]:
    return b("conv", h, w, **attrs), b("conv_weight_grad", h, g, kernel=w.type.shape[2:], **attrs)


def _weight_vjp(b: Any, h: Any, out: Any, x: Any, g: Any, *, kernel: Ints, **attrs: Any) -> tuple[Any, ...]:
    return b("conv_input_grad", g, h, size=x.type.shape[2:], **attrs), b("conv", x, h, **attrs)


_ATTRS = (*(Attr(name, "ints") for name in ("stride", "low", "high", "dilation")), Attr("groups", "int"))

# x, w and the attributes of a convolution; the samples of all three operations follow from these.
_CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("f64[2, 3, 5]", "f64[4, 3, 2]", {}),
    ("f64[1, 2, 4, 5]", "f64[3, 2, 3, 2]", {"low": (1, 0), "high": (1, 1)}),
    ("f64[2, 2, 7, 6]", "f64[2, 2, 3, 2]", {"stride": (2, 3), "dilation": (2, 1), "low": (0, 2)}),
    ("f64[1, 4, 5]", "f64[6, 2, 3]", {"groups": 2, "stride": (2,), "low": (2,)}),
    ("f64[2, 3, 3, 2]", "f64[3, 1, 2, 2]", {"groups": 3}),
    ("f64[2, 3, 2, 2]", "f64[2, 3, 1, 1]", {}),
    ("f64[0, 2, 4]", "f64[3, 2, 2]", {}),
    ("f64[2, 0, 4]", "f64[3, 0, 2]", {}),
    ("f32[2, 3, 5]", "f32[4, 3, 2]", {"high": (1,)}),
    ("bf16[1, 2, 3, 3]", "bf16[2, 2, 2, 2]", {}),
)


def _samples(which: str) -> tuple[Sample, ...]:
    found = []
    for x_text, w_text, given in _CASES:
        x, w = sample(x_text).types[0], sample(w_text).types[0]
        rank = x.rank - 2
        one, none = (1,) * rank, (0,) * rank
        attrs: dict[str, Any] = {"stride": one, "low": none, "high": none, "dilation": one, "groups": 1} | given
        g = _infer(x, w, **attrs)
        match which:
            case "conv":
                found.append(Sample((x, w), attrs))
            case "input":
                found.append(Sample((g, w), {"size": x.shape[2:]} | attrs))
            case _:
                found.append(Sample((x, g), {"kernel": w.shape[2:]} | attrs))
    return tuple(found)


def _weight_wide_infer(x: TensorType, g: TensorType, **attrs: Any) -> TensorType:
    require_dtype("conv_weight_grad_wide", "x", x, BF16)
    return with_dtype(_weight_infer(x, g, **attrs), "f32")


def _weight_wide_vjp(b: Any, g: Any, out: Any, *ins: Any, **attrs: Any) -> tuple[Any, ...]:
    return _weight_vjp(b, b("cast", g, dtype="bf16"), out, *ins, **attrs)


OPERATIONS = (
    OpDef(
        name="conv",
        kind=Window("dot", "result"),
        operands=("x", "w"),
        attrs=_ATTRS,
        infer=_infer,
        numpy=_conv,
        vjp=_vjp,
        samples=_samples("conv"),
        doc="for each window of x [batch, in, space...] its products with w [out, in / groups, kernel...], summed",
    ),
    OpDef(
        name="conv_input_grad",
        kind=Window("dot", "operand"),
        operands=("g", "w"),
        attrs=(Attr("size", "ints"), *_ATTRS),
        infer=_input_infer,
        numpy=_input_grad,
        vjp=_input_vjp,
        samples=_samples("input"),
        doc="the derivative of conv to its x, whose space has `size`, times g: a transposed convolution",
    ),
    OpDef(
        name="conv_weight_grad",
        kind=Window("dot", "kernel", wide="conv_weight_grad_wide"),
        operands=("x", "g"),
        attrs=(Attr("kernel", "ints"), *_ATTRS),
        infer=_weight_infer,
        numpy=_weight_grad,
        vjp=_weight_vjp,
        samples=_samples("weight"),
        doc="the derivative of conv to its w, whose window is `kernel`, times g",
    ),
    OpDef(
        name="conv_weight_grad_wide",
        kind=Window("dot", "kernel"),
        operands=("x", "g"),
        attrs=(Attr("kernel", "ints"), *_ATTRS),
        infer=_weight_wide_infer,
        numpy=_weight_grad,
        vjp=_weight_wide_vjp,
        samples=tuple(
            Sample(tuple(with_dtype(t, "bf16") for t in given.types), given.attrs) for given in _samples("weight")[:3]
        ),
        doc="conv_weight_grad of bf16 operands with an f32 result: what was summed, not rounded",
    ),
)
