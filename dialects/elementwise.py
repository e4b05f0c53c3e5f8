"""Elementwise operations: operands of one type, each place on its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sexpgpu.dialects.arrays import blockwise, plain, select, ufunc
from sexpgpu.dialects.erf import erf
from sexpgpu.dialects.opdef import Array, Attr, Move, OpDef, Pointwise, Sample, no_cotangent, numpy_dtype, sample
from sexpgpu.dialects.rules import ANY, BOOL, NUMBERS, elementwise, require_dtype, require_same, with_dtype
from sexpgpu.tensortype import FLOATS, DType, TensorType

Vjp = Callable[..., tuple[Any, ...]] | None


def _samples(arity: int, dtypes: tuple[str, ...], domain: tuple[float, float]) -> tuple[Sample, ...]:
    shapes = ("[2, 3]", "[]", "[0, 2]", "[1, 5, 1]")
    main = [sample(*[f"{dtypes[0]}{shape}"] * arity, domain=domain) for shape in shapes]
    return (*main, *(sample(*[f"{dtype}[4]"] * arity, domain=domain, smooth=False) for dtype in dtypes[1:]))


def _unary(
    name: str,
    numpy: Callable[..., Array],
    vjp: Vjp,
    doc: str,
    *,
    allowed: frozenset[str] = FLOATS,
    result: DType | None = None,
    domain: tuple[float, float] = (-2.0, 2.0),
    inplace: bool = True,
    wide: bool = False,
) -> OpDef:
    dtypes = {FLOATS: ("f64", "f32", "bf16"), BOOL: ("bool",)}.get(allowed, ("f64", "f32", "i32", "u8"))
    return OpDef(
        name=name,
        kind=Pointwise(name, wide),
        operands=("x",),
        infer=elementwise(name, ("x",), allowed, result),
        numpy=numpy,
        vjp=vjp,
        samples=_samples(1, dtypes, domain),
        doc=doc,
        inplace=inplace and result is None,
    )


def _binary(
    name: str,
    numpy: Callable[..., Array],
    vjp: Vjp,
    doc: str,
    *,
    allowed: frozenset[str] = NUMBERS,
    result: DType | None = None,
    domain: tuple[float, float] = (-2.0, 2.0),
    wide: bool = False,
) -> OpDef:
    dtypes = {FLOATS: ("f64", "f32"), BOOL: ("bool",), ANY: ("f64", "i32", "bool")}.get(
        allowed, ("f64", "f32", "i32", "i64", "u8")
    )
    return OpDef(
        name=name,
        kind=Pointwise(name, wide),
        operands=("x", "y"),
        infer=elementwise(name, ("x", "y"), allowed, result),
        numpy=numpy,
        vjp=vjp,
        samples=_samples(2, dtypes, domain),
        doc=doc,
        inplace=result is None,
    )


@blockwise
def _sigmoid(x: Array, *, out: Array) -> None:
    # Where e^-x overflows, 1/inf is the 0 wanted.
    np.negative(x, out=out)
    np.exp(out, out=out)
    out += 1
    np.divide(1, out, out=out)


@blockwise
def _rsqrt(x: Array, *, out: Array) -> None:
    np.sqrt(x, out=out)
    np.divide(1, out, out=out)


def _relu(x: Array, out: Array | None = None) -> Array:
    return np.asarray(np.maximum(x, x.dtype.type(0), out=out))


def _pow_vjp(b: Any, g: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    # y x**(y-1) instead of y out/x keeps the derivative finite at x = 0, and x**0 is constant there too; log is taken
    # where x > 0 only.
    zero, one = b.constant(0, x.type), b.constant(1, x.type)
    lower = b("where", b("eq", y, zero), one, y - 1)
    safe = b("where", b("gt", x, zero), x, one)
    return g * y * b("pow", x, lower), g * out * b("log", safe)


def _select_vjp(greater: str) -> Vjp:
    def vjp(b: Any, g: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
        half = g * 0.5
        zero = b.constant(0, g.type)
        equal = b("eq", x, y)
        to_x = b("where", equal, half, b("where", b(greater, x, y), g, zero))
        return to_x, g - to_x

    return vjp


def _where_infer(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    require_dtype("where", "condition", condition, BOOL)
    require_same("where", ("x", "y"), (x, y))
    require_same("where", ("x", "condition"), (x, with_dtype(condition, x.dtype)))
    return x


def _where_vjp(b: Any, g: Any, out: Any, condition: Any, x: Any, y: Any) -> tuple[Any, ...]:
    zero = b.constant(0, g.type)
    return None, b("where", condition, g, zero), b("where", condition, zero, g)


def _cast(x: Array, *, dtype: DType) -> Array:
    return np.not_equal(x, 0) if dtype == "bool" else x.astype(numpy_dtype(dtype))


def _cast_vjp(b: Any, g: Any, out: Any, x: Any, *, dtype: DType) -> tuple[Any, ...]:
    return (b("cast", g, dtype=x.type.dtype),) if x.type.is_float and out.type.is_float else (None,)


def _relu_vjp(b: Any, g: Any, out: Any, x: Any) -> tuple[Any, ...]:
    zero = b.constant(0, g.type)
    return (b("where", b("gt", x, zero), g, zero),)


_POSITIVE = (0.25, 3.0)

UNARY = (
    _unary("neg", ufunc(np.negative), lambda b, g, out, x: (-g,), "-x", allowed=NUMBERS),
    _unary("abs", ufunc(np.abs), lambda b, g, out, x: (g * b("sign", x),), "|x|; derivative 0 at 0",
           allowed=NUMBERS),
    _unary("sign", ufunc(np.sign), no_cotangent, "-1, 0 or 1; derivative 0", allowed=NUMBERS),
    _unary("exp", ufunc(np.exp), lambda b, g, out, x: (g * out,), "e^x", wide=True),
    _unary("expm1", ufunc(np.expm1), lambda b, g, out, x: (g * (out + 1),), "e^x - 1, exact near 0", wide=True),
    _unary("log", ufunc(np.log), lambda b, g, out, x: (g / x,), "natural logarithm", domain=_POSITIVE, wide=True),
    _unary("log1p", ufunc(np.log1p), lambda b, g, out, x: (g / (x + 1),), "log(1 + x), exact near 0",
           domain=(-0.5, 2.0), wide=True),
    _unary("sqrt", ufunc(np.sqrt), lambda b, g, out, x: (g * 0.5 / out,), "square root", domain=_POSITIVE, wide=True),
    _unary("rsqrt", _rsqrt, lambda b, g, out, x: (g * -0.5 * out * out * out,), "1 / sqrt(x)",
           domain=_POSITIVE, wide=True),
    _unary("sin", ufunc(np.sin), lambda b, g, out, x: (g * b("cos", x),), "sine of radians", wide=True),
    _unary("cos", ufunc(np.cos), lambda b, g, out, x: (-(g * b("sin", x)),), "cosine of radians", wide=True),
    _unary("tanh", ufunc(np.tanh), lambda b, g, out, x: (g * (1 - out * out),), "hyperbolic tangent", wide=True),
    _unary("sigmoid", _sigmoid, lambda b, g, out, x: (g * out * (1 - out),), "1 / (1 + e^-x)", wide=True),
    _unary("erf", erf, lambda b, g, out, x: (g * (b("exp", -(x * x)) * 1.1283791670955126),),
           "2/sqrt(pi) * integral of e^(-t^2) from 0 to x; within 2 ulp", wide=True),
    _unary("floor", ufunc(np.floor), no_cotangent, "greatest integer <= x; derivative 0"),
    _unary("ceil", ufunc(np.ceil), no_cotangent, "least integer >= x; derivative 0"),
    _unary("round", ufunc(np.rint), no_cotangent,
           "nearest integer, halves to even; derivative 0"),
    _unary("logical_not", ufunc(np.logical_not), None, "not x", allowed=BOOL),
    _unary("isfinite", ufunc(np.isfinite), None, "true where x is neither infinite nor NaN", result="bool"),
    _unary("relu", _relu, _relu_vjp, "max(x, 0); derivative 0 at 0", allowed=NUMBERS),
    _unary("square", ufunc(np.square), lambda b, g, out, x: (g * x * 2,), "x * x", allowed=NUMBERS),
    _unary("reciprocal", ufunc(np.reciprocal), lambda b, g, out, x: (-(g * out * out),), "1 / x",
           domain=_POSITIVE, wide=True),
)  # fmt: skip

BINARY = (
    _binary("add", ufunc(np.add), lambda b, g, out, x, y: (g, g), "x + y"),
    _binary("sub", ufunc(np.subtract), lambda b, g, out, x, y: (g, -g), "x - y"),
    _binary("mul", ufunc(np.multiply), lambda b, g, out, x, y: (g * y, g * x), "x * y"),
    _binary("div", ufunc(np.divide), lambda b, g, out, x, y: (g / y, -(g * out / y)), "x / y", allowed=FLOATS,
            domain=_POSITIVE),
    _binary("mod", ufunc(np.mod), lambda b, g, out, x, y: (g, -(g * b("floor", x / y))),
            "x - y * floor(x / y): the sign of y", domain=_POSITIVE),
    _binary("pow", ufunc(np.power), _pow_vjp, "x ^ y; the derivative to y is 0 where x <= 0", allowed=FLOATS,
            domain=_POSITIVE, wide=True),
    _binary("maximum", ufunc(np.maximum), _select_vjp("gt"),
            "the greater; NaN if either is; ties share the cotangent"),
    _binary("minimum", ufunc(np.minimum), _select_vjp("lt"),
            "the lesser; NaN if either is; ties share the cotangent"),
    _binary("eq", ufunc(np.equal), None, "x = y", allowed=ANY, result="bool"),
    _binary("ne", ufunc(np.not_equal), None, "x /= y", allowed=ANY, result="bool"),
    _binary("lt", ufunc(np.less), None, "x < y", allowed=ANY, result="bool"),
    _binary("le", ufunc(np.less_equal), None, "x <= y", allowed=ANY, result="bool"),
    _binary("gt", ufunc(np.greater), None, "x > y", allowed=ANY, result="bool"),
    _binary("ge", ufunc(np.greater_equal), None, "x >= y", allowed=ANY, result="bool"),
    _binary("logical_and", ufunc(np.logical_and), None, "x and y", allowed=BOOL),
    _binary("logical_or", ufunc(np.logical_or), None, "x or y", allowed=BOOL),
)  # fmt: skip

OTHERS = (
    OpDef(
        name="where",
        kind=Pointwise("select"),
        operands=("condition", "x", "y"),
        infer=_where_infer,
        numpy=select,
        vjp=_where_vjp,
        samples=(
            sample("bool[2, 3]", "f64[2, 3]", "f64[2, 3]"),
            sample("bool[]", "f32[]", "f32[]"),
            sample("bool[70, 70]", "f32[70, 70]", "f32[70, 70]"),
            sample("bool[70, 70]", "i64[70, 70]", "i64[70, 70]"),
            sample("bool[70, 70]", "u8[70, 70]", "u8[70, 70]"),
            sample("bool[0]", "bf16[0]", "bf16[0]"),
            sample("bool[4]", "i32[4]", "i32[4]"),
            sample("bool[4]", "bool[4]", "bool[4]"),
        ),
        doc="x where the condition is true, y elsewhere; both are computed",
        inplace=True,
    ),
    OpDef(
        name="cast",
        kind=Pointwise("cast"),
        operands=("x",),
        attrs=(Attr("dtype", "dtype"),),
        infer=lambda x, dtype: with_dtype(x, dtype),
        numpy=plain(_cast),
        vjp=_cast_vjp,
        samples=(
            sample("f64[2, 3]", dtype="f64"),
            sample("f64[3]", dtype="i32"),
            sample("f32[3]", dtype="bf16"),
            sample("bf16[]", dtype="i64"),
            sample("i32[0, 3]", dtype="f32"),
            sample("u8[3]", dtype="bool"),
            sample("bool[3]", dtype="f64"),
            sample("i64[3]", dtype="u8"),
        ),
        doc="the value in dtype: nearest for floats, without its fraction for integers, `not 0` for bool",
    ),
    OpDef(
        name="stop_gradient",
        kind=Move(views=True, form="same"),
        operands=("x",),
        infer=lambda x: x,
        numpy=plain(lambda x: x),
        vjp=no_cotangent,
        samples=(sample("f64[2, 3]", smooth=False), sample("i32[]"), sample("bool[0]")),
        doc="x itself; no derivative passes",
    ),
)

OPERATIONS = (*UNARY, *BINARY, *OTHERS)
