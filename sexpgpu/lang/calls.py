"""The `.sx` calls that an error left, as a traceback shows them, and what a message says of them."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from types import CodeType, FrameType, TracebackType
from typing import Final
from weakref import ref

from attrs import frozen

from sexpgpu.diag import Note, Span
from sexpgpu.lang.active import active
from sexpgpu.lang.forms import Source, symbol
from sexpgpu.lang.functions import FunctionInfo, info_of
from sexpgpu.lang.module import Module
from sexpgpu.lang.place import EVALUATED, Trail

_Position = tuple[int | None, int | None, int | None, int | None]
"""As Python has it: line, last line, column and last column, counted from 0."""
MARK: Final = "rt.module"
"""The name in a namespace that says its code came from a `.sx` file, and which module that is."""

_positions: Final[dict[int, tuple[ref[CodeType], list[Span | _Position | None]]]] = {}
"""By the identity of the code, as long as it lives: to hash it would be to hash all its constants."""
PROMISED_DEPTH: Final = 100_000
"""Lisp calls that may always be nested, where no builtin is among them."""
MODEL: Final = "defmodel"
MOST_NOTES: Final = 5
LONGEST_CYCLE: Final = 4
MOST_EXAMINED: Final = 5_000
"""Frames looked at from either end of a deep recursion; those between them are taken to be as these are."""
SHALLOW: Final = 1_000
WALK_WORK: Final = 4
"""Steps that a frame takes where more than `SHALLOW` were left by an error."""


def span_at(code: CodeType, instruction: int) -> Span | None:
    """The place of an instruction; the first look at a code object reads all its positions."""
    found = _positions.get(id(code))
    if found is None:
        forget = partial(_positions.pop, id(code))  # called with what is given where it is not there
        found = _positions[id(code)] = ref(code, forget), list(code.co_positions())
    table, at = found[1], instruction >> 1
    place = table[at]
    if isinstance(place, tuple):
        line, end_line, col, end_col = place
        known = line is not None and end_line is not None and col is not None and end_col is not None
        place = table[at] = Span(code.co_filename, line, col + 1, end_line, end_col + 1) if known else None  # type: ignore[operator,arg-type]
    return place


def by_macro(code: CodeType, span: Span | None) -> bool:
    """Whether it is a local function that a macro wrote: no form in it has a place of its own."""
    if "<locals>" not in code.co_qualname:
        return False
    info = info_of(code.co_name)
    return info is not None and info.span == span


class Step:
    """One `.sx` frame of a traceback."""

    __slots__ = ("definition", "module", "name", "span")

    def __init__(self, name: str, definition: str, span: Span | None, module: Module) -> None:
        self.name = name
        self.definition = definition  # the global function it belongs to
        self.span = span
        self.module = module

    @property
    def trail(self) -> Trail | None:
        """The expansions that wrote the form, where a macro did."""
        if self.span is None:
            return None
        place = (self.span.line, self.span.col - 1, self.span.end_line, self.span.end_col - 1)
        return self.module.trails.get(place)


@frozen
class Calls:
    """The `.sx` frames of a traceback, outermost first; of a deep one, those at its two ends."""

    steps: list[Step]
    unbroken: int
    """From which step on none is left out."""
    deep: int
    """How many there are in all: about as many, where some are left out."""


def frames_of(traceback: TracebackType | None, around: FrameType | None = None) -> list[tuple[FrameType, int]]:
    """The frames of a traceback, behind those of `around` and the frames that called it; a deep walk takes steps."""
    frames: list[tuple[FrameType, int]] = []
    while around is not None:
        frames.append((around, around.f_lasti))
        around = around.f_back
    frames.reverse()
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lasti))
        traceback = traceback.tb_next
    active().use_up(WALK_WORK * (len(frames) - SHALLOW))
    return frames


def calls_of(frames: list[tuple[FrameType, int]]) -> Calls:
    if len(frames) <= 2 * MOST_EXAMINED:
        steps = _steps(frames)
        return Calls(steps, 0, len(steps))
    outer, inner = _steps(frames[:MOST_EXAMINED]), _steps(frames[-MOST_EXAMINED:])
    deep = len(frames) * (len(outer) + len(inner)) // (2 * MOST_EXAMINED)
    return Calls(outer + inner, len(outer), deep)


def _steps(frames: list[tuple[FrameType, int]]) -> list[Step]:
    found: list[Step] = []
    # A deep recursion is at the same few places again and again.
    made: dict[tuple[int, int], Step] = {}
    spelt: dict[int, bool] = {}
    for frame, instruction in frames:
        code = frame.f_code
        again = made.get((id(code), instruction))
        if again is not None:
            found.append(again)
            continue
        module = frame.f_globals.get(MARK)
        if module is not None and not module.internal and code.co_filename != "<deferred>":
            if found and code.co_filename == EVALUATED:  # a text of no file: what evaluates it is shown
                continue
            if found and code.co_name.startswith("turn."):  # a turn of a loop: part of the function around it
                found[-1] = Step(found[-1].name, found[-1].definition, span_at(code, instruction), found[-1].module)
                continue
            span = span_at(code, instruction)
            info = info_of(code.co_name)
            if found and by_macro(code, span):
                continue
            name = code.co_name.partition("#")[0]
            definition = code.co_qualname.partition("#")[0]
            if name == "lambda" and id(code) not in spelt:
                spelt[id(code)] = module.heads.get(symbol(definition)) != MODEL or _spelt_lambda(info)
            if name == "lambda" and not spelt[id(code)]:
                name = definition  # the bodies of a model are lambdas that its macro wrote
                if found and found[-1].name == found[-1].definition == name:
                    found[-1] = Step(name, definition, span, module)
                    continue
            made[id(code), instruction] = Step(name, definition, span, module)
            found.append(made[id(code), instruction])
    return found


def _spelt_lambda(info: FunctionInfo | None) -> bool:
    """Whether the file itself has `(lambda ...)` where the function is."""
    span = info.span if info is not None else None
    text = active().sources.get(span.file) if span is not None else None
    return (
        span is not None
        and text is not None
        and text.startswith("(lambda", Source(span.file, text).offset(span.line, span.col))
    )


def call_notes(found: Calls) -> list[Note]:
    """The calls, innermost first; repeated ones are counted."""
    steps = found.steps[found.unbroken :]
    calls = [(inner.name, outer.span) for outer, inner in pairwise(steps)]
    calls.reverse()
    left_out = found.deep - len(steps) if found.unbroken else 0
    notes: list[Note] = []
    at = 0
    while at < len(calls) and len(notes) < MOST_NOTES:
        cycle, times = _repeated(calls, at)
        notes += [Note(f"in the call of `{name}`", span) for name, span in calls[at : at + cycle]]
        at += cycle * times
        if times > 1:
            repeated = calls[at - cycle : at]
            more = cycle * (times - 1)
            goes_on = left_out and at + cycle > len(calls)  # among those that are left out
            if goes_on:
                more, at, left_out = more + left_out, len(calls), 0
            names = ", ".join(f"`{name}`" for name in dict.fromkeys(name for name, _ in repeated))
            notes.append(Note(f"... {_about(more)} more calls of {names}"))
            outermost = (found.steps[1].name, found.steps[0].span)
            if goes_on and outermost not in repeated:
                notes.append(Note(f"in the call of `{outermost[0]}`", outermost[1]))
    if at < len(calls) or left_out:
        notes.append(Note(f"... {_about(len(calls) - at + left_out)} more calls"))
    return notes


def _about(count: int) -> str:
    if count <= 2 * MOST_EXAMINED:
        return f"{count:,}"
    return f"more than {min(count // 1000 * 1000, PROMISED_DEPTH):,}"


def _repeated(calls: list[tuple[str, Span | None]], at: int) -> tuple[int, int]:
    """The shortest cycle of calls that begins at `at` and how often it follows itself; (1, 1) when none does."""
    for cycle in range(1, LONGEST_CYCLE + 1):
        times = 1
        while calls[at : at + cycle] == calls[at + times * cycle : at + (times + 1) * cycle]:
            times += 1
        if times > 2 or (cycle == 1 and times > 1):
            return cycle, times
    return 1, 1
