"""Which record of which source a record of a mix is: whole numbers, so that it is the same everywhere.

Two sources of weights a and b share the records by one number p = ceiling(a / (a + b) * 2**24): record n is the first
source's where floor((n + 1) * p / 2**24) exceeds floor(n * p / 2**24), which is then its number there; all other
records are the second's. Among any first n records the first source has n * a / (a + b), rounded down. More sources
are the first one and a mix of the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
_BITS = 24  # of a share: record numbers up to 2**39 keep the products within 64 bits


def shares(weights: Sequence[float]) -> tuple[int, ...]:
    """The p of each source but the last, against all behind it."""
    return tuple(math.ceil(weights[i] / sum(weights[i:]) * 2**_BITS) for i in range(len(weights) - 1))


def places(numbers: Indices, weights: Sequence[float]) -> list[tuple[Indices, Indices]]:
    """For each source the places in `numbers` that are its own, and its record numbers there, not yet wrapped."""
    found = []
    left, here = numbers, np.arange(len(numbers))
    for share in shares(weights):
        before = left * share >> _BITS
        own = ((left + 1) * share >> _BITS) > before
        found.append((here[own], before[own]))
        left, here = (left - before)[~own], here[~own]
    found.append((here, left))
    return found


def mixed_count(counts: Sequence[int], weights: Sequence[float]) -> int:
    """The fewest records among which every source has all of its own."""
    needed = counts[-1]
    for count, share in zip(reversed(counts[:-1]), reversed(shares(weights)), strict=True):
        # n records hold n p >> 24 of the first and the others of the rest; both must be enough.
        first = -(-(count << _BITS) // share)
        rest = _least_with(needed, share)
        needed = max(first, rest)
    return needed


def _least_with(rest: int, share: int) -> int:
    """The least n with n - (n * share >> 24) >= rest."""
    low, high = rest, 2 * rest + 1
    while high - (high * share >> _BITS) < rest:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        if middle - (middle * share >> _BITS) >= rest:
            high = middle
        else:
            low = middle + 1
    return low
