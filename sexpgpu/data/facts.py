"""What is known of a source without reading its records: the type of one, the vocabulary; how many: `counts`.

A declared fact counts as it is; one that is not declared is taken from the file where it is there. A fact
that neither gives is `E-LOAD-005`, which names the keyword to write. What reads the files of a kind is imported
where a source of that kind is met: most experiments have one.
"""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from sexpgpu.data.counts import count_of, missing
from sexpgpu.data.files import present
from sexpgpu.data.source import (
    Arange,
    Bpe,
    Bytes,
    Chars,
    Concat,
    Contexts,
    Csv,
    Declared,
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
from sexpgpu.diag import error
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
        count_of(source, base),
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
                raise missing(source, "how long a record is", ":pad")
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


def vocabulary_size(source: Source, base: Path | None = None) -> int:
    """How many ids there are, a BOS among them; unknown is an error."""
    size = _vocabulary(source, base)
    if size is None:
        unknown = next(leaf for leaf in source_leaves(source) if _leaf_vocabulary(leaf, base) is None)
        raise missing(unknown, "how many ids it uses", ":vocab")
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
        raise missing(source, "the type of its records", keyword)
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
        raise missing(source, "how many columns it has", ":shape")
    return TensorType(() if len(source.columns) == 1 else (width,), dtype)


def _columns_type(source: Parquet | Jsonl, base: Path | None) -> TensorType:
    declared: Declared = source.declared
    shape = shape_of(source)
    dtype = declared.dtype or ("f32" if isinstance(source, Jsonl) else None)
    if shape is not None and dtype is not None:
        return TensorType(shape[1:], dtype)
    if not present(source.path, base):
        raise missing(source, "the type of its records", ":shape" if shape is None else ":dtype")
    if isinstance(source, Parquet):
        from sexpgpu.data.parquet import read_columns

        columns = read_columns(source, base)
        return TensorType((shape or columns.shape)[1:], dtype or columns.dtype)
    from sexpgpu.data.jsonl import first_shape, read_objects

    return TensorType(first_shape(source, read_objects(source, base)), dtype or "f32")


def _float_of(dtype: DType) -> DType:
    return dtype if dtype in FLOATS else "f32"
