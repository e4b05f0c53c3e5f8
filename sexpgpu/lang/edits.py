"""Edits at a place of the source. A form that a macro wrote has no text of its own: it gets none."""

from __future__ import annotations

from sexpgpu.diag import Edit, Span
from sexpgpu.lang.forms import Source
from sexpgpu.lang.place import EVALUATED, Place


def edit(place: Place, start: int, end: int, text: str) -> tuple[Edit, ...]:
    """`text` for what stands between two offsets of the place's file."""
    if place.trail is not None or place.source.file in ("", EVALUATED):
        return ()
    return (Edit(place.source.span(start, end), text),)


def replaced(place: Place, old: str, new: str) -> tuple[Edit, ...]:
    """`new` for `old`, which must be what stands at the place."""
    if text_at(place).lower() != old.lower():
        return ()
    return edit(place, place.start, place.end, new)


def wrapped(first: Place, before: str, after: str, last: Place | None = None) -> tuple[Edit, ...]:
    """Texts at both sides of a place, or of the run from the place `first` to `last`."""
    end = (last or first).end
    return (*edit(first, first.start, first.start, before), *edit(first, end, end, after))


def inserted(place: Place, text: str) -> tuple[Edit, ...]:
    """`text` before the place."""
    return edit(place, place.start, place.start, text)


def removed(first: Place, last: Place | None = None) -> tuple[Edit, ...]:
    """Nothing for the run from `first` to `last` and the white space before it."""
    start = first.start
    text = first.source.text
    while start > 0 and text[start - 1].isspace():
        start -= 1
    return edit(first, start, (last or first).end, "")


def head_replaced(place: Place, old: str, new: str) -> tuple[Edit, ...]:
    """`new` for the head `old` of the list at the place."""
    start, end = place.start + 1, place.start + 1 + len(old)
    if place.source.text[place.start : end].lower() != f"({old}":
        return ()
    return edit(place, start, end, new)


def moved_up(source: Source, definition: Span, use: int) -> tuple[Edit, ...]:
    """A top-level definition moved before the top-level form that an offset lies in."""
    if source.file != definition.file:
        return ()
    start = source.offset(definition.line, definition.col)
    end = source.offset(definition.end_line, definition.end_col)
    before = source.text.rfind("\n(", 0, use) + 1
    if not before < use < start or source.text[before] != "(":
        return ()
    gap = len(source.text[:start].rstrip())
    there, here = source.span(before, before), source.span(gap, end)
    return (Edit(there, source.text[start:end] + "\n\n"), Edit(here, ""))


def text_at(place: Place) -> str:
    """What is written at a place."""
    return place.source.text[place.start : place.end]
