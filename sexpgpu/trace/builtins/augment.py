"""Random changes of records: each record of a batch draws its own, in every graph that calls them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sexpgpu.diag import error
from sexpgpu.lang.builtin import Library, show
from sexpgpu.tensortype import TensorType
from sexpgpu.trace.arguments import integers
from sexpgpu.trace.builtins.create import integer_tensor, uniform_tensor
from sexpgpu.trace.builtins.index import positions
from sexpgpu.trace.builtins.movement import reshape_to, slice_
from sexpgpu.trace.tensor import Tensor, as_tensor, broadcast_to, pointwise

library = Library("augmentation")


def _records(what: str, x: Any, axes: int) -> Tensor:
    """`x` as a batch whose records have at least `axes` axes."""
    tensor = as_tensor(x, what)
    if tensor.type.rank <= axes:
        raise error(
            "E-SHAPE-021",
            f"`{what}` changes the last {axes} axes of each record",
            expected=f"rank {axes + 1} or more: a batch of records",
            actual=str(tensor.type),
            notes=tensor.provenance(),
        )
    return tensor


def _cut(what: str, x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """From each record a piece of `sizes` of its last axes, all its places equally likely."""
    rows, first = x.type.shape[0], x.type.rank - len(sizes)
    choices = [n - size + 1 for n, size in zip(x.type.shape[first:], sizes, strict=True)]
    bounds = x.graph.constant(np.array(choices, np.float64), TensorType((len(choices),), "f64"))
    starts = integer_tensor(x.graph, (rows, len(choices)), bounds)
    for number, size in enumerate(sizes):
        axis = first + number
        shape = (*x.type.shape[:axis], size, *x.type.shape[axis + 1 :])
        start = reshape_to(slice_(starts, 1, number, number + 1), (rows, *(1,) * (len(shape) - 1)))
        line = reshape_to(positions(x.graph, (size,), 0), (size, *(1,) * (len(shape) - axis - 1)))
        places = broadcast_to(pointwise("add", what, start, line), shape)
        x = x.graph.emit("take_along_axis", x, places, axis=axis)
    return x


@library.builtin("random-shift", "(x n)")
def random_shift(x: Any, n: Any) -> Tensor:
    """Each record moved by -n ... n along its last two axes, zeros coming in; a list gives an n for each last axis.

    Shapes: [records, ..., height, width] -> the same.
    Dtypes: numbers and bool.
    Errors: E-SHAPE-021 too few axes; E-VALUE-012 a negative shift; E-ARG-010.
    Source: a crop of the padded record (He et al., "Deep residual learning", 2016, section 4.2).
    """
    counts = integers("random-shift", n, "the shift")
    counts = counts * 2 if type(n) is int else counts
    tensor = _records("random-shift", x, len(counts))
    if any(count < 0 for count in counts):
        raise error("E-VALUE-012", "`random-shift`: the shift cannot be negative", actual=show(n))
    around = (0,) * (tensor.type.rank - len(counts)) + counts
    wide = tensor.graph.emit("pad", tensor, low=around, high=around, value=0)
    return _cut("random-shift", wide, tensor.type.shape[tensor.type.rank - len(counts) :])


@library.builtin("random-crop", "(x sizes)")
def random_crop(x: Any, sizes: Any) -> Tensor:
    """From each record a piece of the given sizes of its last axes, `'(height width)`, anywhere within.

    Shapes: [records, ..., height, width] -> [records, ..., h, w].
    Dtypes: any.
    Errors: E-SHAPE-021 too few axes; E-VALUE-012 a piece that does not fit; E-ARG-010.
    Source: Krizhevsky et al., "ImageNet classification" (2012), section 4.1.
    """
    wanted = integers("random-crop", sizes, "the sizes")
    tensor = _records("random-crop", x, len(wanted))
    there = tensor.type.shape[tensor.type.rank - len(wanted) :]
    if any(not 0 < size <= n for size, n in zip(wanted, there, strict=True)):
        raise error(
            "E-VALUE-012",
            f"`random-crop`: a piece of {show(sizes)} does not fit",
            expected=f"sizes from 1 to {list(there)}",
            actual=str(tensor.type),
            notes=tensor.provenance(),
        )
    return _cut("random-crop", tensor, wanted)


@library.builtin("random-flip", "(x)")
def random_flip(x: Any) -> Tensor:
    """Each record reversed along its last axis, or as it is: one chance in two.

    Shapes: [records, ..., width] -> the same.
    Dtypes: any.
    Errors: E-SHAPE-021 too few axes.
    Source: Krizhevsky et al., "ImageNet classification" (2012), section 4.1.
    """
    tensor = _records("random-flip", x, 1)
    shape = tensor.type.shape
    heads = pointwise("lt", "random-flip", uniform_tensor(tensor.graph, shape[:1], "f32"), 0.5)
    turned = tensor.graph.emit("flip", tensor, axes=(len(shape) - 1,))
    chosen = broadcast_to(reshape_to(heads, (shape[0], *(1,) * (len(shape) - 1))), shape)
    return tensor.graph.emit("where", chosen, turned, tensor)
