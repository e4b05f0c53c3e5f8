"""Files of nothing but numbers: bytes, and token ids as other programs dump them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sexpgpu.data.arrays import LOADED, Array
from sexpgpu.data.files import bad_file, is_packed, opened, read_bytes, shards
from sexpgpu.data.source import Bytes, Tokens
from sexpgpu.tensortype import DType

_WHAT = {"bytes": "bytes", "tokens": "little-endian integers"}


def stored_type(source: Bytes | Tokens) -> np.dtype[np.generic]:
    """The dtype of the file's elements."""
    return np.dtype("u1" if isinstance(source, Bytes) else f"<{source.dtype[0]}{int(source.dtype[1:]) // 8}")


def id_type(source: Bytes | Tokens) -> DType:
    """What a record is read as: i32 where that holds all of the stored type, else i64."""
    stored = stored_type(source)
    return "i32" if stored.itemsize == 1 else LOADED[stored.name]


def binary_count(source: Bytes | Tokens, base: Path | None) -> int:
    """How many records the files hold, by their sizes where they are plain."""
    size = stored_type(source).itemsize
    plain = [path for path in shards(source.path, base) if not is_packed(path)]
    packed = [path for path in shards(source.path, base) if is_packed(path)]
    return sum(_size(path) // size for path in plain) + sum(len(_read(source, path)) for path in packed)


def read_binary(source: Bytes | Tokens, base: Path | None) -> list[Array]:
    """The elements of each file; plain files are mapped, not read."""
    return [_read(source, path) for path in shards(source.path, base)]


def _size(path: Path) -> int:
    with opened(path, "a file of numbers") as stream:
        return stream.seek(0, 2)


def _read(source: Bytes | Tokens, path: Path) -> Array:
    stored, what = stored_type(source), _WHAT["bytes" if isinstance(source, Bytes) else "tokens"]
    data = read_bytes(path, what) if is_packed(path) else None
    size = _size(path) if data is None else len(data)
    if size == 0:
        raise bad_file(path, what, "the file is empty")
    if size % stored.itemsize:
        raise bad_file(path, what, f"its {size} bytes are no whole number of integers of {stored.itemsize} bytes")
    return np.memmap(path, stored, "r") if data is None else np.frombuffer(data, stored)
