"""What processes tell each other of a step: a header of numbers, then arrays as they lie in memory.

Gradients may travel as bf16: half the bytes. What rounding takes from one step's gradient is added to the next one's,
so that nothing is lost for good (error feedback: Seide et al., Interspeech 2014).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from attrs import define, evolve, field, frozen

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.runtime.engine import Array

Kind = Literal["sum", "grad", "average", "row", "kept"]
_NOTHING: Mapping[str, Any] = {"values": {}, "weights": {}, "counted": {}, "counts": {}}


@frozen(eq=False)
class Sent:
    """An array of one process: of a sum the part that begins at microbatch `first` and has `leaves` of them.

    `narrow` says that its values are those of bf16 and travel as such.
    """

    kind: Kind
    name: str
    first: int
    leaves: int
    array: Array
    narrow: bool = False


@frozen(eq=False)
class Message:
    """What one process found: the losses of its microbatches, its metrics and counters as numbers, its arrays."""

    losses: Sequence[float] = ()
    collected: Mapping[str, Any] = field(factory=lambda: _NOTHING)
    arrays: tuple[Sent, ...] = ()


def pack(message: Message) -> bytes:
    """The message as bytes: the length of the header in eight, the header as JSON, the arrays."""
    heads, bodies = [], []
    for each in message.arrays:
        body = _narrow(each.array) if each.narrow else np.ascontiguousarray(each.array)
        heads.append(
            [each.kind, each.name, each.first, each.leaves, list(each.array.shape), body.dtype.str, each.narrow]
        )
        bodies.append(body.tobytes())
    header = json.dumps([list(message.losses), dict(message.collected), heads]).encode()
    return b"".join([len(header).to_bytes(8, "little"), header, *bodies])


def unpack(data: bytes) -> Message:
    """The message that `pack` made these bytes of."""
    end = 8 + int.from_bytes(data[:8], "little")
    losses, collected, heads = json.loads(data[8:end])
    found = []
    for kind, name, first, leaves, shape, dtype, narrow in heads:
        count = int(np.prod(shape, dtype=np.int64))
        stored = np.frombuffer(data, dtype, count, end)
        end += stored.nbytes
        array = (_widen(stored) if narrow else stored).reshape(shape)
        found.append(Sent(kind, name, first, leaves, array, narrow))
    return Message(losses, collected, tuple(found))


def _narrow(array: Array) -> Array:
    bits: Array = np.ascontiguousarray(array).view(np.uint32)
    return (bits >> np.uint32(16)).astype("<u2")


def _widen(stored: Array) -> Array:
    return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)


@define
class Narrowed:
    """Rounds f32 gradients to bf16 where they are to travel so, and keeps what that lost until the next step."""

    active: bool
    errors: dict[tuple[str, int], Array] = field(factory=dict)
    _fresh: dict[tuple[str, int], Array] = field(factory=dict, init=False)

    def narrow(self, sent: Sent) -> Sent:
        """The gradient with what it lost before, rounded."""
        if not self.active or sent.array.dtype != np.float32:
            return sent
        key = (sent.name, sent.first)
        whole = sent.array + self.errors[key] if key in self.errors else sent.array
        rounded = round_bf16(whole)
        self._fresh[key] = np.subtract(whole, rounded)
        return evolve(sent, array=rounded, narrow=True)

    def commit(self) -> None:
        """The step counts: what it lost is for the next one. A step that is refused leaves what was there."""
        self.errors |= self._fresh
        self._fresh = {}
