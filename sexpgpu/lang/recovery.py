"""Going on after a fault inside a form: while a model is made or a graph traced, what fails is told and then poison.

Compiled code guards the bindings and body forms of a user's functions (`Guard`). A guard that catches asks here
whether evaluation goes on: only inside `Recovery.going_on`, and not where a handler waits for the error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sexpgpu.diag import Diagnostic, Span, SxError
from sexpgpu.lang.active import active
from sexpgpu.lang.conditions import Poisoned
from sexpgpu.lang.ir import LocalVar, Node
from sexpgpu.lang.place import Place
from sexpgpu.lang.poison import Poison

MOST: Final = 200
"""How many faults are passed over: code whose end test has failed would otherwise go on for ever."""
ENDING: Final = ("E-LIMIT-001", "E-LIMIT-002", "E-LIMIT-005")
"""Limits that whatever comes next meets again."""


class Guard(Node):
    """A part after whose failure a trace goes on: what it should give, and `vars` that it assigns, are spoilt then."""

    __slots__ = ("part", "single", "vars")

    def __init__(self, place: Place, part: Node, vars: list[LocalVar]) -> None:
        self.place = place
        self.part = part
        self.vars = vars
        self.single = part.single


class Recovery:
    """Whether evaluation goes on after faults now, and after how many it has."""

    __slots__ = ("count", "last", "on")

    def __init__(self) -> None:
        self.on = False
        self.count = 0
        self.last: Poison | None = None

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Faults inside the block that a guard catches are reported there, and evaluation goes on."""
        outer, self.on = self.on, True
        try:
            yield
        finally:
            self.on = outer

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Faults inside the block fly as far as they would otherwise: a macro's expander gives a form or fails."""
        outer, self.on = self.on, False
        try:
            yield
        finally:
            self.on = outer


def recoverable() -> type[Exception] | tuple[()]:
    """What a guard catches now: nothing where evaluation does not go on, as when a limit was met."""
    session = active()
    recovery = session.recovery
    fault = sys.exception()
    coded = fault.diagnostic.code if isinstance(fault, SxError) else ""
    if coded in ENDING or isinstance(fault, RecursionError | StopIteration | MemoryError):
        return ()
    return Exception if recovery.on and recovery.count < MOST and not session.handlers else ()


def spoilt() -> Poison:
    """The value of the guarded part whose exception is being handled, after its report."""
    fault = sys.exception()
    assert isinstance(fault, Exception)
    return poison_of(active().explained(fault, sys._getframe(1).f_back))


def poison_of(fault: SxError, place: Span | None = None) -> Poison:
    """The value of what failed with an explained fault; it is reported, at `place` where it has none of its own."""
    known = isinstance(fault, Poisoned)
    made = Poison(fault.diagnostic if known else told_once(fault.diagnostic.at(place)))
    recovery = active().recovery
    recovery.count += 1
    recovery.last = made
    return made


def told_once(diagnostic: Diagnostic) -> Diagnostic:
    """Report a fault unless the same was reported of its place before: every instance of a model repeats it.

    Nor is one told of a form a part of which has failed, which is what is returned: a loop that failed leaves
    behind what it had collected, and the form around it may refuse that.
    """
    reported = active().diagnostics
    part = next((d for d in reported if d.severity == "error" and _is_part(d.span, diagnostic.span)), None)
    if part is not None:
        return part
    if not any((d.code, d.span) == (diagnostic.code, diagnostic.span) for d in reported):
        reported.report(diagnostic)
    return diagnostic


def _is_part(inner: Span | None, outer: Span | None) -> bool:
    """Whether a place lies inside that of a form other than a whole definition, which begins its line."""
    if inner is None or outer is None or inner == outer or inner.file != outer.file or outer.col == 1:
        return False
    begins = (outer.line, outer.col) <= (inner.line, inner.col)
    return begins and (inner.end_line, inner.end_col) <= (outer.end_line, outer.end_col)
