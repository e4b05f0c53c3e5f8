"""Opening the files behind sources: paths, shards, compression, and a clear error for each way a file can be bad."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sexpgpu.diag import SxError, error

_UNPACK: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_WILD = frozenset("*?[")


def locate(path: str, base: Path | None) -> Path:
    """Where a source's path leads: a relative one under `base`, or under the working directory."""
    return Path(path) if base is None else base / path


def shards(path: str, base: Path | None) -> list[Path]:
    """The files that a path means: itself, or in the order of their names those that its wildcards match.

    `E-LOAD-001`: there is none. `E-LOAD-011`: the path is an address.
    """
    if "://" in path:
        raise error(
            "E-LOAD-011",
            f"{path} is an address, and sources read files",
            expected="the path of a file that is here",
            actual=path,
            help="fetch it first; declared facts let the file compile meanwhile",
        )
    found = _matches(path, base)
    if not found:
        raise _missing(locate(path, base))
    return found


def present(path: str, base: Path | None) -> bool:
    """Whether there is anything to read behind a path, whatever it is."""
    return "://" not in path and bool(_matches(path, base))


def _matches(path: str, base: Path | None) -> list[Path]:
    whole = locate(path, base)
    if _exists(whole):
        return [whole]
    if not _WILD & set(path):
        return []
    root = Path(whole.anchor) if whole.is_absolute() else Path()
    pattern = str(whole.relative_to(whole.anchor)) if whole.is_absolute() else str(whole)
    return sorted(found for found in root.glob(pattern) if found.is_file())


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def signature(paths: list[Path]) -> tuple[tuple[Path, int, int], ...]:
    """What changes when one of the files does; what cannot be asked is read, and says itself what is wrong."""
    found = []
    for path in paths:
        try:
            stat = path.stat()
            found.append((path, stat.st_mtime_ns, stat.st_size))
        except OSError:
            found.append((path, 0, 0))
    return tuple(found)


def bad_file(path: Path, what: str, reason: str) -> SxError:
    """`E-LOAD-003`: the file is there but is not `what` it should be."""
    return error("E-LOAD-003", f"{path} cannot be read as {what}", expected=what, actual=reason)


def missing_package(source: str, package: str, extra: str) -> SxError:
    """`E-DEV-010`: what `(source ...)` is read with is not installed."""
    return error(
        "E-DEV-010",
        f"`({source} ...)` is read with the package {package}, which is not installed",
        help=f"pip install 'sexpgpu[{extra}]'",
    )


def _missing(path: Path) -> SxError:
    if _WILD & set(str(path)):
        return error("E-LOAD-001", f"no file is named like {path}", help="* stands for any part of a name")
    return error(
        "E-LOAD-001",
        f"there is no file {path}",
        help="a path in an experiment file counts from that file's folder",
    )


def is_packed(path: Path) -> bool:
    """Whether the file's name says that its bytes are compressed."""
    return path.suffix in _UNPACK


@contextmanager
def opened(path: Path, what: str) -> Iterator[IO[bytes]]:
    """The file's bytes as a stream, decompressed when its name ends in `.gz`, `.bz2` or `.xz`.

    Faults of the file met inside the `with` become `E-LOAD-001` (missing), `-002` (cannot be opened) or
    `-003` (damaged).
    """
    if path.suffix == ".zst":
        raise error(
            "E-LOAD-002",
            f"{path} is compressed by zstd, which is not read",
            expected=f"a plain file, or one of {' '.join(_UNPACK)}",
            actual=".zst",
            help="zstd -d unpacks it",
        )
    try:
        with _UNPACK[path.suffix](path) if is_packed(path) else path.open("rb") as stream:
            yield stream
    except FileNotFoundError:
        raise _missing(path) from None
    except IsADirectoryError:
        raise error("E-LOAD-002", f"{path} is a folder", expected=what, actual="a folder") from None
    except (EOFError, zlib.error, lzma.LZMAError) as fault:
        raise bad_file(path, what, f"its compressed data are cut short or damaged ({fault})") from None
    except OSError as fault:
        # Only the system gives numbers; what has none comes from a decompressor.
        if fault.errno is None and is_packed(path):
            raise bad_file(path, what, f"its name says {path.suffix}, but: {fault}") from None
        raise error("E-LOAD-002", f"{path} cannot be opened: {fault.strerror or fault}") from None


def read_bytes(path: Path, what: str) -> bytes:
    with opened(path, what) as stream:
        return stream.read()


def read_text(path: Path, what: str) -> str:
    """The whole file as UTF-8, its line ends as they are; `E-LOAD-003` names the first byte that is not.

    A byte order mark in front is a signature of the encoding, no part of the text.
    """
    whole = read_bytes(path, what)
    data = whole.removeprefix(BOM_UTF8)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as fault:
        offset = fault.start + len(whole) - len(data)
        line = whole.count(b"\n", 0, offset) + 1
        reason = f"byte {whole[offset]:#04x} at offset {offset}, in line {line}, is not UTF-8"
        raise bad_file(path, what, reason) from None
    if not text:
        raise bad_file(path, what, "the file is empty")
    return text
