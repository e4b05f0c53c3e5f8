"""Running the loop in a forked child that dies, by SIGKILL, at a chosen moment."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from sexpgpu.runtime import durable, events
from sexpgpu.runtime.run import RunOptions, run
from tests.runtime.line_fit import NumpyEngine


def in_child(work: Callable[[], int]) -> int:
    """The exit code of `work` in a forked process; a negative one is the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_until_event(engine: NumpyEngine, options: RunOptions, count: int) -> int:
    """Runs in a child that is killed right after its `count`-th event; gives the child's exit code."""

    def work() -> int:
        patch = pytest.MonkeyPatch()
        left = [count]
        write = events.EventStream.write

        def counted(self: events.EventStream, *arguments: Any, **facts: Any) -> None:
            write(self, *arguments, **facts)
            left[0] -= 1
            if left[0] == 0:
                die()

        patch.setattr(events.EventStream, "write", counted)
        return run(engine, options).code

    return in_child(work)


CALLS = ("open", "write", "fsync", "replace", "close")


def run_until_call(
    engine: NumpyEngine,
    options: RunOptions,
    name: str,
    count: int,
    before: Callable[[], None],
    *,
    lasting: bool = False,
) -> int:
    """Runs in a child where the `count`-th system call `name` by the modules that write files meets `before`.

    `before` may kill the process or raise an `OSError`; with `lasting` every later such call meets it too.
    """

    def work() -> int:
        patch = pytest.MonkeyPatch()
        left = [count]
        real = getattr(os, name)

        def counted(*arguments: Any, **keywords: Any) -> Any:
            left[0] -= 1
            if left[0] == 0 or (lasting and left[0] < 0):
                before()
            return real(*arguments, **keywords)

        fake = type("os_seen_by_the_writer", (), dict(vars(os)))
        setattr(fake, name, staticmethod(counted))
        for module in (durable, events):
            patch.setattr(module, "os", fake)
        return run(engine, options).code

    return in_child(work)
