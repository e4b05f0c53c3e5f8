"""Opening sources: their files read, their declared facts verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sexpgpu.data.arrays import Array, array_header, read_arrays
from sexpgpu.data.binary import read_binary
from sexpgpu.data.bpe import read_bpe, read_vocabulary
from sexpgpu.data.counts import bounds, context_lines, window_count
from sexpgpu.data.facts import check_parts, record_type
from sexpgpu.data.files import bad_file, shards
from sexpgpu.data.jsonl import read_jsonl
from sexpgpu.data.parquet import read_columns
from sexpgpu.data.reader import (
    AffineReader,
    ArrayReader,
    ConcatReader,
    CountingReader,
    CutReader,
    MixReader,
    Reader,
    ScaleReader,
    WindowReader,
)
from sexpgpu.data.source import (
    Arange,
    Bpe,
    Bytes,
    Chars,
    Concat,
    Contexts,
    Csv,
    Declared,
    File,
    Idx,
    Jsonl,
    Leaf,
    Lines,
    Mix,
    Normalize,
    Npy,
    Npz,
    Parquet,
    Records,
    Scale,
    Source,
    Take,
    Tokens,
    Window,
    kind,
)
from sexpgpu.data.statistics import moments, value_range
from sexpgpu.data.table import column_places, numbers, read_tables
from sexpgpu.data.text import line_contexts, padded_lines, read_characters, read_lines
from sexpgpu.diag import error
from sexpgpu.tensortype import TensorType


def open_source(source: Source, base: Path | None = None) -> Reader:
    """Opens the files under a source; a declared fact that the data contradict is `E-LOAD-007`."""
    match source:
        case Concat(parts=parts):
            opened = [open_source(part, base) for part in parts]
            check_parts(source, base)
            return _cut(ConcatReader(opened), source)
        case Mix(parts=parts, weights=weights):
            opened = [open_source(part, base) for part in parts]
            check_parts(source, base)
            return _cut(MixReader(opened, weights), source)
        case Contexts():
            return _cut(_open_contexts(source, base), source)
    if isinstance(source, Leaf):
        return _cut(_open_leaf(source, base), source)
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
    if isinstance(source, Arange):
        return CountingReader(source.n, record_type(source, base))
    shards(source.path, base)
    type = record_type(source, base)
    vocab: int | None = None
    fitted: Mapping[str, Any] = {}
    match source:
        case Chars():
            ids, alphabet = read_characters(source, base)
            data: Sequence[Array] = [ids]
            vocab, fitted = len(alphabet), {"vocabulary": alphabet}
        case Lines(pad=pad, bos=bos):
            lines = read_lines(source, base)
            data = [padded_lines(lines, pad or 0, bos)]
            vocab, fitted = len(lines.alphabet) + bos, {"vocabulary": lines.alphabet}
        case Bpe():
            known = read_vocabulary(source, base)
            data = [read_bpe(source, base)]
            vocab, fitted = known.size, {"tokenizer": known.digest}
        case Bytes() | Tokens():
            data = read_binary(source, base)
        case Csv():
            return _open_table(source, base, type)
        case Jsonl():
            data = [read_jsonl(source, base, type.dtype)]
        case Parquet():
            columns = read_columns(source, base)
            _verify(source, {"dtype": columns.dtype, "shape": columns.shape, "count": columns.shape[0]})
            data = columns.data
        case Npy() | Npz() | Idx():
            header = array_header(source, base)
            _verify(source, {"dtype": header.dtype, "shape": header.shape, "count": header.shape[0]})
            data = read_arrays(source, base)
    count = sum(map(len, data))
    _verify(source, {"dtype": type.dtype, "count": count, "shape": (count, *data[0].shape[1:]), "vocab": vocab})
    if vocab is None:
        _verify_ids(source, data)
    return _joined([ArrayReader(part, type, fitted) for part in data])


def _open_table(source: Csv, base: Path | None, type: TensorType) -> Reader:
    parts = []
    for table in read_tables(source, base):
        values = numbers(table, column_places(table, source.columns), type.dtype)
        parts.append(values)
        if values.shape[1] != parts[0].shape[1]:
            raise bad_file(table.path, f"rows of {parts[0].shape[1]} cells, as before", f"its rows have {table.width}")
    rows, width = sum(map(len, parts)), parts[0].shape[1]
    _verify(source, {"count": rows, "shape": (rows, width)})
    _verify_ids(source, parts)
    return _joined([ArrayReader(values.reshape(-1, *type.shape), type) for values in parts])


def _joined(parts: Sequence[Reader]) -> Reader:
    return parts[0] if len(parts) == 1 else ConcatReader(parts)


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


def _verify(source: File, actual: Mapping[str, object]) -> None:
    declared: Declared = source.declared
    for fact in ("shape", "dtype", "count", "vocab"):
        promised, found = getattr(declared, fact), actual.get(fact)
        if promised is not None and found is not None and promised != found:
            raise _contradiction(source.path, fact, promised, found)


def _verify_ids(source: File, data: Sequence[Array]) -> None:
    vocab = source.declared.vocab
    if vocab is None:
        return
    low, high = min(part.min() for part in data), max(part.max() for part in data)
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
