"""Tensor maps: how `cp.async.bulk.tensor` sees a tensor in global memory.

The hardware's 128 bytes are written by its driver and read by nobody else, so the simulated device has an encoding of
its own; `encode_tensor_map` takes what `cuTensorMapEncodeTiled` takes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from attrs import frozen

from sexpgpu.diag import error

MAGIC = 0x5358544D
SIZE = 128
MOST_RANK = 5
SWIZZLES = (0, 32, 64, 128)  # bytes, 0 for none
_LAYOUT = struct.Struct("<IBBBxQ5Q4Q5I")


@frozen
class TensorMap:
    """A tensor, innermost axis first: `shape` in elements, `strides` in bytes from the second axis on, a box."""

    address: int
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of a box."""
        size = self.itemsize
        for n in self.box:
            size *= n
        return size


def encode_tensor_map(
    address: int, itemsize: int, shape: Sequence[int], strides: Sequence[int], box: Sequence[int], swizzle: int = 0
) -> bytes:
    """The 128 bytes that stand for a tensor map. Raises E-SIM-005 for what the hardware's driver would refuse."""
    rank = len(shape)
    wrong = ""
    if not 1 <= rank <= MOST_RANK or len(strides) != rank - 1 or len(box) != rank:
        wrong = f"{rank} axes, {len(strides)} strides, a box of {len(box)}"
    elif swizzle not in SWIZZLES:
        wrong = f"a swizzle of {swizzle} bytes"
    elif itemsize not in (2, 4, 8):
        wrong = f"elements of {itemsize} bytes"
    elif address % 16 or any(s % 16 for s in strides):
        wrong = "an address or a stride that 16 does not divide"
    elif any(not 1 <= n <= 256 for n in box) or box[0] * itemsize % 16:
        wrong = f"a box of {tuple(box)}"
    elif swizzle and box[0] * itemsize > swizzle:
        wrong = f"a box of {box[0] * itemsize} bytes a row under a swizzle of {swizzle}"
    if wrong:
        raise error("E-SIM-005", "this tensor map is not possible", actual=wrong)
    dims = [*shape, *[1] * (MOST_RANK - rank)]
    steps = [*strides, *[0] * (MOST_RANK - 1 - len(strides))]
    boxes = [*box, *[1] * (MOST_RANK - rank)]
    return _LAYOUT.pack(MAGIC, itemsize, rank, SWIZZLES.index(swizzle), address, *dims, *steps, *boxes).ljust(
        SIZE, b"\0"
    )


def decode_tensor_map(data: bytes) -> TensorMap | None:
    """The map that 128 bytes stand for; None where they are none."""
    magic, itemsize, rank, swizzle, address, *rest = _LAYOUT.unpack(data[: _LAYOUT.size])
    if magic != MAGIC:
        return None
    dims, steps, boxes = rest[:5], rest[5:9], rest[9:]
    return TensorMap(
        address, itemsize, tuple(dims[:rank]), tuple(steps[: rank - 1]), tuple(boxes[:rank]), SWIZZLES[swizzle]
    )
