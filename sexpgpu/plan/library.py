"""What a library of NVIDIA's can compute in the stead of a step's kernels, as plain data: one record a kind of graph.

A graph says where its tensors lie and which function of them it is; which library has it is the device's matter.
"""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from sexpgpu.tensortype import TensorType

Ints = tuple[int, ...]


@frozen
class LibraryTensor:
    """A tensor of a library's graph: its part there, and the argument of the step in whose buffer it lies.

    Element (i, j, ...) is `offset + i * strides[0] + j * strides[1] + ...` elements behind the buffer's first.
    """

    role: str
    argument: int
    type: TensorType
    strides: Ints
    offset: int = 0


@frozen
class AttentionGraph:
    """y and lse of q, k and v; `backward`: dq, dk and dv of g, q, k, v, y and lse."""

    tensors: tuple[LibraryTensor, ...]
    scale: float
    causal: bool
    backward: bool


Activation = Literal["none", "relu", "gelu", "gelu_slope"]


@frozen
class ProductGraph:
    """A batch of products, d = f(scale a b + c + bias), rounded once.

    a is [batch, rows, depth], b [batch, depth, columns], d and c [batch, rows, columns], bias [columns]; c and bias
    need not be there. f is the identity, max(x, 0), or gelu in the form with tanh; what this is taken of is written to
    `aux`, like d, where that is there. With `gelu_slope` d is scale a b times the derivative of this gelu at `aux`.
    With `tf32` factors of f32 may be rounded to that.
    """

    tensors: tuple[LibraryTensor, ...]
    scale: float
    activation: Activation
    tf32: bool = False


@frozen
class ConvolutionGraph:
    """y [images, filters, windows...] of x [images, channels, sizes...] and w [filters, channels / groups, kernel...].

    `side` is what is made of the other two: y, the `result`; the cotangent of x, the `operand`, or of w, the `kernel`,
    from that of y. Windows are `stride` apart, their elements `dilation`, over axes padded by `low` and `high`.
    With `tf32` factors of f32 may be rounded to that.
    """

    tensors: tuple[LibraryTensor, ...]
    side: Literal["result", "operand", "kernel"]
    stride: Ints
    low: Ints
    high: Ints
    dilation: Ints
    tf32: bool = False


Library = AttentionGraph | ProductGraph | ConvolutionGraph
"""A graph, for the device to choose between it and the step's kernels."""


def part_of(graph: Library, role: str) -> LibraryTensor | None:
    """The tensor that has a part in a graph; None where no tensor has."""
    return next((each for each in graph.tensors if each.role == role), None)


def pitch(matrix: LibraryTensor, *, turned: bool = False) -> int | None:
    """Elements from one row of the last two axes to the next, or, `turned`, from one column to the next.

    None where the elements of a row do not lie one behind another, or where rows overlap.
    """
    (lines, length), (step, each) = matrix.type.shape[-2:], matrix.strides[-2:]
    if turned:
        lines, length, step, each = length, lines, each, step
    if (length > 1 and each != 1) or (lines > 1 and step < length):
        return None
    return step if lines > 1 else length
