"""Placing buffers with known lifetimes in one block of memory.

The problem is dynamic storage allocation, which is NP-hard; the live set is its lower bound. Several greedy orders are
tried and the smallest arena is kept, as Pisarchyk and Lee do for neural networks (Efficient Memory Management for
Deep Neural Net Inference, 2020): by size, by area, and by the time at which the buffer is first needed.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from attrs import frozen

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector."""


@frozen
class Lifetime:
    """A buffer of `size` bytes that must keep its contents from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int


@frozen
class Placement:
    """An offset for each lifetime, the arena's size, the live set's peak and the step at which it is reached."""

    offsets: tuple[int, ...]
    arena: int
    live: int
    step: int


def place(lifetimes: Sequence[Lifetime]) -> Placement:
    """Offsets such that buffers alive at one time never overlap. Deterministic."""
    sizes = [aligned(each.size) for each in lifetimes]
    live, step = peak(lifetimes)
    best: tuple[int, list[int]] | None = None
    for order in _orders(lifetimes, sizes):
        offsets = _greedy(lifetimes, sizes, order)
        arena = max((o + s for o, s in zip(offsets, sizes, strict=True)), default=0)
        if best is None or arena < best[0]:
            best = arena, offsets
        if arena <= live:
            break
    assert best is not None
    return Placement(tuple(best[1]), best[0], live, step)


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def peak(lifetimes: Sequence[Lifetime]) -> tuple[int, int]:
    """The most aligned bytes that are alive at once, and the first step at which they are."""
    changes: dict[int, int] = {}
    for each in lifetimes:
        changes[each.first] = changes.get(each.first, 0) + aligned(each.size)
        changes[each.last + 1] = changes.get(each.last + 1, 0) - aligned(each.size)
    live = most = at = 0
    for step in sorted(changes):
        live += changes[step]
        if live > most:
            most, at = live, step
    return most, at


def _orders(lifetimes: Sequence[Lifetime], sizes: Sequence[int]) -> list[list[int]]:
    numbers = range(len(lifetimes))
    span = [each.last - each.first + 1 for each in lifetimes]
    return [
        sorted(numbers, key=lambda i: (-sizes[i], lifetimes[i].first, i)),
        sorted(numbers, key=lambda i: (-span[i], -sizes[i], i)),
        sorted(numbers, key=lambda i: (-sizes[i] * span[i], i)),
        sorted(numbers, key=lambda i: (lifetimes[i].first, -sizes[i], i)),
        sorted(numbers, key=lambda i: (-lifetimes[i].last, -sizes[i], i)),
    ]


def _greedy(lifetimes: Sequence[Lifetime], sizes: Sequence[int], order: Sequence[int]) -> list[int]:
    """Each buffer in turn goes into the tightest gap that its lifetime leaves it."""
    offsets = [0] * len(lifetimes)
    placed: list[tuple[int, int, int, int]] = []  # (offset, end, first, last), by offset
    for number in order:
        size, first, last = sizes[number], lifetimes[number].first, lifetimes[number].last
        if size == 0:
            continue
        end, best, tightest = 0, -1, -1
        for start, stop, begins, ends in placed:
            if begins > last or ends < first:
                continue
            gap = start - end
            if gap >= size and (tightest < 0 or gap < tightest):
                best, tightest = end, gap
            if stop > end:
                end = stop
        offset = best if best >= 0 else end
        offsets[number] = offset
        insort(placed, (offset, offset + size, first, last))
    return offsets
