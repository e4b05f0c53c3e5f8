"""Functions that make tensors: filled, counted, from ordinary numbers, and random.

Float ones are of the run's float type unless `:dtype` says otherwise. Random numbers are pure functions of
(seed, stream, site) and the loop's counters (microbatch, step, trip): see `language` in the documentation.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from sexpgpu.data.source import Arange
from sexpgpu.diag import error
from sexpgpu.dialects.opdef import numpy_dtype
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.forms import NIL, Cons
from sexpgpu.lang.session import current_span
from sexpgpu.philox import key_of
from sexpgpu.tensortype import INTEGERS, DType, TensorType
from sexpgpu.trace.arguments import dtype as dtype_argument
from sexpgpu.trace.arguments import integer, real
from sexpgpu.trace.arguments import shape as shape_argument
from sexpgpu.trace.declarations import SourceValue
from sexpgpu.trace.graph import GraphTrace, active_graph, current_graph
from sexpgpu.trace.tensor import (
    Tensor,
    TensorLike,
    as_tensor,
    broadcast_to,
    float_tensor,
    number,
    pointwise,
    require_held,
)

library = Library("creation")


def _filled(what: str, shape: Any, value: Any, dtype: Any) -> Tensor:
    graph = current_graph(what)
    target = dtype_argument(what, "float" if dtype is NIL else dtype, graph.float_type)
    sizes = shape_argument(what, shape)
    if isinstance(value, TensorLike):
        given = as_tensor(value, what)
        given = given if given.type.dtype == target else graph.emit("cast", given, dtype=target)
        return broadcast_to(given, sizes)
    return broadcast_to(number(graph, value, TensorType((), target), what), sizes)


@library.builtin("%infinity", "()")
def infinity() -> float:
    """The value of `infinity`, which the reader has no spelling for."""
    return math.inf


@library.builtin("zeros", "(shape &key dtype)")
def zeros(shape: Any, *, dtype: Any = NIL) -> Tensor:
    """A tensor of zeros.

    Shapes: a list of sizes, or one size -> that shape.
    Dtypes: the run's float, or `:dtype`.
    Errors: E-SHAPE-005 a negative size; E-DTYPE-003 no such dtype; E-FLOW-003 outside a graph.
    Source: NumPy `zeros`.
    """
    return _filled("zeros", shape, 0, dtype)


@library.builtin("ones", "(shape &key dtype)")
def ones(shape: Any, *, dtype: Any = NIL) -> Tensor:
    """A tensor of ones.

    Shapes: a list of sizes, or one size -> that shape.
    Dtypes: the run's float, or `:dtype`.
    Errors: E-SHAPE-005 a negative size; E-DTYPE-003 no such dtype; E-FLOW-003 outside a graph.
    Source: NumPy `ones`.
    """
    return _filled("ones", shape, 1, dtype)


@library.builtin("full", "(shape value &key dtype)")
def full(shape: Any, value: Any, *, dtype: Any = NIL) -> Tensor:
    """A tensor of one number, or of a scalar tensor.

    Shapes: a list of sizes, or one size -> that shape.
    Dtypes: the run's float, or `:dtype`.
    Errors: E-SHAPE-005 a negative size; E-DTYPE-003 no such dtype; E-FLOW-003 outside a graph. E-DTYPE-008 a
    fraction for an integer dtype.
    Source: NumPy `full`.
    """
    return _filled("full", shape, value, dtype)


@library.builtin("arange", "(start &optional stop step)")
def arange(start: Any, stop: Any = NIL, step: Any = 1) -> Tensor | SourceValue:
    """i32 numbers start, start + step, ... before stop; one argument counts from 0 to it.

    Outside of every traced function `(arange n)` is a source: record k is the number k.

    Shapes: -> [ceiling((stop - start) / step)], none where that is negative.
    Dtypes: i32.
    Errors: E-ARG-010 what is no integer; E-VALUE-012 a step of 0.
    Source: NumPy `arange`.
    """
    if active_graph() is None and stop is NIL:
        return SourceValue(Arange(integer("arange", start, "the count")), current_span())
    low, high = (0, start) if stop is NIL else (start, stop)
    first, last, by = (
        integer("arange", low, "start"),
        integer("arange", high, "stop"),
        integer("arange", step, "step"),
    )
    if by == 0:
        raise error("E-VALUE-012", "`arange`: the step cannot be 0")
    count = max(0, math.ceil((last - first) / by))
    places = current_graph("arange").emit("iota", shape=(count,), axis=0, dtype="i32")
    return pointwise("add", "arange", pointwise("mul", "arange", places, by), first)


@library.builtin("eye", "(n &key dtype)")
def eye(n: Any, *, dtype: Any = NIL) -> Tensor:
    """The identity matrix [n, n].

    Shapes: n -> [n, n].
    Dtypes: the run's float, or `:dtype`.
    Errors: E-ARG-010 what is no integer; E-SHAPE-005, E-DTYPE-003.
    Source: NumPy `eye`.
    """
    (size,) = shape_argument("eye", integer("eye", n, "the size"))
    graph = current_graph("eye")
    places = [graph.emit("iota", shape=(size, size), axis=a, dtype="i32") for a in (0, 1)]
    target = dtype_argument("eye", "float" if dtype is NIL else dtype, graph.float_type)
    return graph.emit("cast", pointwise("eq", "eye", *places), dtype=target)


@library.builtin("constant", "(data &key dtype)")
def constant(data: Any, *, dtype: Any = NIL) -> Tensor:
    """A number, or (nested) lists of numbers of a regular shape: floats of the run's type, integers i32.

    E-VALUE-014 when the lists are ragged or hold something else.

    Shapes: a number -> []; lists nested to a regular array -> its shape.
    Dtypes: the run's float where a float or ratio occurs, else i32; or `:dtype`.
    Errors: E-VALUE-014 ragged lists, or what is no number; E-VALUE-012 numbers that the dtype does not hold;
    E-DTYPE-008, E-DTYPE-003.
    Source: NumPy `asarray`.
    """
    graph = current_graph("constant")
    nested = _numbers(data)
    try:
        array = np.asarray(nested, dtype=np.float64)
    except ValueError:
        raise error("E-VALUE-014", "`constant`: the lists are not a regular array", actual=show(data)) from None
    default: DType = "i32" if _whole(nested) else graph.float_type
    target = default if dtype is NIL else dtype_argument("constant", dtype, graph.float_type)
    if target in INTEGERS and array.size:
        if (array != np.floor(array)).any():
            raise error(
                "E-DTYPE-008", f"`constant`: there are fractions, which {target} does not hold", actual=show(data)
            )
        require_held("constant", int(array.min()), int(array.max()), target)
        array = np.asarray(nested, dtype=np.int64) if _whole(nested) else array  # beyond 2^53, too
    with np.errstate(over="ignore"):
        held = array.astype(numpy_dtype(target))
    if target not in INTEGERS and (np.isinf(held) & np.isfinite(array)).any():
        greatest = float(np.abs(array[np.isfinite(array)]).max())
        raise error(
            "E-VALUE-012",
            f"`constant`: a number is too great for {target}",
            expected=f"at most {float(np.finfo(numpy_dtype(target)).max):.4g}",
            actual=f"{greatest:.4g}",
        )
    return graph.constant(held, TensorType(array.shape, target))


def _numbers(data: Any) -> Any:
    if isinstance(data, int | float):
        return data
    if isinstance(data, Fraction):
        return float(data)
    if isinstance(data, Cons | list):
        return [_numbers(item) for item in data]
    raise error("E-VALUE-014", "`constant` takes numbers and lists of numbers", actual=show(data))


def _whole(nested: Any) -> bool:
    return all(map(_whole, nested)) if isinstance(nested, list) else isinstance(nested, int)


def uniform_tensor(graph: GraphTrace, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Uniform numbers in [0, 1) from the next site of the graph's stream."""
    low, high = key_of(graph.seed, graph.stream, graph.site())
    return graph.emit("random_uniform", graph.random_counter(), key=high << 32 | low, shape=shape, dtype=dtype)


def normal_tensor(graph: GraphTrace, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Standard normal numbers: sqrt(-2 ln(1 - u)) cos(2 pi v) of two uniforms (Box & Muller 1958)."""
    u, v = uniform_tensor(graph, shape, dtype), uniform_tensor(graph, shape, dtype)
    radius = pointwise("sqrt", "random-normal", pointwise("mul", "random-normal", _log_complement(u), -2.0))
    angle = pointwise("mul", "random-normal", v, 2.0 * math.pi)
    return pointwise("mul", "random-normal", radius, pointwise("cos", "random-normal", angle))


def _log_complement(u: Tensor) -> Tensor:
    return pointwise("log1p", "random-normal", pointwise("neg", "random-normal", u))


def _float_dtype(what: str, dtype: Any, graph: GraphTrace) -> DType:
    """The run's float type, or the float that the keyword names (E-DTYPE-001 for another)."""
    target = dtype_argument(what, "float" if dtype is NIL else dtype, graph.float_type)
    if target in INTEGERS or target == "bool":
        raise error(
            "E-DTYPE-001",
            f"`{what}` draws floats",
            expected=":f32, :f64, :bf16 or :float",
            actual=f":{target}",
            help="(random-integer shape n) draws whole numbers",
        )
    return target


@library.builtin("random-uniform", "(shape &key low high dtype)")
def random_uniform(shape: Any, *, low: Any = 0.0, high: Any = 1.0, dtype: Any = NIL) -> Tensor:
    """Uniform numbers in [low, high).

    Shapes: a list of sizes, or one size -> that shape.
    Dtypes: the run's float, or `:dtype`, a float.
    Errors: E-SHAPE-005 a negative size; E-DTYPE-003 no such dtype; E-FLOW-003 outside a graph. E-ARG-010 a bound
    that is no number; E-DTYPE-001 no float; E-VALUE-012 bounds in the other order.
    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011): Philox4x32-10.
    """
    graph = current_graph("random-uniform")
    target = _float_dtype("random-uniform", dtype, graph)
    a, b = real("random-uniform", low, ":low"), real("random-uniform", high, ":high")
    if not a <= b:
        raise error("E-VALUE-012", "`random-uniform`: :low is above :high", expected=f"low <= {b}", actual=str(a))
    u = uniform_tensor(graph, shape_argument("random-uniform", shape), target)
    if (a, b) == (0.0, 1.0):
        return u
    return pointwise("add", "random-uniform", pointwise("mul", "random-uniform", u, b - a), a)


@library.builtin("random-normal", "(shape &key dtype)")
def random_normal(shape: Any, *, dtype: Any = NIL) -> Tensor:
    """Normal numbers of mean 0 and deviation 1.

    Shapes: a list of sizes, or one size -> that shape.
    Dtypes: the run's float, or `:dtype`, a float.
    Errors: E-SHAPE-005 a negative size; E-DTYPE-003 no such dtype; E-FLOW-003 outside a graph; E-DTYPE-001 no float.
    Source: Box & Muller, "A note on the generation of random normal deviates" (1958), of two uniforms.
    """
    graph = current_graph("random-normal")
    target = _float_dtype("random-normal", dtype, graph)
    return normal_tensor(graph, shape_argument("random-normal", shape), target)


@library.builtin("random-integer", "(shape n)")
def random_integer(shape: Any, n: Any) -> Tensor:
    """i32 numbers in 0 ... n - 1 (n at most 2^24), equally likely up to 2^-29.

    Shapes: a list of sizes, or one size -> that shape.
    Dtypes: i32.
    Errors: E-VALUE-012 a bound outside 1 to 2^24; E-SHAPE-005.
    Source: floor(n u) of an f64 uniform u.
    """
    count = integer("random-integer", n, "the bound")
    if not 0 < count <= 1 << 24:
        raise error("E-VALUE-012", "`random-integer`: the bound must be in 1 to 16777216", actual=str(count))
    return integer_tensor(current_graph("random-integer"), shape_argument("random-integer", shape), count)


def integer_tensor(graph: GraphTrace, shape: tuple[int, ...], bound: Any) -> Tensor:
    """i32 numbers in 0 ... bound - 1 from the next site; `bound` is a number or a tensor that broadcasts to `shape`."""
    u = uniform_tensor(graph, shape, "f64")  # in f32 the product could round up to the bound
    return graph.emit("cast", pointwise("mul", "random-integer", u, bound), dtype="i32")


@library.builtin("dropout", "(x p)")
def dropout(x: Any, p: Any) -> Tensor:
    """While training, each element is 0 with probability p, else divided by 1 - p; otherwise x itself.

    Shapes: any -> the same.
    Dtypes: floats.
    Errors: E-VALUE-015 no probability; E-DTYPE-001.
    Source: Srivastava et al., "Dropout" (2014), scaled while training as PyTorch does.
    """
    tensor = float_tensor("dropout", x)
    rate = real("dropout", p, "p")
    if not 0 <= rate < 1:
        raise error("E-VALUE-015", "`dropout`: p, a probability, must be in [0, 1)", actual=str(rate))
    graph = tensor.graph
    if rate == 0 or not graph.training:
        return tensor
    keep = pointwise("ge", "dropout", uniform_tensor(graph, tensor.type.shape, "f32"), rate)
    scaled = pointwise("div", "dropout", tensor, 1.0 - rate)
    zero = broadcast_to(number(graph, 0, TensorType((), tensor.type.dtype), "dropout"), tensor.type.shape)
    return graph.emit("where", keep, scaled, zero)
