"""Indexing: rows by number, elements along an axis, masks of positions."""

from __future__ import annotations

from functools import reduce
from typing import Any

from sexpgpu.diag import error
from sexpgpu.lang.builtin import Library, keyword_arguments, parse_parameters
from sexpgpu.lang.forms import NIL, values
from sexpgpu.tensortype import INTEGERS, TensorType
from sexpgpu.trace.arguments import axis as one_axis
from sexpgpu.trace.arguments import dtype as dtype_argument
from sexpgpu.trace.arguments import integer, name, positive
from sexpgpu.trace.arguments import shape as shape_argument
from sexpgpu.trace.builtins.extremes import extremes
from sexpgpu.trace.builtins.movement import reshape_to, slice_
from sexpgpu.trace.graph import current_graph
from sexpgpu.trace.tensor import GENERIC, Tensor, as_tensor, broadcast_to, pointwise, tensors

library = Library("indexing")


def _indices(what: str, value: Any) -> Tensor:
    tensor = as_tensor(value, what)
    if tensor.type.dtype not in INTEGERS:
        raise error(
            "E-DTYPE-001",
            f"`{what}` needs integer indices",
            expected="i32, i64 or u8",
            actual=str(tensor.type),
            help="(cast i :i32)",
            notes=tensor.provenance(),
        )
    return tensor if tensor.type.dtype != "u8" else tensor.graph.emit("cast", tensor, dtype="i32")


def _along(what: str, x: Tensor, at: int, indices: Any) -> Tensor:
    """Indices along axis `at` of x (E-VALUE-101 where they are constants and one lies outside)."""
    found = _indices(what, indices)
    size = x.type.shape[at]
    _require_within(what, found, size, f"axis {at}", "no index: the axis is empty", x)
    return found


def _require_within(what: str, indices: Tensor, size: int, where: str, none: str, x: Tensor | None = None) -> None:
    """E-VALUE-101 where it is known already that one of the indices is not among `size` places."""
    known = extremes(indices.val.value)
    if known is None or 0 <= known[0] <= known[1] < size:
        return
    negative = known[0] < 0
    raise error(
        "E-VALUE-101",
        f"`{what}`: an index is outside {where}",
        expected=f"0 to {size - 1}" if size else none,
        actual=str(known[0] if negative else known[1]),
        help="a tensor of indices counts from the front: add the size to count from the end" if negative else None,
        notes=x.provenance() if x is not None else indices.provenance(),
    )


@library.builtin("gather", "(x indices &key axis)")
def gather(x: Any, indices: Any, *, axis: Any = 0) -> Tensor:
    """Slices of x by number along `:axis`: the axis becomes the axes of `indices`; a plain integer drops it.

    E-VALUE-101: a plain integer out of range.

    Shapes: [..., n, ...] and indices [i...] -> [..., i..., ...].
    Dtypes: any; indices i32, i64 or u8.
    Errors: E-VALUE-101 an index out of range, at run time too; E-DTYPE-001; E-SHAPE-002.
    Source: NumPy `take`. Derivatives of equal indices add up in their order.
    """
    tensor = as_tensor(x, "gather")
    at = one_axis("gather", axis, tensor.type.rank)
    if isinstance(indices, int):
        size = tensor.type.shape[at]
        if not -size <= indices < size:
            raise error(
                "E-VALUE-101",
                f"`gather`: index {indices} is outside axis {at}",
                expected=f"{-size} to {size - 1}",
                actual=str(tensor.type),
                notes=tensor.provenance(),
            )
        row = slice_(tensor, at, indices % size, indices % size + 1)
        return reshape_to(row, tensor.type.shape[:at] + tensor.type.shape[at + 1 :])
    return tensor.graph.emit("gather", tensor, _along("gather", tensor, at, indices), axis=at)


@library.builtin("embed", "(table indices)")
def embed(table: Any, indices: Any) -> Tensor:
    """Rows of a table [n, d] by number: [..., d].

    Shapes: [n, d...] and [i...] -> [i..., d...].
    Dtypes: any; indices i32, i64 or u8.
    Errors: E-VALUE-101 an index out of range; E-DTYPE-001.
    Source: PyTorch `embedding`.
    """
    tensor = as_tensor(table, "embed")
    one_axis("embed", 0, tensor.type.rank)
    return tensor.graph.emit("gather", tensor, _along("embed", tensor, 0, indices), axis=0)


@library.builtin("take-along-axis", "(x indices axis)")
def take_along_axis(x: Any, indices: Any, axis: Any) -> Tensor:
    """x[..., indices[..., j], ...]: one element of x a place of `indices`; the other axes agree.

    Shapes: indices have the axes of x but along `axis` -> the shape of the indices.
    Dtypes: any; indices i32, i64 or u8.
    Errors: E-SHAPE-015 indices of other axes; E-VALUE-101; E-DTYPE-001; E-SHAPE-002.
    Source: NumPy `take_along_axis`.
    """
    tensor = as_tensor(x, "take-along-axis")
    at = one_axis("take-along-axis", axis, tensor.type.rank)
    return tensor.graph.emit("take_along_axis", tensor, _along("take-along-axis", tensor, at, indices), axis=at)


@library.builtin("scatter-add", "(x indices updates &key axis)")
def scatter_add(x: Any, indices: Any, updates: Any, *, axis: Any = 0) -> Tensor:
    """x with `updates` added at `indices` along `:axis`; repeated indices fold in input order.

    Shapes: x [..., n, ...], indices [i...], updates [..., i..., ...] -> the shape of x.
    Dtypes: numbers, the same for x and updates; indices i32, i64 or u8.
    Errors: E-SHAPE-016 updates that do not fit; E-VALUE-101; E-DTYPE-001, E-DTYPE-002.
    Source: JAX `x.at[i].add(u)`.
    """
    target, added = tensors("scatter-add", x, updates)
    at = one_axis("scatter-add", axis, target.type.rank)
    return target.graph.emit("scatter_add", target, _along("scatter-add", target, at, indices), added, axis=at)


@library.builtin("index-update", "(x indices updates &key axis)")
def index_update(x: Any, indices: Any, updates: Any, *, axis: Any = 0) -> Tensor:
    """x with its slices at `indices` along `:axis` replaced by `updates`; of repeated indices the last one wins.

    Shapes: x [..., n, ...], indices [i...], updates [..., i..., ...] -> the shape of x.
    Dtypes: any, the same for x and updates; indices i32, i64 or u8.
    Errors: E-SHAPE-016 updates that do not fit; E-VALUE-101; E-DTYPE-001, E-DTYPE-002.
    Source: JAX `x.at[i].set(u)`. What is overwritten has no derivative.
    """
    target, written = tensors("index-update", x, updates)
    at = one_axis("index-update", axis, target.type.rank)
    return target.graph.emit("index_update", target, _along("index-update", target, at, indices), written, axis=at)


@library.builtin("top-k", "(x k)", many=True)
def top_k(x: Any, k: Any) -> Any:
    """The k greatest along the last axis in descending order, and their i32 indices; ties go to the lower index.

    Shapes: [..., n] -> two of [..., k].
    Dtypes: numbers -> the same, and i32.
    Errors: E-VALUE-012 more than there are; E-SHAPE-002 a scalar; E-DTYPE-001.
    Source: JAX `lax.top_k`. NaN is greatest.
    """
    tensor = as_tensor(x, "top-k")
    one_axis("top-k", -1, tensor.type.rank)
    count, size = integer("top-k", k, "k"), tensor.type.shape[-1]
    if not 0 <= count <= size:
        raise error(
            "E-VALUE-012",
            f"`top-k`: k is {count}, and the last axis has {size} elements",
            expected=f"0 <= k <= {size}",
            actual=str(tensor.type),
            notes=tensor.provenance(),
        )
    return values(*tensor.graph.emit_several("top_k", tensor, k=count))


_SORT = parse_parameters("(x &key axis)")


def sort(x: Any, *options: Any) -> Tensor:
    """`(sort x :axis a)`: see `meanings`."""
    tensor = as_tensor(x, "sort")
    axis = keyword_arguments("sort", _SORT, options).get("axis", -1)
    return tensor.graph.emit("sort", tensor, axis=one_axis("sort", axis, tensor.type.rank))


GENERIC["sort"] = GENERIC["stable-sort"] = sort


@library.builtin("%labels", "(what labels)")
def labels(what: Any, given: Any) -> Tensor:
    """Class numbers as indices (E-DTYPE-001 for what is no integer)."""
    return _indices(name("a loss", what), given)


@library.builtin("one-hot", "(indices n &key dtype)")
def one_hot(indices: Any, n: Any, *, dtype: Any = NIL) -> Tensor:
    """A new last axis of size n: 1 at the index, 0 elsewhere.

    Shapes: [i...] -> [i..., n]; an index out of range gives zeros where only the run knows it.
    Dtypes: indices i32, i64 or u8 -> the run's float, or `:dtype`.
    Errors: E-VALUE-101 a constant out of range; E-SHAPE-005 a negative n; E-DTYPE-001, E-DTYPE-003; E-ARG-010.
    Source: JAX `one_hot`.
    """
    tensor = _indices("one-hot", indices)
    (count,) = shape_argument("one-hot", integer("one-hot", n, "n"))
    _require_within("one-hot", tensor, count, f"{count} places", "no index: there are no places")
    target = dtype_argument("one-hot", "float" if dtype is NIL else dtype, tensor.graph.float_type)
    shape = (*tensor.type.shape, count)
    column = broadcast_to(reshape_to(tensor, (*tensor.type.shape, 1)), shape)
    places = positions(tensor.graph, shape, len(shape) - 1, tensor.type.dtype)
    hit = pointwise("eq", "one-hot", column, places)
    return hit.graph.emit("cast", hit, dtype=target)


def positions(graph: Any, shape: tuple[int, ...], axis: int, dtype: str = "i32") -> Tensor:
    """A tensor that holds the position along `axis` at every place."""
    found: Tensor = graph.emit("iota", shape=shape, axis=axis, dtype=dtype)
    return found


@library.builtin("causal-mask", "(n)")
def causal_mask(n: Any) -> Tensor:
    """bool [n, n]: true where the column is not after the row.

    Shapes: n -> [n, n].
    Dtypes: bool.
    Errors: E-ARG-010; E-SHAPE-005.
    Source: Vaswani et al., "Attention is all you need" (2017), section 3.2.3.
    """
    (size,) = shape_argument("causal-mask", integer("causal-mask", n, "the size"))
    graph = current_graph("causal-mask")
    return pointwise("ge", "causal-mask", positions(graph, (size, size), 0), positions(graph, (size, size), 1))


@library.builtin("%attention-mask", "(queries keys causal window)")
def attention_mask(queries: Any, keys: Any, causal: Any, window: Any) -> Tensor:
    """bool [queries, keys]: which positions each position sees; the last query stands at the last key.

    With `causal` none behind it, with a `window` none that is `window` or more away.
    """
    rows, columns = integer("attend", queries, "the queries"), integer("attend", keys, "the keys")
    if rows > columns:  # the first queries would stand before the first key and see nothing
        raise error(
            "E-SHAPE-046",
            "`attend`: with :causal or :window the last query stands at the last key, and there are more queries",
            expected=f"{columns} queries at most, as there are keys",
            actual=f"{rows}",
        )
    graph = current_graph("attend")
    shape = (rows, columns)
    here, there = _moved(positions(graph, shape, 0), columns - rows), positions(graph, shape, 1)
    seen = [pointwise("ge", "attend", here, there)] if causal is not NIL else []
    if window is not NIL:
        reach = min(positive("attend", window, ":window"), columns)
        seen.append(pointwise("gt", "attend", there, _moved(here, -reach)))
        if causal is NIL:
            seen.append(pointwise("lt", "attend", there, _moved(here, reach)))
    return reduce(lambda a, b: pointwise("logical_and", "attend", a, b), seen)


def _moved(places: Tensor, by: int) -> Tensor:
    return pointwise("add", "attend", places, by) if by else places


@library.builtin("%require-attention", "(q k v)")
def require_attention(q: Any, k: Any, v: Any) -> Any:
    """nil; E-SHAPE-046 unless q, k and v are [batch, heads, time, dim] of which attention can be taken."""
    a, b, c = tensors("attend", q, k, v)
    fits = (
        all(t.type.rank == 4 for t in (a, b, c))
        and a.type.shape[0] == b.type.shape[0] == c.type.shape[0]
        and b.type.shape[1:3] == c.type.shape[1:3]
        and a.type.shape[3] == b.type.shape[3]
        and b.type.shape[1] > 0
        and a.type.shape[1] % b.type.shape[1] == 0
    )
    if not fits:
        raise error(
            "E-SHAPE-046",
            "`attend`: queries, keys and values do not fit",
            expected="q [batch, heads, time, dim], k and v [batch, kv-heads, keys, ...], heads a multiple of kv-heads",
            actual=" and ".join(map(str, (a.type, b.type, c.type))),
            notes=[note for t in (a, b, c) for note in t.provenance()],
        )
    return NIL


def _triangle(what: str, x: Any, k: Any, op: str) -> Tensor:
    tensor = as_tensor(x, what)
    if tensor.type.rank < 2:
        raise error("E-SHAPE-021", f"`{what}` needs a matrix", expected="rank 2 or more", actual=str(tensor.type))
    rows, columns = tensor.type.shape[-2:]
    shifted = pointwise("add", what, positions(tensor.graph, (rows, columns), 0), integer(what, k, "k"))
    keep = pointwise(op, what, shifted, positions(tensor.graph, (rows, columns), 1))
    zero = tensor.graph.constant(0, TensorType((), tensor.type.dtype))
    shape = tensor.type.shape
    return tensor.graph.emit("where", broadcast_to(keep, shape), tensor, broadcast_to(zero, shape))


@library.builtin("tril", "(x &optional k)")
def tril(x: Any, k: Any = 0) -> Tensor:
    """x at and below diagonal k of its last two axes, 0 above.

    Shapes: [..., m, n] -> the same.
    Dtypes: any.
    Errors: E-SHAPE-021 fewer than two axes; E-ARG-010.
    Source: NumPy `tril`.
    """
    return _triangle("tril", x, k, "ge")


@library.builtin("triu", "(x &optional k)")
def triu(x: Any, k: Any = 0) -> Tensor:
    """x at and above diagonal k of its last two axes, 0 below.

    Shapes: [..., m, n] -> the same.
    Dtypes: any.
    Errors: E-SHAPE-021 fewer than two axes; E-ARG-010.
    Source: NumPy `triu`.
    """
    return _triangle("triu", x, k, "le")
