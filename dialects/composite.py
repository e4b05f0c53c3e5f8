"""Composites: values with a name of their own, built from operations by `decompose`, computed in one go.

Their derivatives use the saved result, which is both cheaper and more exact than differentiating the parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sexpgpu.diag import error
from sexpgpu.dialects.arrays import blockwise, deliver
from sexpgpu.dialects.erf import erf_stretch
from sexpgpu.dialects.opdef import Array, Attr, OpDef, Pointwise, Row, Sample, sample
from sexpgpu.dialects.reduction import restored
from sexpgpu.dialects.rules import elementwise, reduced_shape, require_axis, require_dtype
from sexpgpu.tensortype import FLOATS, TensorType

# gelu with tanh: u = C (x + A x^3), Hendrycks and Gimpel, "Gaussian error linear units" (2016).
C = math.sqrt(2 / math.pi)
A = 0.044715
ROOT_HALF = math.sqrt(0.5)
NORMAL = 1 / math.sqrt(2 * math.pi)  # the standard normal density at 0


def _row_infer(op: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, axis: int) -> TensorType:
        require_dtype(op, "x", x, FLOATS)
        require_axis(op, axis, x.rank)
        return x

    return infer


def _logsumexp_infer(x: TensorType, *, axis: int, keepdims: bool) -> TensorType:
    require_dtype("logsumexp", "x", x, FLOATS)
    require_axis("logsumexp", axis, x.rank)
    return TensorType(reduced_shape(x.shape, (axis,), keepdims), x.dtype)


def _peak(x: Array, axis: int) -> Array:
    """The greatest of each line, kept finite: a line of infinities must not become NaN by inf - inf."""
    peak = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return np.asarray(np.where(np.isfinite(peak), peak, peak.dtype.type(0)))


def _shifted_exp(b: Any, x: Any, axis: int) -> tuple[Any, Any, Any]:
    """(peak, e^(x - peak), its sums), peak and sums with the axis kept at size 1. A line of no elements peaks at 0."""
    shape = x.type.shape
    if shape[axis]:
        peak = b("stop_gradient", b("amax", x, axes=(axis,), keepdims=True))
        peak = b("where", b("isfinite", peak), peak, b.constant(0, peak.type))
    else:
        peak = b.constant(0, TensorType(reduced_shape(shape, (axis,), True), x.type.dtype))
    powers = b("exp", x - b("broadcast", peak, shape=shape))
    return peak, powers, b("sum", powers, axes=(axis,), keepdims=True)


def _softmax(x: Array, *, axis: int, out: Array | None = None) -> Array:
    result: Array = np.subtract(x, _peak(x, axis), out=out)
    np.exp(result, out=result)
    result /= np.sum(result, axis=axis, keepdims=True)
    return result


def _softmax_vjp(b: Any, g: Any, out: Any, x: Any, *, axis: int) -> tuple[Any, ...]:
    weighted = b("sum", g * out, axes=(axis,), keepdims=True)
    return (out * (g - b("broadcast", weighted, shape=x.type.shape)),)


def _softmax_parts(b: Any, x: Any, *, axis: int) -> Any:
    _, powers, total = _shifted_exp(b, x, axis)
    return powers / b("broadcast", total, shape=x.type.shape)


def _log_softmax(x: Array, *, axis: int, out: Array | None = None) -> Array:
    result: Array = np.subtract(x, _peak(x, axis), out=out)
    total = np.sum(np.exp(result), axis=axis, keepdims=True)
    result -= np.log(total, out=total)
    return result


def _log_softmax_vjp(b: Any, g: Any, out: Any, x: Any, *, axis: int) -> tuple[Any, ...]:
    total = b("sum", g, axes=(axis,), keepdims=True)
    return (g - b("exp", out) * b("broadcast", total, shape=x.type.shape),)


def _log_softmax_parts(b: Any, x: Any, *, axis: int) -> Any:
    peak, _, total = _shifted_exp(b, x, axis)
    shape = x.type.shape
    return x - b("broadcast", peak, shape=shape) - b("broadcast", b("log", total), shape=shape)


def _logsumexp(x: Array, *, axis: int, keepdims: bool, out: Array | None = None) -> Array:
    peak = _peak(x, axis)
    powers = np.subtract(x, peak)
    total = np.sum(np.exp(powers, out=powers), axis=axis, keepdims=True)
    result = np.log(total) + peak
    return deliver(result if keepdims else np.squeeze(result, axis), out)


def _logsumexp_vjp(b: Any, g: Any, out: Any, x: Any, *, axis: int, keepdims: bool) -> tuple[Any, ...]:
    shape = x.type.shape
    return (restored(b, g, shape, (axis,)) * b("exp", x - restored(b, out, shape, (axis,))),)


def _logsumexp_parts(b: Any, x: Any, *, axis: int, keepdims: bool) -> Any:
    peak, _, total = _shifted_exp(b, x, axis)
    result = b("log", total) + peak
    return result if keepdims else b("reshape", result, shape=reduced_shape(x.type.shape, (axis,), False))


def _gelu_infer(op: str, roles: tuple[str, ...]) -> Callable[..., TensorType]:
    check = elementwise(op, roles, FLOATS)

    def infer(*types: TensorType, approximate: str) -> TensorType:
        if approximate not in ("none", "tanh"):
            raise error(
                "E-ARG-101",
                f"{op}: no such approximation",
                expected="none or tanh",
                actual=approximate,
            )
        return check(*types)

    return infer


@blockwise
def _gelu(x: Array, *, approximate: str, out: Array) -> None:
    np.multiply(x, _gelu_share(x, approximate), out=out)


def _gelu_share(x: Array, approximate: str) -> Array:
    """The factor of x: P(X < x) for a standard normal X, or the form with tanh."""
    if approximate == "tanh":
        share = _tanh(x)
    else:
        share = x * ROOT_HALF
        erf_stretch(share, out=share)
    share += 1
    share *= 0.5
    return share


def _tanh(x: Array) -> Array:
    inner: Array = x * x
    inner *= A * C
    inner += C
    inner *= x
    return np.tanh(inner, out=inner)


def _gelu_parts(b: Any, x: Any, *, approximate: str) -> Any:
    share = b("tanh", x * C + x * x * x * (A * C)) if approximate == "tanh" else b("erf", x * ROOT_HALF)
    return x * ((share + 1) * 0.5)


@blockwise
def _gelu_grad(g: Array, x: Array, *, approximate: str, out: Array) -> None:
    slope = _gelu_slope_tanh(x) if approximate == "tanh" else _gelu_slope(x)
    np.multiply(g, slope, out=out)


def _gelu_slope(x: Array) -> Array:
    """P(X < x) + x p(x) for a standard normal X with density p."""
    density: Array = x * x
    density *= -0.5
    np.exp(density, out=density)
    density *= x
    density *= NORMAL
    density += _gelu_share(x, "none")
    return density


def _gelu_slope_tanh(x: Array) -> Array:
    t = _tanh(x)
    inner: Array = x * x
    inner *= 3 * A * C
    inner += C
    inner *= x
    inner *= 1 - t * t
    inner += t
    inner += 1
    inner *= 0.5
    return inner


def _gelu_slope_parts(b: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        t = b("tanh", x * C + x * x * x * (A * C))
        return (1 + t + x * (1 - t * t) * (x * x * (3 * A * C) + C)) * 0.5
    return (b("erf", x * ROOT_HALF) + 1) * 0.5 + x * b("exp", x * x * -0.5) * NORMAL


def _gelu_grad_parts(b: Any, g: Any, x: Any, *, approximate: str) -> Any:
    return g * _gelu_slope_parts(b, x, approximate)


def _gelu_grad_vjp(b: Any, h: Any, out: Any, g: Any, x: Any, *, approximate: str) -> tuple[Any, ...]:
    if approximate == "tanh":
        t = b("tanh", x * C + x * x * x * (A * C))
        first = x * x * (3 * A * C) + C
        curve = (1 - t * t) * (first + x * x * (3 * A * C) - x * t * first * first)
    else:
        curve = (2 - x * x) * b("exp", x * x * -0.5) * NORMAL
    return b("gelu_grad", h, x, approximate=approximate), h * g * curve


@blockwise
def _silu(x: Array, *, out: Array) -> None:
    share = -x
    np.exp(share, out=share)
    share += 1
    np.divide(x, share, out=out)


def _silu_vjp(b: Any, g: Any, out: Any, x: Any) -> tuple[Any, ...]:
    share = b("sigmoid", x)
    return (g * (share + out * (1 - share)),)


@blockwise
def _softplus(x: Array, *, out: Array) -> None:
    # log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), which cannot overflow.
    rest = np.abs(x)
    np.negative(rest, out=rest)
    np.exp(rest, out=rest)
    np.log1p(rest, out=rest)
    np.add(np.maximum(x, 0), rest, out=out)


def _softplus_parts(b: Any, x: Any) -> Any:
    return b("maximum", x, b.constant(0, x.type)) + b("log1p", b("exp", -b("abs", x)))


_AXIS = Attr("axis", "int")


def _row_samples(**attrs: Any) -> tuple[Sample, ...]:
    return (
        sample("f64[2, 3]", axis=1, **attrs),
        sample("f64[2, 3, 2]", axis=1, **attrs),
        sample("f64[4]", axis=0, domain=(-30.0, 30.0), smooth=False, **attrs),
        sample("f64[1]", axis=0, **attrs),
        sample("f32[0, 3]", axis=1, **attrs),
        sample("f32[0, 3]", axis=0, **attrs),
        sample("f32[2, 5]", axis=0, **attrs),
        sample("bf16[2, 3]", axis=1, **attrs),
    )


def _pointwise_samples(arity: int, **attrs: Any) -> tuple[Sample, ...]:
    return (
        sample(*["f64[2, 3]"] * arity, domain=(-4.0, 4.0), **attrs),
        sample(*["f64[]"] * arity, **attrs),
        sample(*["f32[5]"] * arity, domain=(-8.0, 8.0), **attrs),
        sample(*["bf16[0]"] * arity, **attrs),
    )


_GELU_FORMS = ("none", "tanh")

OPERATIONS = (
    OpDef(
        name="softmax",
        kind=Row(keeps=True),
        operands=("x",),
        attrs=(_AXIS,),
        infer=_row_infer("softmax"),
        numpy=_softmax,
        vjp=_softmax_vjp,
        decompose=_softmax_parts,
        samples=_row_samples(),
        doc="e^x / sum of e^x along the axis",
        inplace=True,
    ),
    OpDef(
        name="log_softmax",
        kind=Row(keeps=True),
        operands=("x",),
        attrs=(_AXIS,),
        infer=_row_infer("log_softmax"),
        numpy=_log_softmax,
        vjp=_log_softmax_vjp,
        decompose=_log_softmax_parts,
        samples=_row_samples(),
        doc="x - log(sum of e^x along the axis)",
        inplace=True,
    ),
    OpDef(
        name="logsumexp",
        kind=Row(keeps=False),
        operands=("x",),
        attrs=(_AXIS, Attr("keepdims", "bool")),
        infer=_logsumexp_infer,
        numpy=_logsumexp,
        vjp=_logsumexp_vjp,
        decompose=_logsumexp_parts,
        samples=(*_row_samples(keepdims=False), *_row_samples(keepdims=True)),
        doc="log(sum of e^x along the axis)",
    ),
    OpDef(
        name="gelu",
        kind=Pointwise("gelu", wide=True),
        operands=("x",),
        attrs=(Attr("approximate", "str"),),
        infer=_gelu_infer("gelu", ("x",)),
        numpy=_gelu,
        vjp=lambda b, g, out, x, approximate: (b("gelu_grad", g, x, approximate=approximate),),
        decompose=_gelu_parts,
        samples=tuple(s for form in _GELU_FORMS for s in _pointwise_samples(1, approximate=form)),
        doc="x (1 + erf(x / sqrt 2)) / 2, or with tanh(sqrt(2 / pi) (x + 0.044715 x^3)) for the erf",
        inplace=True,
    ),
    OpDef(
        name="gelu_grad",
        kind=Pointwise("gelu_grad", wide=True),
        operands=("g", "x"),
        attrs=(Attr("approximate", "str"),),
        infer=_gelu_infer("gelu_grad", ("g", "x")),
        numpy=_gelu_grad,
        vjp=_gelu_grad_vjp,
        decompose=_gelu_grad_parts,
        samples=tuple(s for form in _GELU_FORMS for s in _pointwise_samples(2, approximate=form)),
        doc="g times the derivative of gelu at x",
        inplace=True,
    ),
    OpDef(
        name="silu",
        kind=Pointwise("silu", wide=True),
        operands=("x",),
        infer=elementwise("silu", ("x",), FLOATS),
        numpy=_silu,
        vjp=_silu_vjp,
        decompose=lambda b, x: x * b("sigmoid", x),
        samples=_pointwise_samples(1),
        doc="x / (1 + e^-x)",
        inplace=True,
    ),
    OpDef(
        name="softplus",
        kind=Pointwise("softplus", wide=True),
        operands=("x",),
        infer=elementwise("softplus", ("x",), FLOATS),
        numpy=_softplus,
        vjp=lambda b, g, out, x: (g * b("sigmoid", x),),
        decompose=_softplus_parts,
        samples=_pointwise_samples(1),
        doc="log(1 + e^x)",
        inplace=True,
    ),
)
