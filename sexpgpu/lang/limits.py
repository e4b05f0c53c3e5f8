"""The bounds of evaluation at compile time, and the thread deep recursion needs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from attrs import frozen

R = TypeVar("R")

STACK_BYTES = 512 << 20
DEEPEST = 220_000
"""Python frames; a Lisp call is one, or two where a loop in it makes fresh bindings."""


@frozen
class Limits:
    """Function calls and loop turns of one session; sizes of results are bounded by the library itself."""

    steps: int = 20_000_000


def run_deep(work: Callable[[], R]) -> R:
    """The result of `work()`, run in a thread whose stack allows 100,000 nested Lisp calls.

    Its exception is raised here. The calling thread waits, so signals still reach it.
    """
    results: list[R] = []
    faults: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as fault:  # handed to the caller, whatever it is
            faults.append(fault)

    old_size, old_limit = threading.stack_size(STACK_BYTES), sys.getrecursionlimit()
    sys.setrecursionlimit(DEEPEST)
    try:
        thread = threading.Thread(target=run, name="sexpgpu-lisp", daemon=True)
        thread.start()
        threading.stack_size(old_size)
        thread.join()
    finally:
        threading.stack_size(old_size)
        sys.setrecursionlimit(old_limit)
    if faults:
        raise faults[0]
    return results[0]
