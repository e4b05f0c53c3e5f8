"""Where a form is written, and through which macro expansions it came to stand there."""

from __future__ import annotations

from typing import Any, Final

from sexpgpu.diag import Note, Span
from sexpgpu.lang.forms import Cons, Source, SourceCons

EVALUATED: Final = "<eval>"
"""The file name of forms that `eval` is given."""
MOST_NOTES: Final = 5


class Place:
    """A region of a source. `trail` is what macro wrote the form, None for a form of the file's own text."""

    __slots__ = ("end", "source", "start", "trail")

    def __init__(self, source: Source, start: int, end: int, trail: Trail | None = None) -> None:
        self.source = source
        self.start = start
        self.end = end
        self.trail = trail

    @property
    def span(self) -> Span:
        """The region as diagnostics carry it."""
        return self.source.span(self.start, self.end)

    def of_form(self, form: Any) -> Place:
        """The place of a form that stands inside this one.

        A macro may splice in conses of its own definition's text: only what lies inside counts.
        """
        if isinstance(form, SourceCons) and self._holds(form.source, form.start, form.end):
            return Place(form.source, form.start, form.end)
        return self

    def of_element(self, cell: Cons) -> Place:
        """The place of a list's element, given the cons that holds it."""
        if isinstance(cell, SourceCons) and self._holds(cell.source, cell.car_start, cell.car_end):
            return Place(cell.source, cell.car_start, cell.car_end)
        return self.of_form(cell.car)

    def _holds(self, source: Source, start: int, end: int) -> bool:
        return source is self.source and self.start <= start and end <= self.end

    def expanded(self, macro: str, quiet: bool, call: Any) -> Place:
        """The place of what `macro` wrote for a call that stands here; `quiet` macros leave no note.

        A call that another macro wrote is noted where that macro's template has it.
        """
        if quiet:
            return self
        own = self.trail is not None and isinstance(call, SourceCons)
        return Place(self.source, self.start, self.end, Trail(macro, call.span if own else self.span, self.trail))


class Trail:
    """One expansion: the macro, the call it expanded, and the expansion around it."""

    __slots__ = ("call", "depth", "macro", "outer")

    def __init__(self, macro: str, call: Span, outer: Trail | None) -> None:
        self.macro = macro
        self.call = call
        self.outer = outer
        self.depth: int = 1 if outer is None else outer.depth + 1

    def notes(self) -> tuple[Note, ...]:
        """The expansions as notes, innermost first."""
        found: dict[Note, None] = {}
        step: Trail | None = self
        while step is not None and len(found) < MOST_NOTES:
            found[Note(f"in the expansion of ({step.macro} ...)", step.call)] = None
            step = step.outer
        return tuple(found)


def trail_notes(place: Place | None) -> tuple[Note, ...]:
    """The expansion notes of a place."""
    return place.trail.notes() if place is not None and place.trail is not None else ()
