"""Tensor maps: how the bulk copies of a kernel see a tensor, as a driver encodes it for the hardware."""

from __future__ import annotations

from attrs import frozen

WORDS = 16
"""64-bit words of an encoded map; it is a parameter of the kernel that is passed by value."""
ALIGNMENT = 64
"""Bytes that the address of an encoded map is a multiple of (CUDA Driver API, `CUtensorMap`)."""


@frozen
class TensorMap:
    """A tensor of bf16 in argument `argument` of a launch, `offset` bytes behind its first.

    Innermost axis first: `shape` in elements, `strides` in bytes from the second axis on, each a multiple of the one
    before. A copy brings a `box` of elements to shared memory, with zeros for those outside the tensor, and exchanges
    chunks of 16 bytes there within each `swizzle` bytes by the number of the row (PTX ISA, "Swizzling modes").
    """

    argument: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
