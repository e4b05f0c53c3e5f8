"""What machines tell each other of a step: losses, metrics and counters as numbers, arrays as they lie in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from attrs import frozen

from sexpgpu.runtime.engine import Array
from sexpgpu.runtime.peers import Told

Purpose = Literal["total", "gradient", "average", "row", "kept", "error"]
_ALIGNMENT = 64


@frozen(eq=False)
class Sent:
    """An array: of a sum the part that begins at microbatch `first` and has `leaves` of them; row `first` of a buffer;
    what rounding has taken on rank `first`.

    `narrow`: it holds the upper halves of f32 values whose lower halves are zero, u16.
    """

    purpose: Purpose
    name: str
    first: int
    leaves: int
    array: Array
    narrow: bool = False

    @property
    def values(self) -> Array:
        if not self.narrow:
            return self.array
        return (self.array.astype(np.uint32) << np.uint32(16)).view(np.float32)


@frozen(eq=False)
class Message:
    """What one machine found, or all of them: the losses of microbatches in order, what each machine collected."""

    losses: Sequence[float] = ()
    collected: Sequence[Mapping[str, Any]] = ()
    arrays: Sequence[Sent] = ()


def pack(message: Message) -> Told:
    """The message as a header and buffers, each array from a multiple of 64 bytes on."""
    heads, buffers = [], []
    for each in message.arrays:
        array = np.ascontiguousarray(each.array)
        heads.append(
            [each.purpose, each.name, each.first, each.leaves, list(each.array.shape), array.dtype.str, each.narrow]
        )
        buffers.append(array.reshape(-1).view(np.uint8).data)
        buffers.append(memoryview(bytes(-array.nbytes % _ALIGNMENT)))
    header = {"losses": list(message.losses), "collected": list(message.collected), "arrays": heads}
    return Told(header, buffers)


def unpack(told: Told) -> Message:
    """The message that `pack` made this of, where it has arrived with its buffers as one."""
    (data,) = told.buffers
    arrays = []
    start = 0
    for purpose, name, first, leaves, shape, dtype, narrow in told.header["arrays"]:
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(data, dtype, count, start).reshape(shape) if count else np.zeros(shape, dtype)
        arrays.append(Sent(purpose, name, first, leaves, array, narrow))
        start += array.nbytes + -array.nbytes % _ALIGNMENT
    return Message(told.header["losses"], told.header["collected"], arrays)
