"""Array files: the header and the data of `.npy`, `.npz` and IDX files, plain or compressed."""

from __future__ import annotations

import io
import math
import mmap
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from sexpgpu.data.files import bad_file, is_packed, opened, read_bytes, shards
from sexpgpu.data.source import ArrayLeaf, Idx, Npy, Npz
from sexpgpu.diag import error
from sexpgpu.tensortype import DType

Array = NDArray[Any]

NUMPY_DTYPE: dict[DType, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(np.float32),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}

_SPELLED = {kind: dtype for dtype, kind in reversed(NUMPY_DTYPE.items()) if dtype != "bf16"}


def type_text(array: Array) -> str:
    """An array's type as a tensor's is spelt, `f32[2, 3]`; NumPy's name for what no tensor can be."""
    return f"{_SPELLED.get(array.dtype, array.dtype.name)}{list(array.shape)}"


# Each file dtype that a record can have, and those that widen without loss. Byte order does not matter.
LOADED: dict[str, DType] = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f32",
    "int64": "i64",
    "uint32": "i64",
    "int32": "i32",
    "uint16": "i32",
    "int16": "i32",
    "int8": "i32",
    "uint8": "u8",
    "bool": "bool",
}

# The third byte of an IDX file's magic number.
_IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_IDX_WHAT = "an IDX array"
_NPY_WHAT = "a NumPy array file"
_NPZ_WHAT = "a NumPy archive"


@frozen
class Header:
    """What an array file says of itself; `dtype` is the type its records are read in."""

    shape: tuple[int, ...]
    dtype: DType


def array_header(source: ArrayLeaf, base: Path | None) -> Header:
    """Shape and dtype of the array, all files of it together, without reading its data."""
    paths = shards(source.path, base)
    headers = [_file_header(source, path) for path in paths]
    first = headers[0]
    for path, header in zip(paths, headers, strict=True):
        if (header.shape[1:], header.dtype) != (first.shape[1:], first.dtype):
            what = f"a part of what {paths[0].name} begins, records of {first.dtype}{list(first.shape[1:])}"
            raise bad_file(path, what, f"its records are {header.dtype}{list(header.shape[1:])}")
    return Header((sum(header.shape[0] for header in headers), *first.shape[1:]), first.dtype)


def _file_header(source: ArrayLeaf, path: Path) -> Header:
    match source:
        case Npy():
            with opened(path, _NPY_WHAT) as stream:
                return _npy_header(stream, path, _NPY_WHAT)
        case Npz(key=key):
            with _archive(path) as archive, _member(archive, path, key) as stream:
                return _npy_header(stream, path, _NPY_WHAT)
        case Idx():
            with opened(path, _IDX_WHAT) as stream:
                shape, dtype, _ = _idx_header(stream, path)
                return _header(shape, dtype, path, _IDX_WHAT)


def read_arrays(source: ArrayLeaf, base: Path | None) -> list[Array]:
    """The array of each file, as stored; an uncompressed `.npy` is mapped, not read."""
    array_header(source, base)
    return [_file_array(source, path) for path in shards(source.path, base)]


def _file_array(source: ArrayLeaf, path: Path) -> Array:
    match source:
        case Npy():
            return _read_npy(path)
        case Npz(key=key):
            with _archive(path) as archive, _member(archive, path, key) as stream:
                try:
                    shape, dtype = _npy_layout(stream, path, _NPZ_WHAT)
                    size = archive.getinfo(f"{key}.npy").file_size
                    _require_size(path, _NPZ_WHAT, stream.tell(), shape, dtype, size)
                    stream.seek(0)
                    return np.lib.format.read_array(stream, allow_pickle=False)
                except (ValueError, zipfile.BadZipFile, zlib.error, EOFError) as fault:
                    raise bad_file(path, _NPZ_WHAT, str(fault)) from None
        case Idx():
            return _read_idx(path)


def _header(shape: tuple[int, ...], dtype: np.dtype[Any], path: Path, what: str) -> Header:
    loaded = LOADED.get(dtype.name)
    if loaded is None:
        readable = ", ".join(LOADED)
        raise error(
            "E-LOAD-003",
            f"{path} holds elements of a type that records cannot have",
            expected=readable,
            actual=str(dtype.name),
        )
    if not shape:
        raise bad_file(path, what, "it holds one number, with no axis that counts records")
    if shape[0] == 0:
        raise bad_file(path, what, "it holds no records")
    return Header(shape, loaded)


def _require_size(path: Path, what: str, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any], found: int) -> None:
    """`E-LOAD-003` unless the file ends where its header, of `offset` bytes, says that the array does."""
    promised = offset + math.prod(shape) * dtype.itemsize
    if found != promised:
        raise bad_file(path, what, f"its header promises {promised} bytes, the file has {found}")


def _npy_header(stream: IO[bytes], path: Path, what: str) -> Header:
    shape, dtype = _npy_layout(stream, path, what)
    return _header(shape, dtype, path, what)


def _npy_layout(stream: IO[bytes], path: Path, what: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and stored dtype; the stream is then where the array begins."""
    try:
        if np.lib.format.read_magic(stream) == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    except (ValueError, SyntaxError, TypeError, RecursionError) as fault:
        raise bad_file(path, what, str(fault).partition("\n")[0]) from None
    if any(length < 0 for length in shape):
        raise bad_file(path, what, f"its header promises the shape {list(shape)}")
    return shape, dtype


def _read_npy(path: Path) -> Array:
    with opened(path, _NPY_WHAT) as stream:
        data = io.BytesIO(stream.read()) if is_packed(path) else None
        whole = stream if data is None else data
        shape, dtype = _npy_layout(whole, path, _NPY_WHAT)
        offset = whole.tell()
        _require_size(path, _NPY_WHAT, offset, shape, dtype, whole.seek(0, io.SEEK_END))
    try:
        if data is not None:
            data.seek(0)
            return np.lib.format.read_array(data, allow_pickle=False)
        mapped: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        return mapped
    except (ValueError, EOFError, OSError) as fault:
        raise bad_file(path, _NPY_WHAT, str(fault)) from None


def require_mapped(data: Array) -> None:
    """`E-LOAD-003` where a file has lost bytes since it was mapped: to touch what is not there any more would kill the
    process. Costs a microsecond; an array that is no map has nothing to lose.
    """
    under: object = data.base
    if isinstance(data, np.memmap) and isinstance(under, mmap.mmap):
        mapped, now = data.offset + data.nbytes, under.size()
        if now < mapped:
            path = Path(str(data.filename))
            raise bad_file(path, f"the {mapped} bytes that it had when it was opened", f"{now} bytes: it was cut since")


def _archive(path: Path) -> zipfile.ZipFile:
    with opened(path, _NPZ_WHAT) as stream:
        try:
            return zipfile.ZipFile(io.BytesIO(stream.read()) if is_packed(path) else path)
        except zipfile.BadZipFile as fault:
            raise bad_file(path, _NPZ_WHAT, str(fault)) from None


def _member(archive: zipfile.ZipFile, path: Path, key: str) -> IO[bytes]:
    try:
        return archive.open(f"{key}.npy")
    except KeyError:
        names = ", ".join(name.removesuffix(".npy") for name in archive.namelist())
        raise error("E-LOAD-004", f"{path} has no array {key}", expected=key, actual=names) from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as fault:
        raise bad_file(path, _NPZ_WHAT, str(fault)) from None


def _idx_header(stream: IO[bytes], path: Path) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, stored dtype and the number of header bytes."""
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX_TYPES:
        raise bad_file(path, _IDX_WHAT, f"it starts with the bytes {magic.hex(' ') or '(none)'}")
    rank = magic[3]
    lengths = stream.read(4 * rank)
    if len(lengths) < 4 * rank:
        raise bad_file(path, _IDX_WHAT, "it ends inside its header")
    return struct.unpack(f">{rank}I", lengths), np.dtype(_IDX_TYPES[magic[2]]), 4 + 4 * rank


def _read_idx(path: Path) -> Array:
    data = read_bytes(path, _IDX_WHAT)
    shape, dtype, offset = _idx_header(io.BytesIO(data), path)
    _require_size(path, _IDX_WHAT, offset, shape, dtype, len(data))
    return np.frombuffer(data, dtype, offset=offset).reshape(shape)
