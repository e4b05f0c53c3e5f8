"""Reading records: a source opened, its declared facts verified, any records read at once by their
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from sexpgpu.data.arrays import NUMPY_DTYPE, Array, array_header, read_array
from sexpgpu.data.facts import bounds, context_lines, record_type, window_count
from sexpgpu.data.files import locate, require
from sexpgpu.data.source import (
    Chars,
    Contexts,
    Csv,
    Declared,
    Idx,
    Leaf,
    Lines,
    Normalize,
    Npy,
    Npz,
    Records,
    Scale,
    Source,
    Take,
    Window,
    kind,
)
from sexpgpu.data.statistics import moments, value_range
from sexpgpu.data.table import column_places, numbers, read_table
from sexpgpu.data.text import line_contexts, padded_lines, read_characters, read_lines
from sexpgpu.diag import error
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
        return np.asarray(self.data[indices]).astype(NUMPY_DTYPE[self.type.dtype], copy=False)


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


def open_source(source: Source, base: Path | None = None) -> Reader:
    """Opens the file under a source; a declared fact that the data contradict is `E-LOAD-007`."""
    if isinstance(source, Leaf):
        return _cut(_open_leaf(source, base), source)
    if isinstance(source, Contexts):
        return _cut(_open_contexts(source, base), source)
    inner = _cut(open_source(source.source, base), source)
    type = record_type(source, base)
    match source:
        case Window(n=n, stride=stride):
            return WindowReader(inner, n, window_count(inner.count, source), stride, type)
        case Records():
            return inner
        case Take(n=n):
            _, stop = bounds(inner.count, None, n, source)
            return CutReader(inner, 0, stop)
        case Scale(factor=factor):
            return ScaleReader(inner, factor, type)
        case Normalize():
            return _normalized(source, inner, type, base)


def _cut(reader: Reader, source: Source) -> Reader:
    if source.from_ is None and source.to is None:
        return reader
    start, stop = bounds(reader.count, source.from_, source.to, source)
    return CutReader(reader, start, stop - start)


def _open_leaf(source: Leaf, base: Path | None) -> Reader:
    require(locate(source.path, base))
    type = record_type(source, base)
    match source:
        case Chars():
            ids, alphabet = read_characters(source, base)
            _verify(source, {"count": len(ids), "vocab": len(alphabet)})
            return ArrayReader(ids, type, {"vocabulary": alphabet})
        case Lines(pad=pad, bos=bos):
            lines = read_lines(source, base)
            _verify(source, {"count": len(lines.starts) - 1, "vocab": len(lines.alphabet) + bos})
            return ArrayReader(padded_lines(lines, pad or 0, bos), type, {"vocabulary": lines.alphabet})
        case Csv():
            table = read_table(source, base)
            places = column_places(table, source.columns)
            values = numbers(table, places, type.dtype)
            _verify(source, {"count": len(values), "shape": values.shape})
            return ArrayReader(values.reshape(-1, *type.shape), type)
        case Npy() | Npz() | Idx():
            header = array_header(source, base)
            _verify(source, {"count": header.shape[0], "shape": header.shape, "dtype": header.dtype})
            data = read_array(source, base)
            _verify_ids(source, data)
            return ArrayReader(data, type)


def _open_contexts(source: Contexts, base: Path | None) -> Reader:
    lines_source = context_lines(source)
    lines = read_lines(lines_source, base)
    count = len(lines.starts) - 1
    _verify(lines_source, {"count": count, "vocab": len(lines.alphabet) + 1})
    lines = lines.between(*bounds(count, lines_source.from_, lines_source.to, lines_source))
    flat, starts = line_contexts(lines, source.n)
    if source.count is not None and source.count != len(starts):
        raise _contradiction(lines_source.path, "count", source.count, len(starts))
    items = ArrayReader(flat, TensorType((), "i32"), {"vocabulary": lines.alphabet})
    return WindowReader(items, source.n + 1, len(starts), 1, record_type(source, base), starts)


def _verify(source: Leaf, actual: Mapping[str, object]) -> None:
    declared: Declared = source.declared
    for fact in ("shape", "dtype", "count", "vocab"):
        promised = getattr(declared, fact)
        if promised is not None and fact in actual and promised != actual[fact]:
            raise _contradiction(source.path, fact, promised, actual[fact])


def _verify_ids(source: Leaf, data: Array) -> None:
    vocab = source.declared.vocab
    if vocab is None:
        return
    low, high = data.min(), data.max()
    if low < 0 or high >= vocab:
        raise _contradiction(source.path, "vocab", vocab, f"ids from {low} to {high}")


def _contradiction(path: str, fact: str, promised: object, actual: object) -> Exception:
    return error(
        "E-LOAD-007",
        f"{path} is not what the file declares: another {fact}",
        expected=f":{fact} {_shown(promised)}",
        actual=_shown(actual),
    )


def _shown(value: object) -> str:
    return f"({' '.join(map(str, value))})" if isinstance(value, tuple) else str(value)


def _normalized(source: Normalize, inner: Reader, type: TensorType, base: Path | None) -> Reader:
    over = inner if source.fit is None else open_source(source.fit, base)
    if over.type.shape != inner.type.shape:
        raise error(
            "E-LOAD-006",
            f"{kind(source)} cannot be fitted on records of another shape",
            expected=str(inner.type),
            actual=str(over.type),
        )
    shift, divisor = value_range(over) if source.kind == "minmax" else moments(over)
    names = ("min", "range") if source.kind == "minmax" else ("mean", "deviation")
    statistics = dict(zip(names, (shift.tolist(), divisor.tolist()), strict=True))
    # Where all records agree the quotient has no meaning: an infinite divisor makes it 0.
    divisor = np.where(divisor > 0, divisor, np.inf)
    return AffineReader(inner, shift, divisor, type, {**inner.fitted, source.kind: statistics})
