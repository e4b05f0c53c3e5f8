"""Data movement: elements change place, nothing is computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sexpgpu.diag import error
from sexpgpu.dialects.arrays import deliver, plain
from sexpgpu.dialects.opdef import Array, Attr, Constant, Dense, Move, OpDef, numpy_dtype, sample
from sexpgpu.dialects.rules import (
    INDICES,
    differing,
    marked,
    require_axes,
    require_axis,
    require_count,
    require_dtype,
    require_same_dtype,
    require_sizes,
)
from sexpgpu.tensortype import FLOATS, DType, TensorType

Ints = tuple[int, ...]


def _broadcast_infer(x: TensorType, *, shape: Ints) -> TensorType:
    require_sizes("broadcast", shape)
    offset = len(shape) - x.rank
    if offset < 0 or any(n not in (1, shape[offset + i]) for i, n in enumerate(x.shape)):
        stuck = [i for i, n in enumerate(x.shape) if offset + i < 0 or n not in (1, shape[offset + i])]
        raise error(
            "E-SHAPE-006",
            "broadcast: the tensor does not stretch to the shape",
            expected=f"axes, counted from the last, that equal those of {list(shape)} or are 1",
            actual=f"x: {marked(x, *stuck)}",
        )
    return TensorType(shape, x.dtype)


def _broadcast_vjp(b: Any, g: Any, out: Any, x: Any, *, shape: Ints) -> tuple[Any, ...]:
    offset = len(shape) - x.type.rank
    stretched = tuple(i for i in range(len(shape)) if i < offset or x.type.shape[i - offset] != shape[i])
    folded = b("sum", g, axes=stretched, keepdims=False) if stretched else g
    return (reshaped(b, folded, x.type.shape),)


def reshaped(b: Any, x: Any, shape: Ints) -> Any:
    """`x` with another shape of the same size; no operation when it has it already."""
    return x if x.type.shape == shape else b("reshape", x, shape=shape)


def _reshape_infer(x: TensorType, *, shape: Ints) -> TensorType:
    require_sizes("reshape", shape)
    if math.prod(shape) != x.size:
        raise error(
            "E-SHAPE-007",
            "reshape: the new shape has another number of elements",
            expected=f"{x.size} elements, as x: {x}",
            actual=f"{math.prod(shape)} elements: {list(shape)}",
        )
    return TensorType(shape, x.dtype)


def _reshape(x: Array, *, shape: Ints, out: Array | None = None) -> Array:
    if out is None:
        return x.reshape(shape)
    # Where a copy is needed it is made once, into place.
    np.copyto(
        out.reshape(x.shape) if out.flags.c_contiguous else out, x if out.flags.c_contiguous else x.reshape(shape)
    )
    return out


def _transpose_infer(x: TensorType, *, perm: Ints) -> TensorType:
    if sorted(perm) != list(range(x.rank)):
        raise error(
            "E-SHAPE-008",
            "transpose: not a permutation of the axes",
            expected=f"each of {list(range(x.rank))} once",
            actual=f"{list(perm)} for x: {x}",
        )
    return TensorType(tuple(x.shape[i] for i in perm), x.dtype)


def _transpose_vjp(b: Any, g: Any, out: Any, x: Any, *, perm: Ints) -> tuple[Any, ...]:
    inverse = [0] * len(perm)
    for to, source in enumerate(perm):
        inverse[source] = to
    return (b("transpose", g, perm=tuple(inverse)),)


def _slice_infer(x: TensorType, *, start: Ints, stop: Ints, step: Ints) -> TensorType:
    for what, given in (("start", start), ("stop", stop), ("step", step)):
        require_count("slice", what, given, x.rank)
    for axis, (low, high, by, n) in enumerate(zip(start, stop, step, x.shape, strict=True)):
        if not 0 <= low <= high <= n or by < 1:
            raise error(
                "E-SHAPE-009",
                f"slice: the range does not lie within axis {axis}",
                expected=f"0 <= start <= stop <= {n}, step of 1 or more",
                actual=f"start {low}, stop {high}, step {by}; x: {x}",
            )
    sizes = (max(0, -(-(high - low) // by)) for low, high, by in zip(start, stop, step, strict=True))
    return TensorType(tuple(sizes), x.dtype)


def _slice(x: Array, *, start: Ints, stop: Ints, step: Ints) -> Array:
    # The ellipsis keeps a scalar an array.
    places: tuple[Any, ...] = (*map(slice, start, stop, step), ...)
    return np.asarray(x[places])


def _slice_vjp(b: Any, g: Any, out: Any, x: Any, *, start: Ints, stop: Ints, step: Ints) -> tuple[Any, ...]:
    shape = x.type.shape
    if x.type.size == 0:
        return (b.constant(0, x.type),)
    for axis, by in enumerate(step):
        if by > 1:
            g = _spread(b, g, axis, by, stop[axis] - start[axis])
    high = tuple(n - end for n, end in zip(shape, stop, strict=True))
    return (b("pad", g, low=start, high=high, value=0),)


def _spread(b: Any, x: Any, axis: int, by: int, length: int) -> Any:
    """`x` with by - 1 zeros behind each element along an axis, cut to `length`."""
    shape = x.type.shape
    wide = b("reshape", x, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
    none = (0,) * (len(shape) + 1)
    behind = tuple(by - 1 if i == axis + 1 else 0 for i in range(len(none)))
    wide = b("pad", wide, low=none, high=behind, value=0)
    flat = b("reshape", wide, shape=(*shape[:axis], shape[axis] * by, *shape[axis + 1 :]))
    return section(b, flat, axis, 0, length)


def section(b: Any, x: Any, axis: int, start: int, stop: int) -> Any:
    """`x` from `start` to `stop` along one axis."""
    shape = x.type.shape
    return b(
        "slice",
        x,
        start=tuple(start if i == axis else 0 for i in range(len(shape))),
        stop=tuple(stop if i == axis else n for i, n in enumerate(shape)),
        step=(1,) * len(shape),
    )


def _pad_infer(x: TensorType, *, low: Ints, high: Ints, value: float) -> TensorType:
    require_count("pad", "low", low, x.rank)
    require_count("pad", "high", high, x.rank)
    require_sizes("pad", (*low, *high))
    return TensorType(tuple(a + n + z for a, n, z in zip(low, x.shape, high, strict=True)), x.dtype)


def _pad(x: Array, *, low: Ints, high: Ints, value: float, out: Array | None = None) -> Array:
    if out is None:
        out = np.empty([a + n + z for a, n, z in zip(low, x.shape, high, strict=True)], x.dtype)
    out.fill(value)
    out[tuple(slice(a, a + n) for a, n in zip(low, x.shape, strict=True))] = x
    return out


def _pad_vjp(b: Any, g: Any, out: Any, x: Any, *, low: Ints, high: Ints, value: float) -> tuple[Any, ...]:
    stop = tuple(a + n for a, n in zip(low, x.type.shape, strict=True))
    return (b("slice", g, start=low, stop=stop, step=(1,) * len(low)),)


def _concat_infer(x: TensorType, y: TensorType, *, axis: int) -> TensorType:
    require_same_dtype("concat", "x", x, "y", y)
    require_axis("concat", axis, x.rank)
    rest = [(*type.shape[:axis], *type.shape[axis + 1 :]) for type in (x, y)]
    if x.rank != y.rank or rest[0] != rest[1]:
        raise error(
            "E-SHAPE-010",
            f"concat: x and y differ in another axis than axis {axis}, along which they are joined",
            expected=f"the other axes of x: {differing(x, y, axis)[0]}",
            actual=f"y: {differing(x, y, axis)[1]}",
        )
    return TensorType((*x.shape[:axis], x.shape[axis] + y.shape[axis], *x.shape[axis + 1 :]), x.dtype)


def _concat(x: Array, y: Array, *, axis: int, out: Array | None = None) -> Array:
    return np.concatenate((x, y), axis, out=out)


def _concat_vjp(b: Any, g: Any, out: Any, x: Any, y: Any, *, axis: int) -> tuple[Any, ...]:
    middle = x.type.shape[axis]
    return section(b, g, axis, 0, middle), section(b, g, axis, middle, g.type.shape[axis])


def _flip_infer(x: TensorType, *, axes: Ints) -> TensorType:
    require_axes("flip", axes, x.rank)
    return x


def _flip(x: Array, *, axes: Ints) -> Array:
    places: tuple[Any, ...] = (*(slice(None, None, -1 if i in axes else 1) for i in range(x.ndim)), ...)
    return np.asarray(x[places])


def _iota_infer(*, shape: Ints, axis: int, dtype: DType) -> TensorType:
    require_sizes("iota", shape)
    require_axis("iota", axis, len(shape))
    type = TensorType(shape, dtype)
    require_dtype("iota", "the result", type, FLOATS | INDICES | {"u8"})
    return type


def _iota(*, shape: Ints, axis: int, dtype: DType) -> Array:
    line = np.arange(shape[axis], dtype=numpy_dtype(dtype))
    return np.broadcast_to(line.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


def _constant(*, value: Dense, out: Array | None = None) -> Array:
    return deliver(value.array(), out)


OPERATIONS = (
    OpDef(
        name="broadcast",
        kind=Move(views=True, form="broadcast"),
        operands=("x",),
        attrs=(Attr("shape", "ints"),),
        infer=_broadcast_infer,
        numpy=plain(lambda x, shape: np.broadcast_to(x, shape)),
        vjp=_broadcast_vjp,
        samples=(
            sample("f64[3]", shape=(2, 3)),
            sample("f64[2, 1, 3]", shape=(4, 2, 5, 3)),
            sample("f64[]", shape=()),
            sample("f64[1, 1]", shape=(1, 1)),
            sample("f64[1]", shape=(0,)),
            sample("bool[]", shape=(3,)),
        ),
        doc="repeats axes of size 1 to the shape; axes are matched from the last, as NumPy does",
    ),
    OpDef(
        name="reshape",
        kind=Move(views=True, form="reshape"),
        operands=("x",),
        attrs=(Attr("shape", "ints"),),
        infer=_reshape_infer,
        numpy=_reshape,
        vjp=lambda b, g, out, x, shape: (reshaped(b, g, x.type.shape),),
        samples=(
            sample("f64[2, 6]", shape=(3, 4)),
            sample("f64[]", shape=(1, 1)),
            sample("f64[0, 3]", shape=(5, 0)),
            sample("u8[4]", shape=(2, 2)),
        ),
        doc="the same elements in row-major order under another shape",
    ),
    OpDef(
        name="transpose",
        kind=Move(views=True, form="permute"),
        operands=("x",),
        attrs=(Attr("perm", "ints"),),
        infer=_transpose_infer,
        numpy=plain(lambda x, perm: x.transpose(perm)),
        vjp=_transpose_vjp,
        samples=(
            sample("f64[2, 3]", perm=(1, 0)),
            sample("f64[2, 3, 4]", perm=(2, 0, 1)),
            sample("f64[]", perm=()),
            sample("i32[0, 3]", perm=(1, 0)),
        ),
        doc="axis i of the result is axis perm[i] of x",
    ),
    OpDef(
        name="slice",
        kind=Move(views=True, form="cut"),
        operands=("x",),
        attrs=(Attr("start", "ints"), Attr("stop", "ints"), Attr("step", "ints")),
        infer=_slice_infer,
        numpy=plain(_slice),
        vjp=_slice_vjp,
        samples=(
            sample("f64[5, 3]", start=(1, 0), stop=(4, 3), step=(1, 1)),
            sample("f64[7, 5]", start=(1, 0), stop=(6, 5), step=(2, 3)),
            sample("f64[4]", start=(2,), stop=(2,), step=(1,)),
            sample("f64[]", start=(), stop=(), step=()),
            sample("f64[0, 3]", start=(0, 1), stop=(0, 3), step=(1, 2)),
            sample("u8[6]", start=(0,), stop=(6,), step=(2,)),
        ),
        doc="elements start, start + step, ... below stop of each axis",
    ),
    OpDef(
        name="pad",
        kind=Move(views=False, form="pad"),
        operands=("x",),
        attrs=(Attr("low", "ints"), Attr("high", "ints"), Attr("value", "number")),
        infer=_pad_infer,
        numpy=_pad,
        vjp=_pad_vjp,
        samples=(
            sample("f64[2, 3]", low=(1, 0), high=(0, 2), value=0),
            sample("f64[]", low=(), high=(), value=1.5),
            sample("f64[0]", low=(1,), high=(1,), value=-0.0),
            sample("i32[2]", low=(0,), high=(3,), value=-1),
            sample("bool[2]", low=(1,), high=(0,), value=1),
        ),
        doc="low and high elements of the value before and after each axis",
    ),
    OpDef(
        name="concat",
        kind=Move(views=False, form="join"),
        operands=("x", "y"),
        attrs=(Attr("axis", "int"),),
        infer=_concat_infer,
        numpy=_concat,
        vjp=_concat_vjp,
        samples=(
            sample("f64[2, 3]", "f64[2, 1]", axis=1),
            sample("f64[2]", "f64[0]", axis=0),
            sample("bool[1, 2]", "bool[3, 2]", axis=0),
        ),
        doc="y behind x along the axis",
    ),
    OpDef(
        name="flip",
        kind=Move(views=True, form="reverse"),
        operands=("x",),
        attrs=(Attr("axes", "ints"),),
        infer=_flip_infer,
        numpy=plain(_flip),
        vjp=lambda b, g, out, x, axes: (b("flip", g, axes=axes),),
        samples=(
            sample("f64[2, 3]", axes=(1,)),
            sample("f64[2, 3, 2]", axes=(0, 2)),
            sample("f64[]", axes=()),
            sample("u8[0]", axes=(0,)),
        ),
        doc="the axes run backwards",
    ),
    OpDef(
        name="iota",
        kind=Constant(),
        operands=(),
        attrs=(Attr("shape", "ints"), Attr("axis", "int"), Attr("dtype", "dtype")),
        infer=_iota_infer,
        numpy=plain(_iota),
        vjp=lambda b, g, out, shape, axis, dtype: (),
        samples=(
            sample(shape=(4,), axis=0, dtype="i32"),
            sample(shape=(2, 3), axis=1, dtype="f64"),
            sample(shape=(0, 3), axis=1, dtype="u8"),
        ),
        doc="each element is its index along the axis",
    ),
    OpDef(
        name="constant",
        kind=Constant(),
        operands=(),
        attrs=(Attr("value", "tensor"),),
        infer=lambda value: value.type,
        numpy=_constant,
        vjp=lambda b, g, out, value: (),
        samples=(
            sample(value=Dense(TensorType((2, 3), "f32"), 1.5)),
            sample(value=Dense(TensorType((), "f64"), float("inf"))),
            sample(value=Dense(TensorType((0, 2), "i32"), 7)),
            sample(value=Dense(TensorType((3,), "u8"), 255)),
            sample(value=Dense(TensorType((2,), "bool"), True)),
            sample(value=Dense(TensorType((3,), "f64"), np.array([0.1, -0.0, 1e-310]))),
            sample(value=Dense(TensorType((2, 2), "bool"), np.array([[True, False], [False, True]]))),
            sample(value=Dense(TensorType((3,), "u8"), np.array([0, 128, 255], np.uint8))),
            sample(value=Dense(TensorType((1,), "bool"), np.array([True]))),
            sample(value=Dense(TensorType((2,), "bf16"), np.array([1.0, -2.5], np.float32))),
            sample(value=Dense(TensorType((130,), "bf16"), np.arange(130, dtype=np.float32))),
            sample(value=Dense(TensorType((2,), "i64"), np.array([-(2**62), 3]))),
        ),
        doc="the value, known when compiled",
    ),
)
