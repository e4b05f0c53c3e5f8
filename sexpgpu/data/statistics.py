"""Statistics over all records of a source, in double precision, for normalization."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sexpgpu.data.arrays import Array

if TYPE_CHECKING:
    from sexpgpu.data.reader import Reader

_CHUNK = 1 << 22  # elements read at once


def _chunks(reader: Reader) -> Iterator[Array]:
    step = max(1, _CHUNK // max(1, reader.type.size))
    for start in range(0, reader.count, step):
        numbers = np.arange(start, min(start + step, reader.count))
        yield reader.read(numbers).astype(np.float64)


def value_range(reader: Reader) -> tuple[Array, Array]:
    """Of each element position, its least value and the distance to its greatest."""
    lows, highs = zip(*((chunk.min(axis=0), chunk.max(axis=0)) for chunk in _chunks(reader)), strict=True)
    low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    return np.asarray(low), np.asarray(high - low)


def moments(reader: Reader) -> tuple[Array, Array]:
    """Of each element position, its mean and biased deviation."""
    # Two passes: the squares are taken of differences from the mean, so nothing cancels.
    mean = np.asarray(sum(chunk.sum(axis=0) for chunk in _chunks(reader)) / reader.count)
    squares = sum(np.square(chunk - mean).sum(axis=0) for chunk in _chunks(reader))
    return mean, np.asarray(np.sqrt(squares / reader.count))
