"""Functions that move data: the same elements in another shape or order."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from sexpgpu.diag import error
from sexpgpu.dialects.rules import differing, marked
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.forms import NIL, keyword, lisp_list
from sexpgpu.tensortype import TensorType
from sexpgpu.trace.arguments import axes, integer, integers, items, real
from sexpgpu.trace.arguments import axis as one_axis
from sexpgpu.trace.arguments import shape as shape_argument
from sexpgpu.trace.tensor import GENERIC, Tensor, as_tensor, broadcast_to, require_held, tensors

library = Library("movement")


def reshape_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`x` with another shape of the same size."""
    return x if x.type.shape == shape else x.graph.emit("reshape", x, shape=shape)


@library.builtin("reshape", "(x shape)")
def reshape(x: Any, shape: Any) -> Tensor:
    """The elements in row-major order under another shape; one size may be -1 (E-SHAPE-007 when it cannot fit).

    Shapes: any -> `shape`, of the same size.
    Dtypes: any.
    Errors: E-SHAPE-007 another number of elements; E-ARG-010.
    Source: NumPy `reshape`.
    """
    tensor = as_tensor(x, "reshape")
    sizes = list(integers("reshape", shape, "the shape"))
    known = math.prod(s for s in sizes if s != -1)
    fits = sizes.count(-1) <= 1 and all(s >= -1 for s in sizes)
    if fits and -1 in sizes and known and tensor.type.size % known == 0:
        sizes[sizes.index(-1)] = tensor.type.size // known
    if not fits or -1 in sizes or math.prod(sizes) != tensor.type.size:
        raise error(
            "E-SHAPE-007",
            f"`reshape`: {tensor.type.size} elements do not fill {show(shape)}",
            expected=f"sizes whose product is {tensor.type.size}, with -1 for one of them at most",
            actual=f"{show(shape)} for {tensor.type}",
            notes=tensor.provenance(),
        )
    return reshape_to(tensor, tuple(sizes))


@library.builtin("transpose", "(x &optional permutation)")
def transpose(x: Any, permutation: Any = NIL) -> Tensor:
    """The last two axes swapped, or all axes in the order of `permutation`.

    Shapes: [..., m, n] -> [..., n, m], or axis i of the result is axis permutation[i].
    Dtypes: any.
    Errors: E-SHAPE-021 fewer than two axes; E-SHAPE-008 no permutation; E-SHAPE-002.
    Source: NumPy `transpose`, array API `matrix_transpose`.
    """
    tensor = as_tensor(x, "transpose")
    rank = tensor.type.rank
    if permutation is NIL:
        if rank < 2:
            raise error(
                "E-SHAPE-021",
                "`transpose` swaps the last two axes",
                expected="rank 2 or more",
                actual=str(tensor.type),
                notes=tensor.provenance(),
            )
        order = (*range(rank - 2), rank - 1, rank - 2)
    else:
        order = tuple(one_axis("transpose", a, rank) for a in items("transpose", permutation, "the permutation"))
        if sorted(order) != list(range(rank)):
            raise error(
                "E-SHAPE-008",
                f"`transpose`: {show(permutation)} is no permutation of the axes",
                expected=f"each of 0 to {rank - 1} once",
                actual=str(tensor.type),
            )
    return tensor.graph.emit("transpose", tensor, perm=order)


@library.builtin("broadcast-to", "(x shape)")
def broadcast(x: Any, shape: Any) -> Tensor:
    """x stretched to `shape` by NumPy's rule (E-SHAPE-006 where an axis is neither equal nor 1).

    Shapes: axes counted from the last are equal or 1 -> `shape`.
    Dtypes: any.
    Errors: E-SHAPE-006, E-SHAPE-005.
    Source: NumPy `broadcast_to`.
    """
    return broadcast_to(as_tensor(x, "broadcast-to"), shape_argument("broadcast-to", shape))


@library.builtin("squeeze", "(x axis)")
def squeeze(x: Any, axis: Any) -> Tensor:
    """x without an axis of size 1.

    Shapes: [..., 1, ...] -> without that axis.
    Dtypes: any.
    Errors: E-SHAPE-022 an axis that is not 1; E-SHAPE-002.
    Source: NumPy `squeeze`.
    """
    tensor = as_tensor(x, "squeeze")
    at = one_axis("squeeze", axis, tensor.type.rank)
    shape = tensor.type.shape
    if shape[at] != 1:
        raise error(
            "E-SHAPE-022",
            f"`squeeze`: axis {at} is {shape[at]}, not 1",
            expected="size 1",
            actual=marked(tensor.type, at),
            notes=tensor.provenance(),
        )
    return reshape_to(tensor, shape[:at] + shape[at + 1 :])


@library.builtin("unsqueeze", "(x axis)")
def unsqueeze(x: Any, axis: Any) -> Tensor:
    """x with a new axis of size 1 at `axis` of the result.

    Shapes: any -> with an axis of size 1 more.
    Dtypes: any.
    Errors: E-SHAPE-002.
    Source: array API `expand_dims`.
    """
    tensor = as_tensor(x, "unsqueeze")
    at = one_axis("unsqueeze", axis, tensor.type.rank + 1)
    shape = tensor.type.shape
    return reshape_to(tensor, (*shape[:at], 1, *shape[at:]))


@library.builtin("slice", "(x axis start end &optional step)")
def slice_(x: Any, axis: Any, start: Any, end: Any, step: Any = 1) -> Tensor:
    """Elements start, start + step, ... before end along one axis; negative bounds count from the end, nil is none.

    Shapes: one axis becomes shorter.
    Dtypes: any.
    Errors: E-SHAPE-002; E-VALUE-012 a step below 1; E-ARG-010.
    Source: Python's slices.
    """
    tensor = as_tensor(x, "slice")
    at = one_axis("slice", axis, tensor.type.rank)
    by = integer("slice", step, "the step")
    if by < 1:
        raise error("E-VALUE-012", "`slice`: the step must be positive", actual=str(by), help="(flip x axis) reverses")
    first = None if start is NIL else integer("slice", start, "the start")
    last = None if end is NIL else integer("slice", end, "the end")
    size = tensor.type.shape[at]
    begin, stop, _ = slice(first, last, by).indices(size)
    starts, stops, steps = [0] * tensor.type.rank, list(tensor.type.shape), [1] * tensor.type.rank
    starts[at], stops[at], steps[at] = begin, max(stop, begin), by
    if (begin, stops[at], by) == (0, size, 1):
        return tensor
    return tensor.graph.emit("slice", tensor, start=tuple(starts), stop=tuple(stops), step=tuple(steps))


def concat_tensors(what: str, parts: list[Tensor], at: int) -> Tensor:
    return reduce(lambda x, y: x.graph.emit("concat", x, y, axis=at), parts)


def _require_joinable(what: str, parts: list[Tensor], at: int | None) -> None:
    """E-SHAPE-010 unless the elements of the list have one shape, but for the axis `at`."""
    first = parts[0].type
    where = "in shape" if at is None else f"in another axis than axis {at}, along which they are joined"
    for i, part in enumerate(parts[1:], 2):
        if part.type.rank != first.rank or any(
            a != b and axis != at for axis, (a, b) in enumerate(zip(first.shape, part.type.shape, strict=True))
        ):
            wanted, given = differing(first, part.type, at)
            message = f"`{what}`: element 1 and element {i} of the list differ {where}"
            notes = [*parts[0].provenance(), *part.provenance()]
            raise error(
                "E-SHAPE-010", message, expected=f"element 1: {wanted}", actual=f"element {i}: {given}", notes=notes
            )


def _list_of_tensors(what: str, values: Any) -> list[Tensor]:
    found = items(what, values, "the tensors")
    if not found:
        raise error("E-ARG-012", f"`{what}` needs at least one tensor", actual="an empty list")
    return tensors(what, *found)


@library.builtin("concat", "(list axis)")
def concat(values: Any, axis: Any) -> Tensor:
    """The tensors one after another along `axis`; other sizes must agree (E-SHAPE-010).

    Shapes: sizes agree but along `axis`, where they add up.
    Dtypes: any, the same for all.
    Errors: E-SHAPE-010 other sizes differ; E-SHAPE-002; E-DTYPE-002; E-ARG-012 no tensors.
    Source: NumPy `concatenate`.
    """
    parts = _list_of_tensors("concat", values)
    at = one_axis("concat", axis, parts[0].type.rank)
    _require_joinable("concat", parts, at)
    return concat_tensors("concat", parts, at)


@library.builtin("stack", "(list &optional axis)")
def stack(values: Any, axis: Any = 0) -> Tensor:
    """Tensors of one shape along a new axis.

    Shapes: n of one shape -> an axis of size n more.
    Dtypes: any, the same for all.
    Errors: E-SHAPE-010, E-SHAPE-002, E-DTYPE-002; E-ARG-012 no tensors.
    Source: NumPy `stack`.
    """
    parts = _list_of_tensors("stack", values)
    at = one_axis("stack", axis, parts[0].type.rank + 1)
    _require_joinable("stack", parts, None)
    return concat_tensors("stack", [unsqueeze(p, at) for p in parts], at)


@library.builtin("split", "(x n axis)")
def split(x: Any, n: Any, axis: Any) -> Any:
    """A list of n equal parts along `axis` (E-SHAPE-023 when they would not be equal).

    Shapes: [..., n k, ...] -> n of [..., k, ...].
    Dtypes: any.
    Errors: E-SHAPE-023 parts that are not equal; E-SHAPE-002; E-ARG-010.
    Source: NumPy `split`.
    """
    tensor = as_tensor(x, "split")
    at = one_axis("split", axis, tensor.type.rank)
    count = integer("split", n, "n")
    size = tensor.type.shape[at]
    if count < 1 or size % count:
        raise error(
            "E-SHAPE-023",
            f"`split`: axis {at} of size {size} has no {count} equal parts",
            expected=f"a count that divides {size}",
            actual=f"{count} parts of {marked(tensor.type, at)}",
            notes=tensor.provenance(),
        )
    each = size // count
    return lisp_list([slice_(tensor, at, i * each, (i + 1) * each) for i in range(count)])


@library.builtin("pad", "(x widths &key value)")
def pad(x: Any, widths: Any, *, value: Any = 0) -> Tensor:
    """x with `((before after) ...)` elements of `value` around it, a pair an axis.

    Shapes: each axis grows by before + after.
    Dtypes: any; the value is 0 unless given.
    Errors: E-SHAPE-004 not a pair an axis; E-DTYPE-008 a fraction among integers; E-VALUE-012 a value that the dtype
    does not hold; E-ARG-010.
    Source: NumPy `pad`, constant mode.
    """
    tensor = as_tensor(x, "pad")
    pairs = [integers("pad", p, "a pair of widths") for p in items("pad", widths, "the widths")]
    if len(pairs) != tensor.type.rank or any(len(p) != 2 or min(p) < 0 for p in pairs):
        raise error(
            "E-SHAPE-004",
            f"`pad`: {show(widths)} does not fit {tensor.type}",
            expected="a pair (before after) of counts for each axis",
            actual=f"{len(pairs)} for rank {tensor.type.rank}",
        )
    filler = real("pad", value, ":value")
    if not tensor.type.is_float and not filler.is_integer():
        raise error(
            "E-DTYPE-008", f"`pad`: the :value {filler} has no place in {tensor.type}", expected="a whole number"
        )
    if not tensor.type.is_float:
        require_held("pad", int(filler), int(filler), tensor.type.dtype)
    return tensor.graph.emit(
        "pad", tensor, low=tuple(p[0] for p in pairs), high=tuple(p[1] for p in pairs), value=filler
    )


@library.builtin("flip", "(x axis)")
def flip(x: Any, axis: Any) -> Tensor:
    """x reversed along an axis or a list of axes.

    Shapes: any -> the same.
    Dtypes: any.
    Errors: E-SHAPE-002, E-SHAPE-003.
    Source: NumPy `flip`.
    """
    tensor = as_tensor(x, "flip")
    return tensor.graph.emit("flip", tensor, axes=axes("flip", axis, tensor.type.rank))


def _counts(what: str, counts: tuple[int, ...]) -> tuple[int, ...]:
    if any(n < 0 for n in counts):
        raise error(
            "E-VALUE-012", f"`{what}`: nothing can be repeated a negative number of times", actual=str(min(counts))
        )
    return counts


@library.builtin("repeat-axis", "(x n axis)")
def repeat_axis(x: Any, n: Any, axis: Any) -> Tensor:
    """Each element n times in a row along `axis`.

    Shapes: [..., k, ...] -> [..., n k, ...].
    Dtypes: any.
    Errors: E-SHAPE-002; E-ARG-010; E-VALUE-012 a negative count.
    Source: NumPy `repeat`.
    """
    tensor = as_tensor(x, "repeat-axis")
    at = one_axis("repeat-axis", axis, tensor.type.rank)
    count = _counts("repeat-axis", (integer("repeat-axis", n, "n"),))[0]
    shape = tensor.type.shape
    wide = broadcast_to(unsqueeze(tensor, at + 1), (*shape[: at + 1], count, *shape[at + 1 :]))
    return reshape_to(wide, (*shape[:at], shape[at] * count, *shape[at + 1 :]))


@library.builtin("tile", "(x reps)")
def tile(x: Any, reps: Any) -> Tensor:
    """x repeated as a whole, `reps` times an axis.

    Shapes: each axis grows by its count.
    Dtypes: any.
    Errors: E-SHAPE-004 not a count an axis; E-ARG-010; E-VALUE-012 a negative count.
    Source: NumPy `tile`.
    """
    tensor = as_tensor(x, "tile")
    counts = _counts("tile", integers("tile", reps, "reps"))
    if len(counts) != tensor.type.rank:
        raise error("E-SHAPE-004", "`tile` needs a count for each axis", actual=f"{show(reps)} for {tensor.type}")
    for at, count in enumerate(counts):
        shape = tensor.type.shape
        wide = broadcast_to(unsqueeze(tensor, at), (*shape[:at], count, *shape[at:]))
        tensor = reshape_to(wide, (*shape[:at], shape[at] * count, *shape[at + 1 :]))
    return tensor


@library.builtin("dim", "(x axis)")
def dim(x: Any, axis: Any) -> int:
    """The size of one axis, an ordinary integer.

    Shapes: any.
    Dtypes: any.
    Errors: E-SHAPE-002.
    Source: array API `shape`. It is known when traced.
    """
    kind = _type(x, "dim")
    return kind.shape[one_axis("dim", axis, kind.rank)]


@library.builtin("shape", "(x)")
def shape(x: Any) -> Any:
    """The sizes as an ordinary list.

    Shapes: any.
    Dtypes: any.
    Errors: E-TYPE-011 what is no tensor.
    Source: array API `shape`. It is known when traced.
    """
    return lisp_list(list(_type(x, "shape").shape))


@library.builtin("rank", "(x)")
def rank(x: Any) -> int:
    """The number of axes, an ordinary integer.

    Shapes: any.
    Dtypes: any.
    Errors: E-TYPE-011 what is no tensor.
    Source: array API `ndim`. It is known when traced.
    """
    return _type(x, "rank").rank


@library.builtin("size", "(x)")
def size(x: Any) -> int:
    """The number of elements, an ordinary integer.

    Shapes: any.
    Dtypes: any.
    Errors: E-TYPE-011 what is no tensor.
    Source: array API `size`. It is known when traced.
    """
    return _type(x, "size").size


@library.builtin("dtype", "(x)")
def dtype_of(x: Any) -> Any:
    """The dtype as a keyword: :f32, :i32.

    Shapes: any.
    Dtypes: any.
    Errors: E-TYPE-011 what is no tensor.
    Source: array API `dtype`. It is known when traced.
    """
    return keyword(_type(x, "dtype").dtype)


def _type(x: Any, what: str) -> TensorType:
    from sexpgpu.trace.tensor import TensorLike

    return x.type if isinstance(x, TensorLike) else as_tensor(x, what).type


GENERIC["reverse"] = lambda x: flip(x, 0)
GENERIC["length"] = lambda x: dim(x, 0)
