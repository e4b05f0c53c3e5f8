"""Where a missing or surplus parenthesis most likely is, as the indentation of the text shows."""

from __future__ import annotations

from attrs import frozen

from sexpgpu.lang.forms import Source
from sexpgpu.lang.tokens import LEXEME


@frozen
class Unclosed:
    """The list that was meant to end first, and the parentheses that end what is open: offset and number."""

    start: int
    closings: tuple[tuple[int, int], ...]


def unclosed(source: Source, start: int, end: int) -> Unclosed | None:
    """How to close the form that begins at `start` and should have ended before `end`.

    A list was meant to end before the first line that is not indented more than its parenthesis. Where that does not
    add up, everything is closed at the end; None when the text between holds what is not looked into.
    """
    return _closed(source, start, end, by_lines=True) or _closed(source, start, end, by_lines=False)


def _closed(source: Source, start: int, end: int, *, by_lines: bool) -> Unclosed | None:
    opened: list[tuple[int, int]] = []  # offset and column
    first: int | None = None
    closings: dict[int, int] = {}
    last_line, last_end = 0, start
    for match in LEXEME.finditer(source.text, start, end):
        kind = match.lastgroup
        if kind == "skip":
            continue
        if kind in ("comment", "bad"):
            return None
        line, col = source.position(match.start())
        if line != last_line and by_lines:
            while opened and opened[-1][1] >= col:
                closings[last_end] = closings.get(last_end, 0) + 1
                offset, _ = opened.pop()
                first = offset if first is None else first
        if match[0].endswith("(") and kind in ("open", "dispatch"):
            opened.append((match.start(), col))
        elif kind == "close":
            if not opened:
                return None
            opened.pop()
        last_line, last_end = source.position(match.end() - 1)[0], match.end()
    if opened:
        closings[last_end] = closings.get(last_end, 0) + len(opened)
        first = opened[-1][0] if first is None else first
    return None if first is None else Unclosed(first, tuple(closings.items()))


def surplus(source: Source, form_end: int, start: int) -> int:
    """Which `)` is one too many: the last of the form that ended at `form_end`, or the one at `start`.

    It is the former where indented forms follow, which then belong to that form.
    """
    between = source.text[form_end:start]
    indented = [row for row in between.split("\n")[1:] if row.strip()]
    if form_end == 0:  # no form has ended yet
        return start
    return form_end - 1 if indented and all(row[0] in " \t" for row in indented) else start
