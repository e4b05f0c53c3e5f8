"""What a library of NVIDIA's can compute in the stead of a step's kernels, as plain data: one record a kind of graph.

A graph says where its tensors lie and which function of them it is; which library has it is the device's matter.
"""

from __future__ import annotations

from attrs import frozen

from sexpgpu.tensortype import TensorType


@frozen
class LibraryTensor:
    """A tensor of a library's graph: its part there, and the argument of the step in whose buffer it lies.

    Element (i, j, ...) is `offset + i * strides[0] + j * strides[1] + ...` elements behind the buffer's first.
    """

    role: str
    argument: int
    type: TensorType
    strides: tuple[int, ...]
    offset: int = 0


@frozen
class AttentionGraph:
    """y and lse of q, k and v; `backward`: dq, dk and dv of g, q, k, v, y and lse."""

    tensors: tuple[LibraryTensor, ...]
    scale: float
    causal: bool
    backward: bool


Library = AttentionGraph
"""A graph, for the device to choose between it and the step's kernels."""


def part_of(graph: Library, role: str) -> LibraryTensor | None:
    """The tensor that has a part in a graph; None where no tensor has."""
    return next((each for each in graph.tensors if each.role == role), None)
