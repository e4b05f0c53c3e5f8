"""What is known of a source without reading its records: the type of one, how many there are, the vocabulary.

A declared fact counts as it is; one that is not declared is taken from the file where it is there. A fact
that neither gives is `E-LOAD-005`, which names the keyword to write.
"""

from __future__ import annotations

import math
from pathlib import Path

from attrs import frozen

from sexpgpu.data.arrays import array_header
from sexpgpu.data.files import exists, locate
from sexpgpu.data.source import (
    Chars,
    Contexts,
    Csv,
    Cut,
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
    leaf,
    shape_of,
)
from sexpgpu.data.table import column_places, read_table
from sexpgpu.data.text import text_facts
from sexpgpu.diag import SxError, error
from sexpgpu.tensortype import FLOATS, DType, TensorType


@frozen
class Facts:
    """`type` is that of one record; `count` and `vocab` are None where nothing tells them.

    `characters` is the alphabet of a text in the order of the ids, without the BOS.
    """

    type: TensorType
    count: int | None
    vocab: int | None
    characters: str | None


def facts(source: Source, base: Path | None = None) -> Facts:
    """All that is known; only an unknown type is an error."""
    return Facts(
        record_type(source, base),
        _count(source, base),
        _vocabulary(leaf(source), base),
        characters(source, base),
    )


def record_type(source: Source, base: Path | None = None) -> TensorType:
    """The type of one record."""
    match source:
        case Chars():
            return TensorType((), "i32")
        case Lines(pad=pad):
            if pad is None:
                raise _missing(source, "how long a record is", ":pad")
            return TensorType((pad,), "i32")
        case Npy() | Npz() | Idx():
            return _array_type(source, base)
        case Csv():
            return _table_type(source, base)
        case Window(source=inner, n=n):
            one = record_type(inner, base)
            return TensorType((n, *one.shape), one.dtype)
        case Contexts(n=n):
            return TensorType((n + 1,), "i32")
        case Records(source=inner) | Take(source=inner):
            return record_type(inner, base)
        case Scale(source=inner, dtype=dtype) | Normalize(source=inner, dtype=dtype):
            one = record_type(inner, base)
            return TensorType(one.shape, dtype or _float_of(one.dtype))


def record_count(source: Source, base: Path | None = None) -> int:
    """How many records there are; unknown is an error."""
    count = _count(source, base)
    if count is None:
        raise _missing(_counted(source), "how many records it has", ":count")
    return count


def vocabulary_size(source: Source, base: Path | None = None) -> int:
    """How many ids there are, a BOS among them; unknown is an error."""
    bottom = leaf(source)
    size = _vocabulary(bottom, base)
    if size is None:
        raise _missing(bottom, "how many ids it uses", ":vocab")
    return size


def characters(source: Source, base: Path | None = None) -> str | None:
    """The alphabet of a text source, when its file is there."""
    bottom = leaf(source)
    if not isinstance(bottom, Chars | Lines) or not exists(locate(bottom.path, base)):
        return None
    known = text_facts(bottom, base)
    return known.alphabet if isinstance(bottom, Chars) else known.line_alphabet


def bounds(count: int, from_: Cut, to: Cut, source: Source) -> tuple[int, int]:
    """The records [start, stop) that a cut leaves of `count`; `E-LOAD-006` when it leaves none or asks for
    more.
    """
    start = 0 if from_ is None else _position(count, from_)
    stop = count if to is None else _position(count, to)
    if not 0 <= start < stop <= count:
        raise error(
            "E-LOAD-006",
            f"the cut of this {kind(source)} asks for records that are not there",
            expected=f"0 <= from < to <= {count}",
            actual=f"from {start}, to {stop}",
        )
    return start, stop


def window_count(items: int, window: Window) -> int:
    """Windows in `items` items; `E-LOAD-006` when there are fewer than one needs."""
    if items < window.n:
        raise error(
            "E-LOAD-006",
            f"a window of {window.n} items does not fit",
            expected=f"at least {window.n} items",
            actual=f"{items} items",
        )
    return (items - window.n) // window.stride + 1


def _position(count: int, cut: int | float) -> int:
    return math.floor(count * cut) if isinstance(cut, float) else cut


def _count(source: Source, base: Path | None) -> int | None:
    total = _uncut_count(source, base)
    if total is None:
        return None
    start, stop = bounds(total, source.from_, source.to, source)
    match source:
        # These two cut the items first and count what they make of the rest.
        case Window():
            return window_count(stop - start, source)
        case Take(n=n):
            return len(range(*bounds(stop - start, None, n, source)))
        case _:
            return stop - start


def _uncut_count(source: Source, base: Path | None) -> int | None:
    match source:
        case Chars() | Lines() | Csv() | Npy() | Npz() | Idx():
            return _leaf_count(source, base)
        case Contexts():
            return _context_count(source, base)
        case _:
            return _count(source.source, base)


def _leaf_count(source: Leaf, base: Path | None) -> int | None:
    declared = source.declared
    if declared.count is not None:
        return declared.count
    shape = shape_of(source)
    if shape is not None:
        return shape[0]
    if not exists(locate(source.path, base)):
        return None
    match source:
        case Chars():
            return text_facts(source, base).characters
        case Lines():
            return len(text_facts(source, base).line_lengths)
        case Csv():
            return len(read_table(source, base).rows)
        case Npy() | Npz() | Idx():
            return array_header(source, base).shape[0]


def _context_count(source: Contexts, base: Path | None) -> int | None:
    if source.count is not None:
        return source.count
    lines = context_lines(source)
    if not exists(locate(lines.path, base)):
        return None
    lengths = text_facts(lines, base).line_lengths
    start, stop = bounds(len(lengths), lines.from_, lines.to, lines)
    return int(lengths[start:stop].sum()) + stop - start


def context_lines(source: Contexts) -> Lines:
    """The lines under contexts; anything else has no line starts to fill with BOS."""
    if isinstance(source.source, Lines) and source.source.bos:
        return source.source
    raise error(
        "E-LOAD-006",
        "contexts need lines that have a BOS",
        expected="(lines PATH :bos t)",
        actual=f"({kind(source.source)} ...)",
    )


def _vocabulary(source: Leaf, base: Path | None) -> int | None:
    if source.declared.vocab is not None:
        return source.declared.vocab
    if not isinstance(source, Chars | Lines) or not exists(locate(source.path, base)):
        return None
    known = text_facts(source, base)
    if isinstance(source, Chars):
        return len(known.alphabet)
    return len(known.line_alphabet) + source.bos


def _array_type(source: Npy | Npz | Idx, base: Path | None) -> TensorType:
    declared: Declared = source.declared
    shape = shape_of(source)
    if shape is not None and declared.dtype is not None:
        return TensorType(shape[1:], declared.dtype)
    if not exists(locate(source.path, base)):
        keyword = ":shape" if shape is None else ":dtype"
        raise _missing(source, "the type of its records", keyword)
    header = array_header(source, base)
    return TensorType((shape or header.shape)[1:], declared.dtype or header.dtype)


def _table_type(source: Csv, base: Path | None) -> TensorType:
    dtype = source.declared.dtype or "f32"
    shape = shape_of(source)
    if source.columns:
        width = len(source.columns)
    elif shape is not None:
        width = shape[1]
    elif exists(locate(source.path, base)):
        table = read_table(source, base)
        width = len(column_places(table, ()))
    else:
        raise _missing(source, "how many columns it has", ":shape")
    return TensorType(() if len(source.columns) == 1 else (width,), dtype)


def _float_of(dtype: DType) -> DType:
    return dtype if dtype in FLOATS else "f32"


def _counted(source: Source) -> Leaf | Contexts:
    """The part of a source that can declare its count."""
    while not isinstance(source, Leaf | Contexts):
        source = source.source
    return source


def _missing(source: Leaf | Contexts, what: str, keyword: str) -> SxError:
    example = {":count": "100000", ":vocab": "65", ":dtype": ":f32", ":shape": "'(60000 28 28)", ":pad": "16"}
    return error(
        "E-LOAD-005",
        f"{leaf(source).path} is not here to tell {what}, and the file does not declare it",
        expected=keyword,
        help=f"({kind(source)} ... {keyword} {example[keyword]})",
    )
