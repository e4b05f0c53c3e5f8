"""The files that the command line names: read, or refused with a code, before anything heavy is imported."""

from __future__ import annotations

import os
from pathlib import Path

from sexpgpu.diag import error


def require_file(path: Path) -> None:
    """E-IO-101 to E-IO-103: the file is missing, is a directory, or is not text."""
    if path.is_dir():
        raise error("E-IO-102", f"{path} is a directory", expected="a .sx file")
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*.sx"))[:5] if path.parent.is_dir() else []
        raise error("E-IO-101", f"there is no file {path}", help="there are " + " ".join(near) if near else None)
    try:
        path.read_text("utf-8")
    except UnicodeDecodeError as fault:
        raise error("E-IO-103", f"{path} is not UTF-8 text", actual=f"byte {fault.start} is no UTF-8") from None
    except OSError as fault:
        raise error("E-IO-104", f"{path} cannot be read", actual=str(fault.strerror)) from None


def read_source(path: Path) -> tuple[str, str]:
    """A file's text as it is written, and as the reader takes it: its line ends made one character.

    Raises as `require_file`.
    """
    require_file(path)
    written = path.read_bytes().decode("utf-8")
    return written, written.replace("\r\n", "\n").replace("\r", "\n")


def require_new(path: Path) -> None:
    """E-IO-107: something is there already."""
    if path.exists() or path.is_symlink():
        raise error("E-IO-107", f"{path} exists already", help="name a file that does not")


def write_whole(path: Path, text: str, *, new: bool = False) -> None:
    """Put `text` under `path`: all of it or, on any fault, nothing. E-IO-106 where that fails.

    With `new` the name must be free (E-IO-107); else the file keeps its permissions.
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, "utf-8", newline="\n")
        try:
            if new:
                os.link(temporary, target)  # unlike a rename, refuses a name that is taken
            else:
                temporary.chmod(target.stat().st_mode & 0o7777)
                os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError:
        require_new(path)
        raise
    except OSError as fault:
        raise error("E-IO-106", f"{path} cannot be written", actual=str(fault.strerror)) from None
