"""Several threads to an element of a loop's states: each takes a stretch of the turns.

A thread sums up what the turns of its stretch make of any states that come in; the threads of a block put these
together through shared memory, in as many rounds as the number of stretches has binary digits (Hillis and Steele, Data
parallel algorithms, 1986); then each runs its turns from the states that come in there. The order is always the same,
and so is every bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from sexpgpu.passes.gpu.kernel import WARP, Index, Kernel, Reg
from sexpgpu.passes.gpu.lines import MULTIPROCESSORS
from sexpgpu.passes.gpu.scalar import MEMORY, loaded, stored
from sexpgpu.passes.gpu.turns import LONG, Recurrence, Turns

if TYPE_CHECKING:
    from sexpgpu.passes.gpu.associative import Summaries

_FULL = 2 * MULTIPROCESSORS * 256
"""Threads from which on more are of no use."""
_MOST = 512
"""Threads of a block, of which each can have 128 registers."""
_SHORTEST = 4
"""Turns of a stretch."""
_SHARED = 48 << 10


@frozen
class Stretches:
    """`channels` elements to a block, and to each `number` stretches of `length` turns, the last may be shorter."""

    channels: int
    number: int
    length: int
    turns: int

    @classmethod
    def of(cls, size: int, recurrence: Recurrence, bytes: int) -> Stretches | None:
        """How the turns of so many elements are cut, a summary taking `bytes`; None where one thread each will do."""
        turns = recurrence.turns
        channels = min(WARP, 1 << (size - 1).bit_length())
        threads = _MOST if len(recurrence.body.nodes) <= LONG else _MOST // 2
        number = min(-(-_FULL // size), threads // channels, turns // _SHORTEST, _SHARED // (bytes * channels))
        if number < 2:
            return None
        length = -(-turns // number)
        length = -(-length // _SHORTEST) * _SHORTEST
        number = -(-turns // length)
        return cls(channels, number, length, turns) if number > 1 else None

    @property
    def threads(self) -> int:
        return self.channels * self.number

    def count(self, k: Kernel, first: Index) -> Index:
        """The turns of the stretch that begins with turn `first`."""
        if self.turns % self.length == 0:
            return self.length
        left = k.reg(k.sub(self.turns, first))
        return k.select(k.below(left, self.length), left, k.reg(self.length))


def exchanged(
    turns: Turns, number: Index, summaries: Summaries, stretches: Stretches, stretch: Index, own: Sequence[Reg]
) -> list[Reg]:
    """The states that come into a thread's stretch, from the summaries of all; every thread of the block is here."""
    k = turns.kernel
    shared = [k.shared(MEMORY[dtype], stretches.threads) for dtype in summaries.dtypes]

    def read(thread: Index) -> list[Reg]:
        values = zip(shared, summaries.dtypes, strict=True)
        return [loaded(k, k.load(pointer, thread), dtype) for pointer, dtype in values]

    def put(values: Sequence[Reg]) -> None:
        for pointer, value, dtype in zip(shared, values, summaries.dtypes, strict=True):
            k.store(stored(k, value, dtype), pointer, k.thread())
        k.barrier()

    def joined(distance: int, right: Sequence[Reg]) -> list[Reg]:
        left = read(k.sub(k.thread(), distance * stretches.channels))
        return summaries.combine(turns, number, left, right)

    current = list(own)
    put(current)
    distance = 1
    while distance < stretches.number - 1:
        behind = k.compare("ge", k.reg(stretch), k.reg(distance))
        right = list(current)
        current = k.either(behind, lambda d=distance, r=right: joined(d, r), right)  # type: ignore[misc]
        k.barrier()
        put(current)
        distance *= 2
    start = turns.first_states(number)

    def come_in() -> list[Reg]:
        return summaries.apply(turns, number, read(k.sub(k.thread(), stretches.channels)), start)

    return k.either(k.compare("gt", k.reg(stretch), k.reg(0)), come_in, start)
