"""Where the programs start: `python -m sexpgpu`, `sexpgpu`, `sexpgpu-opt` and `sexpgpu-sim`.

Nothing is imported before SIGINT has its meaning: the process says so and ends at once with 130, whatever is being
loaded then. An exception there would come out of the middle of somebody's import, as a traceback, or crash a library
that is half initialized. Verbs with something to put in order (`run`, `watch`) take the signal over. Until this file is
reached, the signal is the interpreter's own.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from contextlib import suppress


def _leave(number: int, frame: object) -> None:
    # Not through the stream: the signal may have come in the middle of a write to it.
    with suppress(OSError):
        os.write(2, b"sexpgpu: interrupted\n")
    os._exit(128 + number)


def _open_streams() -> None:
    """Open what the caller has closed of the three streams, on nothing; what is printed never fails for a character.

    Python has None for a closed stream, and the first file opened afterwards would take its number and get what
    is written to standard error. A character that the stream's encoding has no bytes for, as in the name of a file
    that is not UTF-8, is printed as its escape.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """The command line."""
    signal.signal(signal.SIGINT, _leave)
    _open_streams()
    from sexpgpu.cli import main as run

    run()


def opt() -> None:
    """The dialect's tool."""
    signal.signal(signal.SIGINT, _leave)
    _open_streams()
    from sexpgpu.cli.opt import main as run

    run()


def sim() -> None:
    """The simulated GPU's tool."""
    signal.signal(signal.SIGINT, _leave)
    _open_streams()
    from sexpgpu.cli.sim import main as run

    run()


if __name__ == "__main__":
    main()
