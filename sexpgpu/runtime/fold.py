"""Combining the microbatches of a step: means of arrays that weigh rows, and sums, in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from attrs import define, field, frozen

from sexpgpu.runtime.arrays import Arrays, HostArrays
from sexpgpu.runtime.engine import Tensor


@frozen
class Part:
    """The sum of `leaves` arrays, of which the first is that of microbatch `first`."""

    first: int
    leaves: int
    sum: Tensor


@define
class SumFold:
    """The sum of one array a microbatch, of which the first added is that of microbatch `first`.

    With `tree`, n leaves are split at the largest power of two below n, an order of addition that does not
    depend on who computed which leaves; it holds up to log2(n) + 1 partial sums. Without, each is added to
    the first.
    """

    tree: bool = True
    release: Callable[[Tensor], None] | None = None  # takes back the memory of what has been added to another
    arrays: Arrays = field(factory=HostArrays)
    first: int = 0
    _parts: list[Part] = field(factory=list, init=False)  # in the order of their microbatches
    _added: int = field(default=0, init=False)

    def add(self, value: Tensor, leaves: int = 1) -> None:
        """Adds the next microbatch's array, or the sum of so many, which now belongs to the fold."""
        self.join(Part(self.first + self._added, leaves, value))
        self._added += leaves

    def join(self, part: Part) -> None:
        """Adds what follows the last part: whole subtrees of the tree, where there is one."""
        join_all([self], [part])

    def parts(self) -> list[Part]:
        """What is summed so far, for another fold to join; the fold is spent. A tree's are whole subtrees."""
        parts, self._parts = self._parts, []
        return parts

    def takes(self, part: Part) -> bool:
        """Whether a part is to be added to the last one."""
        return bool(self._parts) and (not self.tree or _siblings(self._parts[-1], part))

    def pop(self) -> Part | None:
        """The last part, which leaves the fold."""
        return self._parts.pop() if self._parts else None

    def push(self, part: Part) -> None:
        self._parts.append(part)

    def total(self) -> Tensor:
        """The sum; the fold is spent."""
        return totals([self])[0]


def join_all(folds: Sequence[SumFold], parts: Sequence[Part]) -> None:
    """As each fold's `join`. The folds have joined alike before, so what is to be added is asked for at once."""
    while folds and folds[0].takes(parts[0]):
        lefts = _popped(folds)
        sums = _plus(folds, [left.sum for left in lefts], [part.sum for part in parts])
        parts = [
            Part(left.first, left.leaves + part.leaves, sum) for left, part, sum in zip(lefts, parts, sums, strict=True)
        ]
    for fold, part in zip(folds, parts, strict=True):
        fold.push(part)


def totals(folds: Sequence[SumFold]) -> list[Tensor]:
    """The sums of folds that have joined alike; the folds are spent."""
    results = [part.sum for part in _popped(folds)]
    while lefts := _popped(folds):
        results = _plus(folds, [left.sum for left in lefts], results)
    return results


def _popped(folds: Sequence[SumFold]) -> list[Part]:
    return [part for fold in folds if (part := fold.pop()) is not None]


def _plus(folds: Sequence[SumFold], left: Sequence[Tensor], right: Sequence[Tensor]) -> list[Tensor]:
    sums = folds[0].arrays.plus(left, right)
    for fold, each in zip(folds, right, strict=True):
        if fold.release is not None:
            fold.release(each)
    return sums


def _siblings(left: Part, right: Part) -> bool:
    """Whether two neighbours are the halves of one subtree."""
    return left.leaves == right.leaves and left.first % (2 * left.leaves) == 0


@define
class MeanFold:
    """The mean over a step's records of one array a microbatch, itself a mean over the microbatch's records.

    `rows` are the records of each microbatch, known beforehand: where all are equal nothing is weighed. A
    single microbatch is returned as it came. Sums are kept in the arrays' own type and divided once, at the
    end. The first array added is that of microbatch `first`.
    """

    rows: Sequence[int]
    tree: bool = False
    release: Callable[[Tensor], None] | None = None
    arrays: Arrays = field(factory=HostArrays)
    first: int = 0
    sum: SumFold = field(init=False)
    _next: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.sum = SumFold(self.tree, self.release, self.arrays, self.first)
        self._next = self.first

    def add(self, value: Tensor, leaves: int = 1) -> None:
        """Adds the next microbatch's array, which now belongs to the fold.

        With `leaves` it is the sum of so many, which are not weighed: all are as long then.
        """
        add_all([self], [value], leaves)

    def weighed(self, value: Tensor, leaves: int) -> Part:
        """The next microbatch's array as a part of the sum."""
        part = Part(self._next, leaves, value if _even(self.rows) else self.arrays.times(value, self.rows[self._next]))
        self._next += leaves
        return part

    def mean(self) -> Tensor:
        """The mean; the fold is spent."""
        return means([self])[0]


def add_all(folds: Sequence[MeanFold], values: Sequence[Tensor], leaves: int = 1) -> None:
    """As each fold's `add`, of folds that have been added to alike before."""
    parts = [fold.weighed(value, leaves) for fold, value in zip(folds, values, strict=True)]
    join_all([fold.sum for fold in folds], parts)


def means(folds: Sequence[MeanFold]) -> list[Tensor]:
    """The means of folds that have been added to alike; the folds are spent."""
    return means_of(totals([fold.sum for fold in folds]), folds[0].rows, folds[0].arrays) if folds else []


def means_of(totals: Sequence[Tensor], rows: Sequence[int], arrays: Arrays) -> list[Tensor]:
    """The means over the step's records from the sums that `MeanFold`s of these rows make."""
    if len(rows) == 1:
        return list(totals)
    return arrays.over(totals, len(rows) if _even(rows) else sum(rows))


def _even(rows: Sequence[int]) -> bool:
    return min(rows) == max(rows)


def exact_sum(values: Sequence[float]) -> float:
    """The sum rounded once, whatever the order; a value that is not finite counts as in plain addition."""
    if all(map(math.isfinite, values)):
        try:
            return math.fsum(values)
        except OverflowError:
            pass
    total = 0.0
    for value in values:
        total += value
    return total


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Σ w·v / Σ w, in double precision; a single value stays as it is, no weight at all gives NaN."""
    if len(values) == 1 and weights[0] != 0:
        return values[0]
    total = exact_sum(weights)
    if total == 0:
        return math.nan
    return exact_sum([w * v for v, w in zip(values, weights, strict=True)]) / total
