"""Columns of Parquet files, through the package pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from sexpgpu.data.arrays import LOADED, Array
from sexpgpu.data.files import bad_file, missing_package, opened, shards, signature
from sexpgpu.data.source import Parquet
from sexpgpu.diag import error, nearest
from sexpgpu.tensortype import DType

_WHAT = "a Parquet file"


@frozen(eq=False)
class Columns:
    """The chosen columns of all files, [rows, ...], and the type that their records are read in."""

    data: tuple[Array, ...]
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(map(len, self.data)), *self.data[0].shape[1:])


def read_columns(source: Parquet, base: Path | None) -> Columns:
    """The data, read once while the files stay as they are. `E-LOAD-004`: no such column. `E-DEV-010`: no pyarrow."""
    return _columns(source.columns, signature(shards(source.path, base)))


@lru_cache(maxsize=8)
def _columns(names: tuple[str, ...], files: tuple[tuple[Path, int, int], ...]) -> Columns:
    arrays = [_read(path, names) for path, _, _ in files]
    first = arrays[0]
    for (path, _, _), array in zip(files, arrays, strict=True):
        if (array.shape[1:], array.dtype) != (first.shape[1:], first.dtype):
            reason = f"its records are {array.dtype.name}{list(array.shape[1:])}, those of {files[0][0].name} are "
            raise bad_file(path, _WHAT, f"{reason}{first.dtype.name}{list(first.shape[1:])}")
    return Columns(tuple(arrays), LOADED[first.dtype.name])


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Faults of the file as its library finds them, as `E-LOAD-003`."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError) as fault:
        raise bad_file(path, _WHAT, str(fault).partition("\n")[0]) from None


def _read(path: Path, names: tuple[str, ...]) -> Array:
    try:
        from pyarrow import parquet
    except ImportError:
        raise missing_package("parquet", "pyarrow", "parquet") from None
    with opened(path, _WHAT) as stream:
        with _told(path):
            file = parquet.ParquetFile(stream)
            known = file.schema_arrow.names
        chosen = [_place(path, name, known) for name in names] or known
        with _told(path):
            table = file.read(columns=chosen)
    if not table.num_rows:
        raise bad_file(path, _WHAT, "it has no rows")
    arrays = [_array(path, name, table.column(name).combine_chunks()) for name in chosen]
    if len(arrays) == 1:
        return arrays[0]
    for name, array in zip(chosen, arrays, strict=True):
        if array.ndim > 1 or array.dtype != arrays[0].dtype:
            kind = "lists" if array.ndim > 1 else array.dtype.name
            reason = f"column {name} holds {kind}, and {chosen[0]} {arrays[0].dtype.name}"
            raise bad_file(path, "columns of numbers of one type", reason)
    return np.stack(arrays, axis=1)


def _place(path: Path, name: str, known: list[str]) -> str:
    found = [k for k in known if k == name] or [k for k in known if k.lower() == name.lower()]
    if not found:
        near = nearest(name, known)
        raise error(
            "E-LOAD-004",
            f"{path} has no column named {name}",
            expected=", ".join(known),
            actual=name,
            help=f"did you mean {near}?" if near else None,
        )
    return found[0]


def _array(path: Path, name: str, column: Any) -> Array:
    """The cells of one column, [rows] or [rows, length]."""
    from pyarrow import compute, types

    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise bad_file(path, _WHAT, f"column {name} has nothing in row {row}")
    kind = column.type
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
        if (wrong := np.flatnonzero(lengths != lengths[0])).size:
            row = int(wrong[0])
            reason = f"column {name} has {lengths[row]} numbers in row {row}, {lengths[0]} in row 0"
            raise bad_file(path, _WHAT, reason)
        return _array(path, name, column.flatten()).reshape(len(column), int(lengths[0]))
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise bad_file(path, "columns of numbers", f"column {name} holds {kind}")
    array: Array = column.to_numpy(zero_copy_only=False)
    if array.dtype.name not in LOADED:
        raise bad_file(path, f"columns of {', '.join(LOADED)}", f"column {name} holds {kind}")
    return array
