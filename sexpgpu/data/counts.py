"""How many records a source has, without reading them: as declared, or as its file tells where that is there.

A count that neither gives is `E-LOAD-005`. What reads the files of a kind is imported where a source of that kind is
met: most experiments have one.
"""

from __future__ import annotations

import math
from pathlib import Path

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


def record_count(source: Source, base: Path | None = None) -> int:
    """How many records there are; unknown is an error."""
    count = count_of(source, base)
    if count is None:
        raise missing(_counted(source, base), "how many records it has", ":count")
    return count


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


def count_of(source: Source, base: Path | None = None) -> int | None:
    """How many records there are; None where nothing tells."""
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
            counts = [count_of(part, base) for part in parts]
            known = [count for count in counts if count is not None]
            if len(known) < len(counts):
                return None
            return sum(known) if isinstance(source, Concat) else mixed_count(known, source.weights)
        case Contexts():
            return _context_count(source, base)
        case Window() | Records() | Take() | Scale() | Normalize():
            return count_of(source.source, base)
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


def _counted(source: Source, base: Path | None) -> File | Contexts:
    """The part of a source that could declare its count and does not; numbers that are made here need not."""
    while not isinstance(source, File | Contexts):
        if isinstance(source, Joined):
            source = next(part for part in source.parts if count_of(part, base) is None)
        else:
            assert not isinstance(source, Arange)
            source = source.source
    return source


def missing(source: Leaf | Contexts, what: str, keyword: str) -> SxError:
    """`E-LOAD-005` of a fact that a source has to declare by a keyword, as the file does not tell it."""
    example = {":count": "100000", ":vocab": "65", ":dtype": ":f32", ":shape": "'(60000 28 28)", ":pad": "16"}
    file = source_leaves(source)[0]
    assert not isinstance(file, Arange)
    return error(
        "E-LOAD-005",
        f"{file.path} does not tell {what}, and the file does not declare it",
        expected=keyword,
        help=f"({kind(source)} ... {keyword} {example[keyword]})",
    )
