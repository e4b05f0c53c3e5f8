"""Which saved values to compute again: the most bytes for the least work first.

Dropping a value means computing it again from what is still kept: the chain of operations between. Nothing is kept
that was not kept before, so no chain ever costs memory for its inputs; it costs that of its values from the first
gradient that needs one of them on, which `peak` counts. After Chen et al. 2016, Training Deep Nets with Sublinear
Memory Cost, with the choice by price of Jain et al. 2020, Checkmate, made greedily.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable
from itertools import accumulate

from sexpgpu.passes.recomputing.saved import Saved

LEAST = 1000
"""Values of less than the saved bytes divided by this stay: too many operations for too little."""


def ranking(saved: Saved) -> list[int]:
    """The roots that may be dropped, in the order in which it pays: each at its price once those before it are."""
    least = sum(saved.sizes[root] for root in saved.reads) / LEAST
    dropped: set[int] = set()
    again: set[int] = set()

    def entry(root: int) -> tuple[float, int, int]:
        chain = _chain(saved, dropped | {root}, [value for _, value in saved.reads[root]], again)
        price = math.fsum(saved.prices[number] for number in chain)
        return price / saved.sizes[root], -saved.sizes[root], root

    waiting = [entry(root) for root in saved.reads if saved.sizes[root] >= least]
    heapq.heapify(waiting)
    order = []
    while waiting:
        found = heapq.heappop(waiting)
        root = found[-1]
        if (now := entry(root)) != found:  # another price since others were dropped
            heapq.heappush(waiting, now)
        elif math.isfinite(now[0]):
            order.append(root)
            dropped.add(root)
            again |= _chain(saved, dropped, [value for _, value in saved.reads[root]], again)
    return order


def chains(saved: Saved, dropped: Collection[int]) -> dict[int, int]:
    """The operations to clone so that nothing of the roots `dropped` is saved: each with the operation to stand before.

    A clone stands before the first that reads it: a gradient, or another clone.
    """
    again = _chain(saved, dropped, [value for root in dropped for _, value in saved.reads[root]], ())
    before: dict[int, int] = {}
    for root in dropped:
        for reader, value in saved.reads[root]:
            _earlier(before, saved.maker[value], reader)
    for number in sorted(again, reverse=True):
        for value in saved.flow.nodes[number].ins:
            if saved.maker.get(value) in again:
                _earlier(before, saved.maker[value], before[number])
    return before


def _earlier(before: dict[int, int], number: int, place: int) -> None:
    before[number] = min(before.get(number, place), place)


def _chain(saved: Saved, dropped: Collection[int], values: Iterable[int], done: Collection[int]) -> set[int]:
    """The operations that make `values` again from what is kept, but for those already `done`."""
    found: set[int] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        number = saved.maker.get(value)
        if number is None or number in found or number in done or saved.flow.nodes[number].is_constant:
            continue
        root = saved.roots[value]
        if root in dropped or (saved.sizes[root] and root not in saved.reads):
            found.add(number)
            waiting += saved.flow.nodes[number].ins
    return found


def peak(saved: Saved, dropped: Collection[int]) -> int:
    """The most bytes alive at once, were each operation to run alone and in the order as it stands."""
    change = [0] * (len(saved.flow.nodes) + 2)

    def alive(size: int, first: int, last: int) -> None:
        change[first] += size
        change[last + 1] -= size

    before = chains(saved, dropped)
    last = dict(saved.last)
    until: dict[int, int] = {}  # of the memory that clones make
    for number, place in before.items():
        for value in saved.flow.nodes[number].ins:
            root = saved.roots[value]
            ends = until if saved.maker.get(root) in before else last
            ends[root] = max(ends.get(root, place), place)
    for root, size in enumerate(saved.sizes):
        if not size:
            continue
        first = saved.maker[root]
        if root in dropped:
            alive(size, first, saved.forward[root])
        else:
            alive(size, first, last.get(root, first))
        if first in before:
            end = saved.last[root] if root in dropped else 0
            alive(size, before[first], max(end, until.get(root, 0), before[first]))
    return max(accumulate(change))
