"""The lists of a file's text around a place, as the reader sees them: what an edit of a form needs to know."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from attrs import field, frozen

from sexpgpu.diag import Edit, Span
from sexpgpu.lang.forms import Cons, Source, SourceCons, Symbol
from sexpgpu.lang.reader import Reader

_HOLE: Final = re.compile(r"(?<![^\s(])_(?![^\s)])")


@frozen(eq=False)
class ListText:
    """A list as it is written: element 0 is its head. `outer` is the list around it."""

    source: Source
    datum: SourceCons
    outer: ListText | None
    cells: tuple[SourceCons, ...] = field(init=False)

    @cells.default
    def _cells(self) -> tuple[SourceCons, ...]:
        found = []
        cell: Any = self.datum
        while isinstance(cell, SourceCons):
            found.append(cell)
            cell = cell.cdr
        return tuple(found)

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def head(self) -> str:
        """The symbol that the list begins with, "" where it begins with something else."""
        first = self.datum.car
        return first.name if isinstance(first, Symbol) and not first.keyword else ""

    def element(self, index: int) -> Any:
        """The datum of an element."""
        return self.cells[index].car

    @property
    def span(self) -> Span:
        """Where the list is written."""
        return self.datum.span

    def text(self, index: int) -> str:
        """An element as it is written."""
        cell = self.cells[index]
        return self.source.text[cell.car_start : cell.car_end]

    def index_at(self, span: Span | None) -> int | None:
        """Which element stands at a place."""
        places = [self.source.span(cell.car_start, cell.car_end) for cell in self.cells]
        return places.index(span) if span in places else None

    def inner(self, index: int) -> ListText | None:
        """An element that is a list; of a quoted list, the list."""
        datum = self.element(index)
        if not isinstance(datum, SourceCons):
            return None
        found = ListText(self.source, datum, self)
        return found.inner(1) if found.head == "quote" and len(found) == 2 else found

    def replaced(self, index: int, text: str) -> tuple[Edit, ...]:
        """`text` for an element. Where the symbol `_` stands in it, the element stays and the rest is put around it."""
        cell = self.cells[index]
        start, end = cell.car_start, cell.car_end
        hole = _HOLE.search(text)
        if hole is None:
            return (Edit(self.source.span(start, end), text),)
        before, after = text[: hole.start()], text[hole.end() :]
        edits = (Edit(self.source.span(start, start), before), Edit(self.source.span(end, end), after))
        return tuple(edit for edit in edits if edit.text)

    def dropped(self, index: int) -> tuple[Edit, ...]:
        """An element (none of the first) taken away with the space before it."""
        return (Edit(self.source.span(self.cells[index - 1].car_end, self.cells[index].car_end), ""),)

    def appended(self, text: str) -> tuple[Edit, ...]:
        """A further element behind the last."""
        end = self.cells[-1].car_end
        return (Edit(self.source.span(end, end), f" {text}"),)

    def whole(self, text: str) -> tuple[Edit, ...]:
        """`text` for the list itself."""
        return (Edit(self.source.span(self.datum.start, self.datum.end), text),)

    def around(self, before: str, after: str) -> tuple[Edit, ...]:
        """Texts before and behind the whole list."""
        start, end = self.datum.start, self.datum.end
        return (Edit(self.source.span(start, start), before), Edit(self.source.span(end, end), after))


def list_around(source: Source, span: Span, aliases: Iterable[str] = ()) -> ListText | None:
    """The innermost list that holds the region `span`, or is it; None outside every list."""
    start = source.starts[span.line - 1] + span.col - 1
    end = source.starts[span.end_line - 1] + span.end_col - 1
    for form in Reader(source, lambda _: None, set(aliases)).forms():
        if form.start <= start and end <= form.end and isinstance(form.datum, SourceCons):
            return _innermost(ListText(source, form.datum, None), start, end)
        if form.start > start:
            break
    return None


def _innermost(outer: ListText, start: int, end: int) -> ListText:
    for cell in outer.cells:
        inner = cell.car
        if isinstance(inner, SourceCons) and inner.start <= start and end <= inner.end:
            return _innermost(ListText(outer.source, inner, outer), start, end)
    return outer


def symbols_in(datum: Any) -> set[str]:
    """The names of the symbols anywhere in a datum."""
    if isinstance(datum, Symbol):
        return set() if datum.keyword else {datum.name}
    found: set[str] = set()
    while isinstance(datum, Cons):
        found |= symbols_in(datum.car)
        datum = datum.cdr
    return found
