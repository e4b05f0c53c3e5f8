"""Where the programs start: `python -m sexpgpu`, `sexpgpu` and `sexpgpu-opt`.

Nothing is imported before SIGINT has its meaning: the process ends at once with 130, whatever is being loaded then. An
exception there would come out of the middle of somebody's import, as a traceback, or crash a library that is half
initialized. Verbs with something to put in order (`run`, `watch`) take the signal over.
"""

from __future__ import annotations

import os
import signal


def _leave(number: int, frame: object) -> None:
    os._exit(128 + number)


def main() -> None:
    """The command line."""
    signal.signal(signal.SIGINT, _leave)
    from sexpgpu.cli import main as run

    run()


def opt() -> None:
    """The dialect's tool."""
    signal.signal(signal.SIGINT, _leave)
    from sexpgpu.cli.opt import main as run

    run()


if __name__ == "__main__":
    main()
