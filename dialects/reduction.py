"""Reductions: lines of a tensor folded to one element, and the running sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sexpgpu.diag import error
from sexpgpu.dialects.movement import reshaped, section
from sexpgpu.dialects.opdef import Array, Attr, OpDef, Reduce, Sample, Scan, sample
from sexpgpu.dialects.rules import BOOL, NUMBERS, reduced_shape, require_axes, require_axis, require_dtype
from sexpgpu.tensortype import TensorType

Ints = tuple[int, ...]


def _infer(op: str, allowed: frozenset[str], empty: bool) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, axes: Ints, keepdims: bool) -> TensorType:
        require_dtype(op, "x", x, allowed)
        require_axes(op, axes, x.rank)
        if not empty:
            _require_elements(op, x, axes)
        return TensorType(reduced_shape(x.shape, axes, keepdims), x.dtype)

    return infer


def _require_elements(op: str, x: TensorType, axes: Ints) -> None:
    for axis in axes:
        if x.shape[axis] == 0:
            raise error(
                "E-SHAPE-011",
                f"{op}: nothing to choose from along axis {axis}",
                expected="an axis of size 1 or more",
                actual=f"x: {x}",
            )


def _numpy(function: Callable[..., Any]) -> Callable[..., Array]:
    # `dtype` keeps NumPy from widening small integers.
    takes_dtype = function in (np.sum, np.prod)

    def apply(x: Array, *, axes: Ints, keepdims: bool, out: Array | None = None) -> Array:
        kwargs = {"dtype": x.dtype} if takes_dtype else {}
        return np.asarray(function(x, axis=axes, keepdims=keepdims, out=out, **kwargs))

    return apply


def restored(b: Any, x: Any, shape: Ints, axes: Ints) -> Any:
    """A reduction's result (with or without its axes) repeated along `axes` to the operand's shape."""
    return b("broadcast", reshaped(b, x, reduced_shape(shape, axes, True)), shape=shape)


def _sum_vjp(b: Any, g: Any, out: Any, x: Any, *, axes: Ints, keepdims: bool) -> tuple[Any, ...]:
    return (restored(b, g, x.type.shape, axes),)


def _choice_vjp(b: Any, g: Any, out: Any, x: Any, *, axes: Ints, keepdims: bool) -> tuple[Any, ...]:
    shape = x.type.shape
    chosen = b("cast", b("eq", x, restored(b, out, shape, axes)), dtype=x.type.dtype)
    share = g / b("sum", chosen, axes=axes, keepdims=keepdims)
    return (chosen * restored(b, share, shape, axes),)


def _prod_vjp(b: Any, g: Any, out: Any, x: Any, *, axes: Ints, keepdims: bool) -> tuple[Any, ...]:
    """The product of the others: of those before times of those behind, exact where elements are 0."""
    shape = x.type.shape
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    perm = kept + axes
    moved = b("transpose", x, perm=perm)
    outer = tuple(shape[i] for i in kept)
    length = 1
    for axis in axes:
        length *= shape[axis]
    lines = reshaped(b, moved, (*outer, length))
    last = len(outer)
    before = _products_before(b, lines, last)
    behind = b("flip", _products_before(b, b("flip", lines, axes=(last,)), last), axes=(last,))
    others = reshaped(b, before * behind, moved.type.shape)
    inverse = tuple(perm.index(i) for i in range(len(perm)))
    return (restored(b, g, shape, axes) * b("transpose", others, perm=inverse),)


def _products_before(b: Any, x: Any, axis: int) -> Any:
    """Exclusive running product along the last axis, by doubling: log2(n) multiplications."""
    length = x.type.shape[axis]
    running = _shifted(b, x, axis, 1) if length else x
    reach = 1
    while reach < length:
        running = running * _shifted(b, running, axis, reach)
        reach *= 2
    return running


def _shifted(b: Any, x: Any, axis: int, by: int) -> Any:
    length = x.type.shape[axis]
    low = tuple(by if i == axis else 0 for i in range(x.type.rank))
    return b("pad", section(b, x, axis, 0, length - by), low=low, high=(0,) * x.type.rank, value=1)


def _cumsum_infer(x: TensorType, *, axis: int) -> TensorType:
    require_dtype("cumsum", "x", x, NUMBERS)
    require_axis("cumsum", axis, x.rank)
    return x


def _cumsum(x: Array, *, axis: int, out: Array | None = None) -> Array:
    return np.cumsum(x, axis, dtype=x.dtype, out=out)


def _cumsum_vjp(b: Any, g: Any, out: Any, x: Any, *, axis: int) -> tuple[Any, ...]:
    return (b("flip", b("cumsum", b("flip", g, axes=(axis,)), axis=axis), axes=(axis,)),)


def _index_infer(op: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, axis: int, keepdims: bool) -> TensorType:
        require_dtype(op, "x", x, NUMBERS)
        require_axis(op, axis, x.rank)
        _require_elements(op, x, (axis,))
        return TensorType(reduced_shape(x.shape, (axis,), keepdims), "i32")

    return infer


def _index_numpy(function: Callable[..., Any]) -> Callable[..., Array]:
    def apply(x: Array, *, axis: int, keepdims: bool, out: Array | None = None) -> Array:
        places = function(x, axis=axis, keepdims=keepdims)
        if out is None:
            return np.asarray(places, dtype=np.int32)
        out[...] = places
        return out

    return apply


_SAMPLES = (
    sample("f64[2, 3, 4]", axes=(1,), keepdims=False),
    sample("f64[2, 3, 4]", axes=(2, 0), keepdims=True),
    sample("f64[2, 3]", axes=(0, 1), keepdims=False),
    sample("f64[]", axes=(), keepdims=True),
    sample("f32[0, 3]", axes=(1,), keepdims=False),
)
_TYPED = tuple(
    sample(f"{dtype}[3, 2]", axes=(0,), keepdims=keepdims)
    for dtype, keepdims in (("f32", False), ("bf16", True), ("i32", False), ("i64", True), ("u8", False))
)
_EMPTY = (sample("f64[0, 3]", axes=(0,), keepdims=False),)
_BOOLS = (
    sample("bool[2, 3]", axes=(1,), keepdims=False),
    sample("bool[2, 3]", axes=(0, 1), keepdims=True),
    sample("bool[0]", axes=(0,), keepdims=False),
)


def _reduction(
    name: str,
    kind: Reduce,
    numpy: Callable[..., Any],
    vjp: Callable[..., tuple[Any, ...]] | None,
    doc: str,
    *,
    allowed: frozenset[str] = NUMBERS,
    samples: tuple[Sample, ...] = _SAMPLES + _TYPED,
) -> OpDef:
    return OpDef(
        name=name,
        kind=kind,
        operands=("x",),
        attrs=(Attr("axes", "ints"), Attr("keepdims", "bool")),
        infer=_infer(name, allowed, empty=kind.init is not None),
        numpy=_numpy(numpy),
        vjp=vjp,
        samples=samples,
        doc=doc,
    )


def _position(name: str, kind: Reduce, numpy: Callable[..., Any], doc: str) -> OpDef:
    return OpDef(
        name=name,
        kind=kind,
        operands=("x",),
        attrs=(Attr("axis", "int"), Attr("keepdims", "bool")),
        infer=_index_infer(name),
        numpy=_index_numpy(numpy),
        vjp=None,
        samples=(
            sample("f64[2, 3]", axis=1, keepdims=False),
            sample("f32[2, 3, 2]", axis=0, keepdims=True),
            sample("i32[4]", axis=0, keepdims=False),
            sample("u8[0, 2]", axis=1, keepdims=False),
        ),
        doc=doc,
    )


OPERATIONS = (
    _reduction("sum", Reduce("add", 0.0), np.sum, _sum_vjp, "the sum along the axes",
               samples=_SAMPLES + _TYPED + _EMPTY),
    _reduction("prod", Reduce("mul", 1.0), np.prod, _prod_vjp, "the product along the axes",
               samples=_SAMPLES + _TYPED + _EMPTY),
    _reduction("amax", Reduce("max", None), np.amax, _choice_vjp,
               "the greatest along the axes, NaN if one is; elements that tie share the cotangent"),
    _reduction("amin", Reduce("min", None), np.amin, _choice_vjp,
               "the least along the axes, NaN if one is; elements that tie share the cotangent"),
    _reduction("any", Reduce("or", False), np.any, None, "true where one along the axes is", allowed=BOOL,
               samples=_BOOLS),
    _reduction("all", Reduce("and", True), np.all, None, "true where all along the axes are", allowed=BOOL,
               samples=_BOOLS),
    _position("argmax", Reduce("argmax", None), np.argmax,
              "index of the greatest along the axis, the first of equals"),
    _position("argmin", Reduce("argmin", None), np.argmin,
              "index of the least along the axis, the first of equals"),
    OpDef(
        name="cumsum",
        kind=Scan("add"),
        operands=("x",),
        attrs=(Attr("axis", "int"),),
        infer=_cumsum_infer,
        numpy=_cumsum,
        vjp=_cumsum_vjp,
        samples=(
            sample("f64[2, 3]", axis=1),
            sample("f64[4]", axis=0),
            sample("f32[0, 2]", axis=0),
            sample("i32[3]", axis=0),
            sample("u8[2, 2]", axis=0),
        ),
        doc="element i is the sum of elements 0 to i along the axis",
    ),
)  # fmt: skip
