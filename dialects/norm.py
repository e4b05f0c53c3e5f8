"""Normalization of lines along the last axis, with what the derivative needs of each line beside the result.

    layer_norm   y = (x - mean) r weight + bias, r = 1 / sqrt(mean((x - mean)^2) + eps)
    rms_norm     y = x r weight, r = 1 / sqrt(mean(x^2) + eps)

The saved mean and r keep the last axis at size 1. With h = g weight and n = (x - mean) r, the derivative to x is
r (h - mean h - n mean(h n)), of rms_norm r (h - n mean(h n)) with n = x r. Ba, Kiros & Hinton, "Layer normalization"
(2016); Zhang & Sennrich, "Root mean square layer normalization" (2019).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sexpgpu.diag import error
from sexpgpu.dialects.arrays import Kept, deliver, deliver_all, targets
from sexpgpu.dialects.cotangent import is_zero
from sexpgpu.dialects.movement import reshaped
from sexpgpu.dialects.opdef import Array, Attr, Composite, OpDef, sample
from sexpgpu.dialects.rules import FULL, require_dtype, require_same
from sexpgpu.tensortype import DType, TensorType

_BLOCK_ELEMENTS = 1 << 15  # a few such blocks stay in the second-level cache

Several = tuple[Array, ...] | None
Pair = tuple[Any, Any]
Triple = tuple[Any, Any, Any]


def _check(op: str, x: TensorType, *vectors: TensorType) -> TensorType:
    """The type of what is kept of each line."""
    require_dtype(op, "x", x, FULL)
    if x.rank == 0 or x.shape[-1] == 0:
        raise error("E-SHAPE-011", f"{op}: there is no line to normalize", expected="a last axis of size 1 or more",
                    actual=f"x: {x}")  # fmt: skip
    line = TensorType((x.shape[-1],), x.dtype)
    for vector in vectors:
        require_same(op, ("a line", "weight"), (line, vector))
    return TensorType((*x.shape[:-1], 1), x.dtype)


def _blocks(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """The same few lines of each array, as matrices."""
    length = max(array.shape[-1] for array in arrays)
    flat = [array.reshape(-1, array.shape[-1]) for array in arrays]
    rows = max(1, _BLOCK_ELEMENTS // length)
    for start in range(0, flat[0].shape[0], rows):
        yield tuple(array[start : start + rows] for array in flat)


def _stat(x: Array) -> Kept:
    return (*x.shape[:-1], 1), x.dtype


def _layer_norm(x: Array, weight: Array, bias: Array, *, eps: float, out: Several = None) -> tuple[Array, ...]:
    y, mean, r = targets(out, (x.shape, x.dtype), _stat(x), _stat(x))
    for part, result, m, s in _blocks(x, y, mean, r):
        _mean_of(part, m)
        np.subtract(part, m, out=result)
        _inverse_size(result, eps, s)
        result *= s
        result *= weight
        result += bias
    return deliver_all((y, mean, r), out)


def _mean_of(part: Array, out: Array) -> None:
    """The mean of each line: a product with ones, for which NumPy is faster than for sums of short lines.

    Line by line: a product of all of them would round a line by how many there are, and so by how a group is cut.
    """
    np.vecdot(part, np.ones(part.shape[1], part.dtype), out=out[:, 0])
    out /= part.shape[1]


def _mean_product(x: Array, y: Array, out: Array) -> None:
    """The mean of x y over each line."""
    np.einsum("ij,ij->i", x, y, out=out[:, 0])
    out /= x.shape[1]


def _inverse_size(part: Array, eps: float, out: Array) -> None:
    """1 / sqrt(mean of squares + eps) of each line."""
    _mean_product(part, part, out)
    out += out.dtype.type(eps)
    np.sqrt(out, out=out)
    np.divide(1, out, out=out)


def _layer_norm_grad(g: Array, x: Array, mean: Array, r: Array, weight: Array, *, out: Array | None = None) -> Array:
    (dx,) = targets(None if out is None else (out,), (x.shape, x.dtype))
    for dy, part, m, s, result in _blocks(g, x, mean, r, dx):
        n = part - m
        n *= s
        np.multiply(dy, weight, out=result)
        _mean_of(result, share := np.empty_like(m))
        _mean_product(result, n, along := np.empty_like(m))
        n *= along
        result -= share
        result -= n
        result *= s
    return deliver_all((dx,), None if out is None else (out,))[0]


def _layer_norm_gain(g: Array, x: Array, mean: Array, r: Array, *, out: Array | None = None) -> Array:
    total = np.zeros(x.shape[-1], x.dtype)
    for dy, part, m, s in _blocks(g, x, mean, r):
        n = part - m
        n *= s
        total += np.einsum("ij,ij->j", n, dy)
    return deliver(total, out)


def _rms_norm(x: Array, weight: Array, *, eps: float, out: Several = None) -> tuple[Array, ...]:
    y, r = targets(out, (x.shape, x.dtype), _stat(x))
    for part, result, s in _blocks(x, y, r):
        _inverse_size(part, eps, s)
        np.multiply(part, s, out=result)
        result *= weight
    return deliver_all((y, r), out)


def _rms_norm_grad(g: Array, x: Array, r: Array, weight: Array, *, out: Array | None = None) -> Array:
    (dx,) = targets(None if out is None else (out,), (x.shape, x.dtype))
    for dy, part, s, result in _blocks(g, x, r, dx):
        n = part * s
        np.multiply(dy, weight, out=result)
        _mean_product(result, n, along := np.empty_like(s))
        n *= along
        result -= n
        result *= s
    return deliver_all((dx,), None if out is None else (out,))[0]


def _rms_norm_gain(g: Array, x: Array, r: Array, *, out: Array | None = None) -> Array:
    total = np.zeros(x.shape[-1], x.dtype)
    for dy, part, s in _blocks(g, x, r):
        n = part * s
        total += np.einsum("ij,ij->j", n, dy)
    return deliver(total, out)


def _mean(b: Any, x: Any) -> Any:
    return b("sum", x, axes=(x.type.rank - 1,), keepdims=True) / float(x.type.shape[-1])


def _to(b: Any, x: Any, like: Any) -> Any:
    return b("broadcast", x, shape=like.type.shape)


def _layer_norm_parts(b: Any, x: Any, weight: Any, bias: Any, *, eps: float) -> Triple:
    mean = _mean(b, x)
    centred = x - _to(b, mean, x)
    r = b("rsqrt", _mean(b, b("square", centred)) + eps)
    return centred * _to(b, r, x) * _to(b, weight, x) + _to(b, bias, x), mean, r


def _layer_norm_grad_parts(b: Any, g: Any, x: Any, mean: Any, r: Any, weight: Any) -> Any:
    n = (x - _to(b, mean, x)) * _to(b, r, x)
    h = g * _to(b, weight, x)
    return (h - _to(b, _mean(b, h), x) - n * _to(b, _mean(b, h * n), x)) * _to(b, r, x)


def _layer_norm_gain_parts(b: Any, g: Any, x: Any, mean: Any, r: Any) -> Any:
    return _over_lines(b, g * ((x - _to(b, mean, x)) * _to(b, r, x)))


def _over_lines(b: Any, x: Any) -> Any:
    axes = tuple(range(x.type.rank - 1))
    return b("sum", x, axes=axes, keepdims=False) if axes else x


def _rms_norm_parts(b: Any, x: Any, weight: Any, *, eps: float) -> Pair:
    r = b("rsqrt", _mean(b, b("square", x)) + eps)
    return x * _to(b, r, x) * _to(b, weight, x), r


def _rms_norm_grad_parts(b: Any, g: Any, x: Any, r: Any, weight: Any) -> Any:
    n = x * _to(b, r, x)
    h = g * _to(b, weight, x)
    return (h - n * _to(b, _mean(b, h * n), x)) * _to(b, r, x)


def _rms_norm_gain_parts(b: Any, g: Any, x: Any, r: Any) -> Any:
    return _over_lines(b, g * (x * _to(b, r, x)))


def _layer_norm_vjp(b: Any, g: Triple, out: Triple, x: Any, weight: Any, bias: Any, *, eps: float) -> Triple:
    (dy, dmean, dr), (_, mean, r) = g, out
    dx = b("layer_norm_grad", dy, x, mean, r, weight)
    length = float(x.type.shape[-1])
    if not is_zero(dmean):
        dx = dx + _to(b, dmean / length, x)
    if not is_zero(dr):
        dx = dx - _to(b, dr * r * r * r / length, x) * (x - _to(b, mean, x))
    dweight = b("layer_norm_gain", dy, x, mean, r)
    return dx, dweight, reshaped(b, _over_lines(b, dy), bias.type.shape)


def _rms_norm_vjp(b: Any, g: Pair, out: Pair, x: Any, weight: Any, *, eps: float) -> Pair:
    (dy, dr), (_, r) = g, out
    dx = b("rms_norm_grad", dy, x, r, weight)
    if not is_zero(dr):
        dx = dx - _to(b, dr * r * r * r / float(x.type.shape[-1]), x) * x
    return dx, b("rms_norm_gain", dy, x, r)


def _layer_norm_infer(x: TensorType, weight: TensorType, bias: TensorType, *, eps: float) -> tuple[TensorType, ...]:
    stat = _check("layer_norm", x, weight, bias)
    return x, stat, stat


def _rms_norm_infer(x: TensorType, weight: TensorType, *, eps: float) -> tuple[TensorType, ...]:
    return x, _check("rms_norm", x, weight)


def _backward_infer(op: str, stats: int, *, gain: bool) -> Any:
    def infer(g: TensorType, x: TensorType, *rest: TensorType) -> TensorType:
        stat = _check(op, x, *rest[stats:])
        require_same(op, ("x", "g"), (x, g))
        for kept in rest[:stats]:
            require_same(op, ("a number a line", "what was kept"), (stat, kept))
        return TensorType((x.shape[-1],), x.dtype) if gain else x

    return infer


_EPS = (Attr("eps", "float"),)
_SAMPLED: tuple[tuple[DType, tuple[int, ...]], ...] = (
    ("f64", (2, 3)),
    ("f64", (2, 2, 4)),
    ("f64", (5,)),
    ("f32", (3, 7)),
    ("f32", (0, 2)),
)


def _forward(name: str, vectors: tuple[str, ...], results: int, doc: str, **functions: Any) -> OpDef:
    return OpDef(
        name=name,
        kind=Composite("norm"),
        operands=("x", *vectors),
        attrs=_EPS,
        results=results,
        samples=tuple(
            sample(str(TensorType(shape, dtype)), *[f"{dtype}[{shape[-1]}]"] * len(vectors), eps=0.25)
            for dtype, shape in _SAMPLED
        ),
        doc=doc,
        **functions,
    )


def _backward(name: str, stats: tuple[str, ...], *, gain: bool, doc: str, **functions: Any) -> OpDef:
    return OpDef(
        name=name,
        kind=Composite("norm", backward=True),
        operands=("g", "x", *stats, *(() if gain else ("weight",))),
        infer=_backward_infer(name, len(stats), gain=gain),
        vjp=None,
        samples=tuple(
            sample(
                *[str(TensorType(shape, dtype))] * 2,
                *[str(TensorType((*shape[:-1], 1), dtype))] * len(stats),
                *([] if gain else [f"{dtype}[{shape[-1]}]"]),
            )
            for dtype, shape in _SAMPLED
        ),
        doc=doc,
        **functions,
    )


OPERATIONS = (
    _forward("layer_norm", ("weight", "bias"), 3,
             "lines of mean 0 and variance 1 along the last axis, times weight plus bias; the mean and 1/deviation",
             infer=_layer_norm_infer, numpy=_layer_norm, vjp=_layer_norm_vjp, decompose=_layer_norm_parts),
    _backward("layer_norm_grad", ("mean", "r"), gain=False,
              doc="the derivative of layer_norm to x, from what it saved",
              numpy=_layer_norm_grad, decompose=_layer_norm_grad_parts),
    _backward("layer_norm_gain", ("mean", "r"), gain=True,
              doc="the derivative of layer_norm to its weight, from what it saved",
              numpy=_layer_norm_gain, decompose=_layer_norm_gain_parts),
    _forward("rms_norm", ("weight",), 2,
             "lines over their root mean square along the last axis, times weight; 1/that",
             infer=_rms_norm_infer, numpy=_rms_norm, vjp=_rms_norm_vjp, decompose=_rms_norm_parts),
    _backward("rms_norm_grad", ("r",), gain=False,
              doc="the derivative of rms_norm to x, from what it saved",
              numpy=_rms_norm_grad, decompose=_rms_norm_grad_parts),
    _backward("rms_norm_gain", ("r",), gain=True,
              doc="the derivative of rms_norm to its weight, from what it saved",
              numpy=_rms_norm_gain, decompose=_rms_norm_gain_parts),
)  # fmt: skip
