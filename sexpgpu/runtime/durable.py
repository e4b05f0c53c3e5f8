"""Files that survive a crash: written whole, flushed to the disk, visible under their name only then."""

from __future__ import annotations

import os
from pathlib import Path


def write_synced(path: Path, data: bytes) -> None:
    """A new file with `data`, on the disk when this returns; the name must be free."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_synced(path: Path, data: bytes, temporary: Path) -> None:
    """`path` holds `data`, or what it held before: never a part of either, also after a power cut."""
    temporary.unlink(missing_ok=True)
    write_synced(temporary, data)
    os.replace(temporary, path)
    sync_directory(path.parent)


def replace_file(path: Path, data: bytes) -> None:
    """As `replace_synced` for readers beside us, without waiting for the disk."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def sync_directory(path: Path) -> None:
    """Makes the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Writes every byte; `os.write` alone may write fewer."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
