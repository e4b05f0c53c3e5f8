"""Columns that neighbouring one-line lists share: kept where the author made them, as wide as they need to be."""

from __future__ import annotations

from collections.abc import Iterator

from sexpgpu.lang.layout.tree import Node


def aligned(items: list[Node]) -> dict[Node, str]:
    """The text of each list that shares columns with its neighbours.

    Neighbours stand alone on lines that follow each other. Elements of the same number share a column where they
    did in the source and one of them had more than one blank before it.
    """
    found: dict[Node, str] = {}
    if len(items) < 2:
        return found
    for run in _runs(items):
        texts = {row: row.text + str(row.items[0].flat) for row in run}
        padded = False
        for number in range(1, max(len(row.items) for row in run)):
            for group in _groups(run, number):
                width = max(len(texts[row]) for row in group)
                shared = len(group) > 1 and any(_blanks(row, number) > 1 for row in group)
                for row in group:
                    padded = padded or (shared and len(texts[row]) < width)
                    blanks = width - len(texts[row]) if shared else 0
                    texts[row] += " " * (blanks + 1) + str(row.items[number].flat)
        if padded:
            found.update((row, text + ")") for row, text in texts.items())
    return found


def _runs(items: list[Node]) -> Iterator[list[Node]]:
    """Lists that fit on one line each, on consecutive lines of their own."""
    rows = [
        item
        for before, item, after in zip([None, *items[:-1]], items, [*items[1:], None], strict=True)
        if item.kind == "list"
        and item.items
        and item.flat is not None
        and (before is None or item.breaks)
        and (after is None or after.breaks or after.kind == "comment")
    ]
    run: list[Node] = []
    for row in rows:
        if run and row.line != run[-1].line + 1:
            if len(run) > 1:
                yield run
            run = []
        run.append(row)
    if len(run) > 1:
        yield run


def _groups(run: list[Node], number: int) -> Iterator[list[Node]]:
    """Neighbours in a run whose elements of that number stood in one column."""
    group: list[Node] = []
    for row in run:
        if len(row.items) <= number:
            if group:
                yield group
            group = []
            continue
        if group and _column(row, number) != _column(group[-1], number):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _column(row: Node, number: int) -> int:
    return row.items[number].start - row.start


def _blanks(row: Node, number: int) -> int:
    """The blanks before an element of a one-line list, as the author wrote them."""
    return row.items[number].start - row.items[number - 1].end
