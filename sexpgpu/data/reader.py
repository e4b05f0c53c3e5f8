"""Readers: open sources that give any records at once by their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from sexpgpu.data.arrays import NUMPY_DTYPE, Array, require_mapped
from sexpgpu.data.mixing import mixed_count, places
from sexpgpu.tensortype import TensorType

Indices = NDArray[np.int64]


class Reader(Protocol):
    """An open source. `read` gives the records of those numbers, [n, ...], each of `type`.

    `place` tells where record 0 lies in the uncut source and how far apart records lie there. `fitted` is
    what opening it learned from the data (an alphabet, the statistics of a normalization), as JSON values,
    for the manifest.
    """

    @property
    def type(self) -> TensorType: ...
    @property
    def count(self) -> int: ...
    @property
    def place(self) -> tuple[int, int]: ...
    @property
    def fitted(self) -> Mapping[str, Any]: ...
    def read(self, indices: Indices) -> Array: ...


@frozen(eq=False)
class ArrayReader:
    """Records that lie in one array, [count, ...]."""

    data: Array
    type: TensorType
    fitted: Mapping[str, Any] = field(factory=dict)
    place: tuple[int, int] = (0, 1)

    @property
    def count(self) -> int:
        return len(self.data)

    def read(self, indices: Indices) -> Array:
        require_mapped(self.data)
        return np.asarray(self.data[indices]).astype(NUMPY_DTYPE[self.type.dtype], copy=False)


@frozen(eq=False)
class CountingReader:
    """Record i is the number i."""

    count: int
    type: TensorType
    fitted: Mapping[str, Any] = field(factory=dict)
    place: tuple[int, int] = (0, 1)

    def read(self, indices: Indices) -> Array:
        return indices.astype(NUMPY_DTYPE[self.type.dtype])


@frozen(eq=False)
class CutReader:
    """The `count` records from `start` on."""

    inner: Reader
    start: int
    count: int

    @property
    def type(self) -> TensorType:
        return self.inner.type

    @property
    def place(self) -> tuple[int, int]:
        first, apart = self.inner.place
        return first + self.start * apart, apart

    @property
    def fitted(self) -> Mapping[str, Any]:
        return self.inner.fitted

    def read(self, indices: Indices) -> Array:
        return self.inner.read(indices + self.start)


@frozen(eq=False)
class WindowReader:
    """`n` items from each start: `starts[record]`, or record * stride where every stride-th item starts
    one.
    """

    items: Reader
    n: int
    count: int
    stride: int
    type: TensorType
    starts: Indices | None = None

    @property
    def place(self) -> tuple[int, int]:
        first, apart = self.items.place
        return (first, apart * self.stride) if self.starts is None else (0, 1)

    @property
    def fitted(self) -> Mapping[str, Any]:
        return self.items.fitted

    def read(self, indices: Indices) -> Array:
        starts = indices * self.stride if self.starts is None else self.starts[indices]
        flat = self.items.read((starts[:, None] + np.arange(self.n)).ravel())
        return flat.reshape(len(indices), self.n, *flat.shape[1:])


@frozen(eq=False)
class AffineReader:
    """(x - shift) / divisor of each element, computed in double precision and rounded once."""

    inner: Reader
    shift: Array
    divisor: Array
    type: TensorType
    fitted: Mapping[str, Any]

    @property
    def count(self) -> int:
        return self.inner.count

    @property
    def place(self) -> tuple[int, int]:
        return self.inner.place

    def read(self, indices: Indices) -> Array:
        values = (self.inner.read(indices).astype(np.float64) - self.shift) / self.divisor
        return values.astype(NUMPY_DTYPE[self.type.dtype])


@frozen(eq=False)
class ScaleReader:
    """Each element times `factor`, computed in double precision and rounded once."""

    inner: Reader
    factor: float
    type: TensorType

    @property
    def count(self) -> int:
        return self.inner.count

    @property
    def fitted(self) -> Mapping[str, Any]:
        return self.inner.fitted

    @property
    def place(self) -> tuple[int, int]:
        return self.inner.place

    def read(self, indices: Indices) -> Array:
        values = self.inner.read(indices).astype(np.float64) * self.factor
        return values.astype(NUMPY_DTYPE[self.type.dtype])


@frozen(eq=False)
class ConcatReader:
    """The records of several readers, one after the other; the files of one source are such, too."""

    parts: Sequence[Reader]
    starts: Indices = field(init=False)  # of each part, and the end

    @starts.default
    def _starts(self) -> Indices:
        return np.cumsum([0, *(part.count for part in self.parts)])

    @property
    def type(self) -> TensorType:
        return self.parts[0].type

    @property
    def count(self) -> int:
        return int(self.starts[-1])

    @property
    def place(self) -> tuple[int, int]:
        return (0, 1)

    @property
    def fitted(self) -> Mapping[str, Any]:
        return _fitted(self.parts)

    def read(self, indices: Indices) -> Array:
        out = _room(len(indices), self.type)
        part_of = np.searchsorted(self.starts, indices, side="right") - 1
        for i in np.unique(part_of):
            own = part_of == i
            out[own] = self.parts[i].read(indices[own] - self.starts[i])
        return out


@frozen(eq=False)
class MixReader:
    """Records of several readers in proportion to `weights`; one that ends before the others starts over."""

    parts: Sequence[Reader]
    weights: tuple[float, ...]

    @property
    def type(self) -> TensorType:
        return self.parts[0].type

    @property
    def count(self) -> int:
        return mixed_count([part.count for part in self.parts], self.weights)

    @property
    def place(self) -> tuple[int, int]:
        return (0, 1)

    @property
    def fitted(self) -> Mapping[str, Any]:
        return _fitted(self.parts)

    def read(self, indices: Indices) -> Array:
        out = _room(len(indices), self.type)
        for part, (own, numbers) in zip(self.parts, places(indices, self.weights), strict=True):
            if len(own):
                out[own] = part.read(numbers % part.count)
        return out


def _room(rows: int, type: TensorType) -> Array:
    return np.empty((rows, *type.shape), NUMPY_DTYPE[type.dtype])


def _fitted(parts: Sequence[Reader]) -> Mapping[str, Any]:
    """What all parts learned; each under its place where they differ."""
    found = [dict(part.fitted) for part in parts]
    if all(each == found[0] for each in found):
        return found[0]
    return {str(i): each for i, each in enumerate(found) if each}
