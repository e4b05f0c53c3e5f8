"""The files that the command line names: read, or refused with a code, before anything heavy is imported."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from attrs import evolve

from sexpgpu import knobs
from sexpgpu.diag import Diagnostic, Span, SxError, error, nearest, warning

STANDARD_INPUT = "-"
"""The name under which the verbs take a text from standard input."""


def require_file(path: Path, suffix: str = ".sx") -> None:
    """E-IO-101 to E-IO-104: the file is missing, is no file, is not text, or may not be read."""
    if str(path) == STANDARD_INPUT:
        return
    if path.is_dir():
        raise error("E-IO-102", f"{path} is a directory", expected=f"a {suffix} file")
    try:
        path.stat()
    except FileNotFoundError:
        raise _missing(path, suffix) from None
    except OSError as fault:
        raise error("E-IO-104", f"{path} cannot be read", actual=str(fault.strerror)) from None
    if not path.is_file():
        raise error(
            "E-IO-102", f"{path} is no regular file", expected=f"a {suffix} file", help="`-` reads from standard input"
        )
    try:
        path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as fault:
        raise not_text(str(path), str(path), fault) from None
    except OSError as fault:
        raise error("E-IO-104", f"{path} cannot be read", actual=str(fault.strerror)) from None


def not_text(name: str, what: str, fault: UnicodeDecodeError) -> SxError:
    """E-IO-103 at the line and column of the first byte that is no UTF-8; `name` is that of the span's file."""
    before = fault.object[: fault.start].decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    line, col = before.count("\n") + 1, len(before) - before.rfind("\n")
    return error(
        "E-IO-103",
        f"{what} is not UTF-8 text",
        Span(name, line, col, line, col + 1),
        actual=f"byte {fault.start} is no UTF-8",
    )


def _missing(path: Path, suffix: str) -> Exception:
    if path.is_symlink():
        return error("E-IO-101", f"{path} is a link to a file that is not there", actual=f"{path.readlink()}")
    here = sorted(p.name for p in path.parent.glob(f"*{suffix}") if p.is_file()) if path.parent.is_dir() else []
    near = nearest(path.name, here)
    help = f"did you mean {path.with_name(near)}?" if near is not None else f"there are {' '.join(here[:5])}"
    return error("E-IO-101", f"there is no file {path}", help=help if here else None)


def read_source(path: Path, suffix: str = ".sx") -> tuple[str, str]:
    """A file's text as it is written, and as the reader takes it: its line ends made one character.

    Raises as `require_file`.
    """
    require_file(path, suffix)
    written = _standard_input() if str(path) == STANDARD_INPUT else path.read_bytes().decode("utf-8")
    return written, written.replace("\r\n", "\n").replace("\r", "\n")


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as fault:
        raise not_text(STANDARD_INPUT, "standard input", fault) from None


def cache_warning() -> Diagnostic | None:
    """W-IO-002 where nothing can be kept in the folder that SEXPGPU_CACHE names."""
    folder = knobs.cache_folder()
    if knobs.CACHE.get() is None or folder is None:
        return None
    standing = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not standing.is_dir():
        reason = f"{standing} is no folder"
    elif os.access(standing, os.W_OK | os.X_OK) and _takes_files(folder):
        return None
    else:
        reason = f"{standing} cannot be written"
    message = f"SEXPGPU_CACHE: nothing can be kept in {folder}"
    return evolve(warning("W-IO-002", message), actual=reason, help="SEXPGPU_CACHE=off keeps nothing without a warning")


def _takes_files(folder: Path) -> bool:
    """Make a folder, which was named to be written to, and a file in it that has no name: some file systems refuse
    what permissions allow.
    """
    import tempfile  # which few commands wait for

    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def require_new(path: Path) -> None:
    """E-IO-107: something is there already."""
    if path.exists() or path.is_symlink():
        raise error("E-IO-107", f"{path} exists already", help="name a file that does not")


def write_whole(path: Path, text: str, *, new: bool = False) -> None:
    """Put `text` under `path`: all of it or, on any fault, nothing. E-IO-106 where that fails.

    With `new` the name must be free (E-IO-107); else a file that is there keeps its permissions.
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, "utf-8", newline="\n")
        try:
            if new:
                os.link(temporary, target)  # unlike a rename, refuses a name that is taken
            else:
                if target.exists():
                    temporary.chmod(target.stat().st_mode & 0o7777)
                os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError:
        require_new(path)
        raise
    except OSError as fault:
        raise error("E-IO-106", f"{path} cannot be written", actual=str(fault.strerror)) from None
