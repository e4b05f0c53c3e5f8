"""Combining the microbatches of a step: means of arrays that weigh rows, and sums, in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from attrs import define, field

from sexpgpu.runtime.arrays import Arrays, HostArrays
from sexpgpu.runtime.engine import Tensor


@define
class SumFold:
    """The sum of one array a microbatch.

    With `tree`, n leaves are split at the largest power of two below n, an order of addition that does not
    depend on who computed which leaves; it holds up to log2(n) + 1 partial sums. Without, each is added to
    the first.
    """

    tree: bool = True
    release: Callable[[Tensor], None] | None = None  # takes back the memory of what has been added to another
    arrays: Arrays = field(factory=HostArrays)
    _parts: list[tuple[int, Tensor]] = field(factory=list, init=False)  # (leaves, sum), leaves falling

    def add(self, value: Tensor) -> None:
        """Adds the next microbatch's array, which now belongs to the fold."""
        leaves = 1
        while self._parts and (self._parts[-1][0] == leaves or not self.tree):
            more, left = self._parts.pop()
            value = self._plus(left, value)
            leaves += more
        self._parts.append((leaves, value))

    def total(self) -> Tensor:
        """The sum; the fold is spent."""
        result = self._parts.pop()[1]
        while self._parts:
            result = self._plus(self._parts.pop()[1], result)
        return result

    def _plus(self, left: Tensor, right: Tensor) -> Tensor:
        total = self.arrays.plus(left, right)
        if self.release is not None:
            self.release(right)
        return total


@define
class MeanFold:
    """The mean over a step's records of one array a microbatch, itself a mean over the microbatch's records.

    `rows` are the records of each microbatch, known beforehand: where all are equal nothing is weighed. A
    single microbatch is returned as it came. Sums are kept in the arrays' own type and divided once, at the
    end.
    """

    rows: Sequence[int]
    tree: bool = False
    release: Callable[[Tensor], None] | None = None
    arrays: Arrays = field(factory=HostArrays)
    _sum: SumFold = field(init=False)
    _added: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._sum = SumFold(self.tree, self.release, self.arrays)

    def add(self, value: Tensor) -> None:
        """Adds the next microbatch's array, which now belongs to the fold."""
        self._sum.add(value if self._even else self.arrays.times(value, self.rows[self._added]))
        self._added += 1

    def mean(self) -> Tensor:
        """The mean; the fold is spent."""
        total = self._sum.total()
        if len(self.rows) == 1:
            return total
        divisor = len(self.rows) if self._even else sum(self.rows)
        return self.arrays.over(total, divisor)

    @property
    def _even(self) -> bool:
        return min(self.rows) == max(self.rows)


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
