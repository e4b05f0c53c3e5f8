"""The value of what has failed where a trace goes on: it takes every use in silence, so that one fault is told once."""

from __future__ import annotations

from types import FrameType, TracebackType
from typing import Any, Final

from sexpgpu.diag import Diagnostic, SxError
from sexpgpu.lang.calls import MARK
from sexpgpu.lang.conditions import Poisoned
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import MV, Cons

MOST_ELEMENTS: Final = 1000
"""How many elements of a list are looked at."""


class Poison(Foreign):
    """What failed, and how: `diagnostic` has been reported."""

    __slots__ = ("diagnostic",)

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic

    def lisp_generic(self, name: str, args: tuple[Any, ...], /) -> Any:
        return self

    def lisp_call(self, *args: Any) -> Any:
        return self

    def lisp_test(self) -> bool:
        raise Poisoned(self.diagnostic)

    def lisp_refused(self, message: str, needs: str, /) -> SxError:
        return Poisoned(self.diagnostic)

    def lisp_print(self) -> str:
        return "#<failed>"


def poison_among(value: Any) -> Poison | None:
    """The value itself where it is poison, or the first poison among its elements."""
    waiting, met = [value], set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, Poison):
            return part
        if not isinstance(part, tuple | list | MV | Cons) or id(part) in met:
            continue
        met.add(id(part))  # a vector may hold itself
        if isinstance(part, Cons):
            walked = 0
            while isinstance(part, Cons) and walked < MOST_ELEMENTS:
                if isinstance(part.car, Poison):
                    return part.car
                part, walked = part.cdr, walked + 1
        else:
            waiting += reversed((part.values if isinstance(part, MV) else part)[:MOST_ELEMENTS])
    return None


def poison_met(traceback: TracebackType | None) -> Poison | None:
    """The poison that the builtin which failed was working on, or what called Lisp from outside."""
    frames: list[FrameType] = []
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    called = next((i for i, frame in enumerate(reversed(frames)) if MARK in frame.f_globals), len(frames))
    for frame in frames[len(frames) - called :]:
        for value in frame.f_locals.values():
            found = poison_among(value)
            if found is not None:
                return found
    return None
