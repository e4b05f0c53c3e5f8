"""Which records a batch reads: pure functions of the seed, the loader's name and the batch's number.

Batches are numbered through the whole run (step * microbatches + microbatch) or, in an evaluation, from its
first one. Nothing here has a position, so a resumed run asks for the next batch and gets it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from sexpgpu.philox import key_of, philox4x32

Indices = NDArray[np.int64]
OrderName = Literal["sequential", "shuffle", "random", "streams", "index-file"]
_STREAM = "order"
_DRAW, _PERMUTE = 0, 1  # the last counter word tells the two uses of one key apart


class Order(Protocol):
    """The batches of a loader. `epoch_batches` is how many make one pass over its records.

    `indices(q)` are the records of batch q, i64[rows]; rows is the batch size save where a pass ends.
    """

    @property
    def epoch_batches(self) -> int: ...
    def rows(self, q: int) -> int: ...
    def indices(self, q: int) -> Indices: ...


@frozen
class Sequential:
    """Record 0, 1, 2 … ; a short last batch ends each pass."""

    count: int
    batch: int

    @property
    def epoch_batches(self) -> int:
        return -(-self.count // self.batch)

    def rows(self, q: int) -> int:
        return min(self.batch, self.count - q % self.epoch_batches * self.batch)

    def indices(self, q: int) -> Indices:
        start = q % self.epoch_batches * self.batch
        return np.arange(start, start + self.rows(q))


@frozen
class Shuffle:
    """As `Sequential`, through a fresh permutation in each pass."""

    count: int
    batch: int
    key: tuple[int, int]

    @property
    def epoch_batches(self) -> int:
        return -(-self.count // self.batch)

    def rows(self, q: int) -> int:
        return min(self.batch, self.count - q % self.epoch_batches * self.batch)

    def indices(self, q: int) -> Indices:
        epoch, place = divmod(q, self.epoch_batches)
        start = place * self.batch
        return permutation(self.key, epoch, self.count)[start : start + self.rows(q)]


@frozen
class Random:
    """Independent draws, each row its own; a pass is as many batches as would hold the records once."""

    count: int
    batch: int
    key: tuple[int, int]

    @property
    def epoch_batches(self) -> int:
        return -(-self.count // self.batch)

    def rows(self, q: int) -> int:
        return self.batch

    def indices(self, q: int) -> Indices:
        first = q * self.batch
        return draws(self.key, np.arange(first, first + self.batch, dtype=np.uint64), self.count)


@frozen
class Streams:
    """`rows * microbatches` streams side by side: row r of microbatch m goes on where it was a step before.

    With S = batch * microbatches streams and P = floor(count / S), row r of microbatch m of step s reads record
    ((m * batch + r) * P + s) mod (S * P): stream m * batch + r runs through its own P records, then through the next
    stream's, so that it goes on across the end of a pass too. A pass is P steps; the last count mod S records are in
    no stream.
    """

    count: int
    batch: int
    microbatches: int = 1

    @property
    def length(self) -> int:
        """P, the records of one stream in a pass."""
        return self.count // (self.batch * self.microbatches)

    @property
    def epoch_batches(self) -> int:
        return self.length * self.microbatches

    def rows(self, q: int) -> int:
        return self.batch

    def indices(self, q: int) -> Indices:
        step, microbatch = divmod(q, self.microbatches)
        streams = microbatch * self.batch + np.arange(self.batch)
        return (streams * self.length + step) % (self.epoch_batches * self.batch)


@frozen(eq=False)
class Listed:
    """The rows of an index file, `table` i64[rows, width] of record numbers, -1 behind a short row's last.

    A pass is as many rows as would hold the records once, whatever the file lists.
    """

    table: Indices
    epoch_batches: int

    def rows(self, q: int) -> int:
        return int((self.table[q % len(self.table)] >= 0).sum())

    def indices(self, q: int) -> Indices:
        row: Indices = self.table[q % len(self.table)]
        return row[: self.rows(q)]


def order_key(seed: int, loader: str) -> tuple[int, int]:
    """The key of a loader's order."""
    return key_of(seed, _STREAM, loader)


@lru_cache(maxsize=4)
def permutation(key: tuple[int, int], epoch: int, count: int) -> Indices:
    """A uniform permutation of `count` records, i64[count], another one each epoch.

    Records are sorted by a 64-bit number drawn for each; equal numbers keep the records' order.
    """
    counters = np.zeros((count, 4), np.uint32)
    counters[:, 0] = np.arange(count, dtype=np.uint64) & np.uint64(0xFFFFFFFF)
    counters[:, 1] = np.arange(count, dtype=np.uint64) >> np.uint64(32)
    counters[:, 2] = epoch
    counters[:, 3] = _PERMUTE
    result: Indices = np.argsort(_words(key, counters), kind="stable")
    result.flags.writeable = False
    return result


def draws(key: tuple[int, int], places: NDArray[np.uint64], count: int) -> Indices:
    """A uniform number below `count` for each place, i64[places].

    64 bits leave `2**64 % count` values over: a draw among those is drawn again at the next counter, so that
    no record is likelier than another.
    """
    counters = np.zeros((len(places), 4), np.uint32)
    counters[:, 0] = places & np.uint64(0xFFFFFFFF)
    counters[:, 1] = places >> np.uint64(32)
    counters[:, 3] = _DRAW
    left = 2**64 % count
    last = np.uint64(2**64 - left - 1)
    words = _words(key, counters)
    while (over := np.flatnonzero(words > last)).size:
        counters[over, 2] += np.uint32(1)
        words[over] = _words(key, counters[over])
    return (words % np.uint64(count)).astype(np.int64)


def _words(key: tuple[int, int], counters: NDArray[np.uint32]) -> NDArray[np.uint64]:
    pair = philox4x32(*key, counters)[:, :2].astype(np.uint64)
    return pair[:, 0] | pair[:, 1] << np.uint64(32)
