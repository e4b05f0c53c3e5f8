"""Opening the files behind sources: paths, compression, and one clear error for each way a file can be
bad.
"""

from __future__ import annotations

import gzip
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from sexpgpu.diag import SxError, error


def locate(path: str, base: Path | None) -> Path:
    """Where a source's path leads: a relative one under `base`, or under the working directory."""
    return Path(path) if base is None else base / path


def exists(path: Path) -> bool:
    """Whether there is anything to read at `path`, whatever it is."""
    try:
        return path.exists()
    except OSError:
        return False


def bad_file(path: Path, what: str, reason: str) -> SxError:
    """`E-LOAD-003`: the file is there but is not `what` it should be."""
    return error("E-LOAD-003", f"{path} cannot be read as {what}", expected=what, actual=reason)


def require(path: Path) -> None:
    """`E-LOAD-001` unless there is something at `path`."""
    if not exists(path):
        raise _missing(path)


def _missing(path: Path) -> SxError:
    return error(
        "E-LOAD-001",
        f"there is no file {path}",
        help="a path in an experiment file counts from that file's folder",
    )


@contextmanager
def opened(path: Path, what: str) -> Iterator[IO[bytes]]:
    """The file's bytes as a stream, decompressed when its name ends in `.gz`.

    Faults of the file met inside the `with` become `E-LOAD-001` (missing), `-002` (cannot be opened) or
    `-003` (damaged).
    """
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as unpacked:
                yield cast("IO[bytes]", unpacked)
        else:
            with path.open("rb") as stream:
                yield stream
    except FileNotFoundError:
        raise _missing(path) from None
    except IsADirectoryError:
        raise error("E-LOAD-002", f"{path} is a folder", expected=what, actual="a folder") from None
    except (EOFError, zlib.error) as fault:
        raise bad_file(path, what, f"its compressed data are cut short or damaged ({fault})") from None
    except gzip.BadGzipFile as fault:
        raise bad_file(path, what, f"its name says gzip, but: {fault}") from None
    except OSError as fault:
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
        reason = f"byte {whole[offset]:#04x} at offset {offset} is not UTF-8"
        raise bad_file(path, what, reason) from None
    if not text:
        raise bad_file(path, what, "the file is empty")
    return text
