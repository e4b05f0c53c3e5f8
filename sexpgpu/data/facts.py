"""What is known of a source without reading its records: the type of one, how many there are, the vocabulary.

A declared fact counts as it is; one that is not declared is taken from the file where it is there. A fact
that neither gives is `E-LOAD-005`, which names the keyword to write. What reads the files of a kind is imported
where a source of that kind is met: most experiments have one.
"""

from __future__ import annotations

import math
from pathlib import Path

from attrs import frozen

from sexpgpu.data.files import present
from sexpgpu.data.mixing import mixed_count
from sexpgpu.data.source import (
    Arange,
    Bpe,
    Bytes,
    Chars,
    Concat,
    Contexts,
    Csv,
    Cut,
    Declared,
    File,
    Idx,
    Joined,
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
    shape_of,
    source_leaves,
)
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
        _vocabulary(source, base),
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
        case Bpe() | Arange():
            return TensorType((), "i32")
        case Bytes() | Tokens():
            from sexpgpu.data.binary import id_type

            return TensorType((), id_type(source))
        case Parquet() | Jsonl():
            return _columns_type(source, base)
        case Concat() | Mix():
            check_parts(source, base)
            return record_type(source.parts[0], base)
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
        raise _missing(_counted(source, base), "how many records it has", ":count")
    return count


def vocabulary_size(source: Source, base: Path | None = None) -> int:
    """How many ids there are, a BOS among them; unknown is an error."""
    size = _vocabulary(source, base)
    if size is None:
        unknown = next(leaf for leaf in source_leaves(source) if _leaf_vocabulary(leaf, base) is None)
        raise _missing(unknown, "how many ids it uses", ":vocab")
    return size


def characters(source: Source, base: Path | None = None) -> str | None:
    """The alphabet of a text source, when its file is there."""
    bottom = source_leaves(source)[0]
    if not isinstance(bottom, Chars | Lines) or not present(bottom.path, base):
        return None
    known = text_facts(bottom, base)
    return known.alphabet if isinstance(bottom, Chars) else known.line_alphabet


def check_parts(source: Joined, base: Path | None) -> None:
    """`E-LOAD-006` unless the joined sources have records of one type, and ids of one meaning where they are texts."""
    first = record_type(source.parts[0], base)
    for part in source.parts[1:]:
        other = record_type(part, base)
        if other != first:
            raise error(
                "E-LOAD-006",
                f"the sources of this {kind(source)} have records of different types",
                expected=str(first),
                actual=str(other),
            )
    meanings = [m for leaf in source_leaves(source) if (m := _meaning(leaf, base)) is not None]
    if any(m != meanings[0] for m in meanings):
        unlike = next(m for m in meanings if m != meanings[0])
        raise error(
            "E-LOAD-006",
            f"the sources of this {kind(source)} are texts with different alphabets: one id would mean two characters",
            expected=repr(meanings[0]),
            actual=repr(unlike),
            help="wildcards in one path read several files under one alphabet; `bytes` needs none",
        )


def _meaning(leaf: Leaf, base: Path | None) -> str | None:
    """What tells the ids of a text apart from those of another; None where nothing is known."""
    match leaf:
        case Chars() | Lines():
            return characters(leaf, base)
        case Bpe() if present(leaf.tokenizer, base):
            from sexpgpu.data.bpe import read_vocabulary

            return read_vocabulary(leaf, base).digest
        case _:
            return None


def bounds(count: int, from_: Cut, to: Cut, source: Source) -> tuple[int, int]:
    """The records [start, stop) that a cut leaves of `count`; `E-LOAD-006` when it leaves none or asks for more."""
    start, stop = _position(count, 0 if from_ is None else from_), _position(count, count if to is None else to)
    if count == 0:
        raise error("E-LOAD-006", f"this {kind(source)} has no records", expected="1 record or more", actual="0")
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
        case Arange(n=n):
            return n
        case Concat(parts=parts) | Mix(parts=parts):
            counts = [_count(part, base) for part in parts]
            known = [count for count in counts if count is not None]
            if len(known) < len(counts):
                return None
            return sum(known) if isinstance(source, Concat) else mixed_count(known, source.weights)
        case Contexts():
            return _context_count(source, base)
        case Window() | Records() | Take() | Scale() | Normalize():
            return _count(source.source, base)
        case _:
            return _file_count(source, base)


def _file_count(source: File, base: Path | None) -> int | None:
    declared = source.declared
    if declared.count is not None:
        return declared.count
    shape = shape_of(source)
    if shape is not None:
        return shape[0]
    if not present(source.path, base):
        return None
    match source:
        case Bytes() | Tokens():
            from sexpgpu.data.binary import binary_count

            return binary_count(source, base)
        case Bpe():
            from sexpgpu.data.bpe import read_bpe

            return len(read_bpe(source, base))
        case Parquet():
            from sexpgpu.data.parquet import read_columns

            return read_columns(source, base).shape[0]
        case Jsonl():
            from sexpgpu.data.jsonl import read_objects

            return len(read_objects(source, base).rows)
        case Chars():
            return text_facts(source, base).characters
        case Lines():
            return len(text_facts(source, base).line_lengths)
        case Csv():
            from sexpgpu.data.table import read_tables

            return sum(len(table.rows) for table in read_tables(source, base))
        case Npy() | Npz() | Idx():
            from sexpgpu.data.arrays import array_header

            return array_header(source, base).shape[0]


def _context_count(source: Contexts, base: Path | None) -> int | None:
    if source.count is not None:
        return source.count
    lines = context_lines(source)
    if not present(lines.path, base):
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


def _vocabulary(source: Source, base: Path | None) -> int | None:
    """The most that any of its leaves uses; None where one does not tell."""
    sizes = [_leaf_vocabulary(leaf, base) for leaf in source_leaves(source)]
    known = [size for size in sizes if size is not None]
    return max(known) if len(known) == len(sizes) else None


def _leaf_vocabulary(source: Leaf, base: Path | None) -> int | None:
    if isinstance(source, Arange):
        return source.n
    if source.declared.vocab is not None:
        return source.declared.vocab
    if isinstance(source, Bytes):
        return 256
    if isinstance(source, Bpe) and present(source.tokenizer, base):
        from sexpgpu.data.bpe import read_vocabulary

        return read_vocabulary(source, base).size
    if not isinstance(source, Chars | Lines) or not present(source.path, base):
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
    if not present(source.path, base):
        keyword = ":shape" if shape is None else ":dtype"
        raise _missing(source, "the type of its records", keyword)
    from sexpgpu.data.arrays import array_header

    header = array_header(source, base)
    return TensorType((shape or header.shape)[1:], declared.dtype or header.dtype)


def _table_type(source: Csv, base: Path | None) -> TensorType:
    dtype = source.declared.dtype or "f32"
    shape = shape_of(source)
    if source.columns:
        width = len(source.columns)
    elif shape is not None:
        width = shape[1]
    elif present(source.path, base):
        from sexpgpu.data.table import column_places, read_tables

        width = len(column_places(read_tables(source, base)[0], ()))
    else:
        raise _missing(source, "how many columns it has", ":shape")
    return TensorType(() if len(source.columns) == 1 else (width,), dtype)


def _columns_type(source: Parquet | Jsonl, base: Path | None) -> TensorType:
    declared: Declared = source.declared
    shape = shape_of(source)
    dtype = declared.dtype or ("f32" if isinstance(source, Jsonl) else None)
    if shape is not None and dtype is not None:
        return TensorType(shape[1:], dtype)
    if not present(source.path, base):
        raise _missing(source, "the type of its records", ":shape" if shape is None else ":dtype")
    if isinstance(source, Parquet):
        from sexpgpu.data.parquet import read_columns

        columns = read_columns(source, base)
        return TensorType((shape or columns.shape)[1:], dtype or columns.dtype)
    from sexpgpu.data.jsonl import first_shape, read_objects

    return TensorType(first_shape(source, read_objects(source, base)), dtype or "f32")


def _float_of(dtype: DType) -> DType:
    return dtype if dtype in FLOATS else "f32"


def _counted(source: Source, base: Path | None) -> File | Contexts:
    """The part of a source that could declare its count and does not; numbers that are made here need not."""
    while not isinstance(source, File | Contexts):
        if isinstance(source, Joined):
            source = next(part for part in source.parts if _count(part, base) is None)
        else:
            assert not isinstance(source, Arange)
            source = source.source
    return source


def _missing(source: Leaf | Contexts, what: str, keyword: str) -> SxError:
    example = {":count": "100000", ":vocab": "65", ":dtype": ":f32", ":shape": "'(60000 28 28)", ":pad": "16"}
    file = source_leaves(source)[0]
    assert not isinstance(file, Arange)
    return error(
        "E-LOAD-005",
        f"{file.path} does not tell {what}, and the file does not declare it",
        expected=keyword,
        help=f"({kind(source)} ... {keyword} {example[keyword]})",
    )
