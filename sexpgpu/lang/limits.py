"""The bounds of evaluation at compile time, and the thread deep recursion needs."""

from __future__ import annotations

import itertools
import operator
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, TypeVar

from attrs import frozen

from sexpgpu.diag import Note, SxError, error

R = TypeVar("R")

STACK_BYTES = 512 << 20
DEEPEST = 220_000
"""Python frames; a Lisp call is one, or two where a loop in it makes fresh bindings."""
DEEPEST_EVALUATION = 2_200
"""How deep `eval`, `progn` at the top, types and symbol macros may be nested in each other; a text may 2,000."""


@frozen
class Limits:
    """The work of one session; sizes of results are bounded by the library itself.

    A step is the work of an empty turn of a loop, a tenth of a microsecond or so.
    """

    steps: int = 4_000_000  # less than a second; tracing 12 layers takes half a million


class Steps:
    """The step budget of a session. `tick` takes one step: a C function, since compiled code calls it everywhere."""

    __slots__ = ("_count", "_left", "tick")

    def __init__(self, count: int) -> None:
        self._count = count
        self._left = itertools.repeat(None, count)
        supply: Iterator[Any] = _Supply(self._left, count)
        self.tick: Callable[[], None] = itertools.chain.from_iterable(supply).__next__

    @property
    def left(self) -> int:
        """How many steps may still be taken."""
        return operator.length_hint(self._left)

    def spend(self, steps: int) -> None:
        """Take many steps at once, for the work of a builtin."""
        self.use_up(steps)
        if not operator.length_hint(self._left):
            raise out_of_steps(self._count)

    def use_up(self, steps: int) -> None:
        """As `spend`, where nothing can be raised: whatever is evaluated next is."""
        if steps > 0:
            deque(islice(self._left, steps), maxlen=0)


class _Supply:
    """Gives the budget and, once that is used up, an error (E-LIMIT-001)."""

    __slots__ = ("_budget", "_count", "_given")

    def __init__(self, budget: Iterator[None], count: int) -> None:
        self._budget = budget
        self._count = count
        self._given = False

    def __iter__(self) -> _Supply:
        return self

    def __next__(self) -> Iterator[None]:
        if not self._given:
            self._given = True
            return self._budget
        raise out_of_steps(self._count)


class Nesting:
    """What the evaluator does within itself, which takes far more stack than a call does."""

    __slots__ = ("_depth",)

    def __init__(self) -> None:
        self._depth = 0

    @contextmanager
    def within(self, what: str, most: int = DEEPEST_EVALUATION) -> Iterator[None]:
        """Do something that may contain itself (E-LIMIT-002)."""
        if self._depth >= most:
            raise error("E-LIMIT-002", f"{what} is nested more than {most:,} deep")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


def several(tick: Callable[[], Any], count: int) -> Callable[[], Any]:
    """`tick` as often as `count` says in one call, which costs little more than one."""
    budget = getattr(tick, "__self__")  # noqa: B009  the iterator whose bound __next__ it is
    return zip(*[budget] * count, strict=False).__next__


OUT_OF_STEPS: Final = "evaluation takes too many steps"


def out_of_steps(steps: int) -> SxError:
    """E-LIMIT-001, of a budget of so many."""
    unseen = Note("what would be evaluated after it is not examined")
    help = f"a loop or a recursion does not end, or the file needs more than the {steps:,} steps that it has in all"
    return error("E-LIMIT-001", OUT_OF_STEPS, help=help, notes=[unseen])


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
