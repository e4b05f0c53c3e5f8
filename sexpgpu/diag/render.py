"""Diagnostics as text for people and as JSON for programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from sexpgpu.diag.fix import mended_rows
from sexpgpu.diag.record import Diagnostic, Edit, Note, Span

Sources = Mapping[str, str]
"""Source texts by the file name that spans carry."""

_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "help": "\x1b[1;32m", "note": "\x1b[1;36m"}
_RESET = "\x1b[0m"
LONGEST_ROW: Final = 160
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and line feed, and those that turn the direction of text."""


def render(diagnostic: Diagnostic, sources: Sources, *, colour: bool = False) -> str:
    """`file:line:col: error[CODE]: message`, the source line with a caret span, then the facts and the fix."""

    def paint(word: str) -> str:
        return f"{_COLOURS[word]}{word}{_RESET}" if colour else word

    place = f"{visible(str(diagnostic.span))}: " if diagnostic.span else ""
    diagnostic = _visible_throughout(diagnostic)
    lines = [f"{place}{paint(diagnostic.severity)}[{diagnostic.code}]: {diagnostic.message}"]
    lines += _excerpt(diagnostic.span, sources)
    if diagnostic.expected is not None:
        lines.append(f"  expected: {diagnostic.expected}")
    if diagnostic.actual is not None and not diagnostic.message.endswith(f"got {diagnostic.actual}"):
        lines.append(f"  actual:   {diagnostic.actual}")
    if diagnostic.help is not None:
        lines.append(f"  {paint('help')}: {diagnostic.help}")
    lines += _mended(diagnostic.fix, sources)
    for note in (*diagnostic.trail, *diagnostic.notes):
        place = f" ({visible(str(note.span))})" if note.span else ""
        lines.append(f"  {paint('note')}: {note.text}{place}")
    return "\n".join(lines)


def _excerpt(span: Span | None, sources: Sources) -> list[str]:
    text = sources.get(span.file) if span else None
    if span is None or text is None:
        return []
    rows = text.split("\n")  # as positions count lines, which a form feed does not end
    if not 1 <= span.line <= len(rows):
        return []
    row = rows[span.line - 1].removesuffix("\r")
    end = span.end_col if span.end_line == span.line else len(row) + 1
    start = min(span.col, len(row) + 1)
    first, last = _window(len(row), start - 1)
    before, marked = row[first : start - 1], row[start - 1 : max(start, min(end - 1, last))]
    left, right = "…" if first > 0 else "", "…" if last < len(row) else ""
    # Tabs are kept in the padding so that the caret stands under its character however they are shown.
    padding = "".join("\t" if c == "\t" else " " for c in left + visible(before))
    number = str(span.line)
    shown = f"{left}{visible(row[first:last])}{right}"
    return [f" {number} | {shown}", f" {' ' * len(number)} | {padding}{'^' * max(1, len(visible(marked)))}"]


def _mended(fix: tuple[Edit, ...], sources: Sources) -> list[str]:
    """The lines as the fix leaves them, marked +, and those it takes away, marked -."""
    rows = mended_rows(fix, sources)
    width = max((len(str(line)) for line, _, _ in rows), default=0)
    return [f" {line:>{width}} {sign} {visible(_cut(text))}" for line, sign, text in rows]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_ROW else text[:LONGEST_ROW] + "…"


def _window(length: int, at: int) -> tuple[int, int]:
    """Which characters of a source line are shown: all of them, or `LONGEST_ROW` around the caret at index `at`."""
    if length <= LONGEST_ROW:
        return 0, length
    first = max(0, min(at - LONGEST_ROW // 4, length - LONGEST_ROW))
    return first, first + LONGEST_ROW


def visible(text: str) -> str:
    """`text` with its control characters, which a terminal might obey, as escapes: `\\x1b`; tabs and line ends stay."""

    def escape(found: re.Match[str]) -> str:
        code = ord(found[0])
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"

    return _CONTROL.sub(escape, text)


def _visible_throughout(diagnostic: Diagnostic) -> Diagnostic:
    def shown(text: str | None) -> str | None:
        return visible(text) if text is not None else None

    def noted(notes: tuple[Note, ...]) -> tuple[Note, ...]:
        return tuple(evolve(note, text=visible(note.text)) for note in notes)

    return evolve(
        diagnostic,
        message=visible(diagnostic.message),
        expected=shown(diagnostic.expected),
        actual=shown(diagnostic.actual),
        help=shown(diagnostic.help),
        notes=noted(diagnostic.notes),
        trail=noted(diagnostic.trail),
    )


def to_json(diagnostic: Diagnostic, sources: Sources) -> dict[str, Any]:
    """The published JSON form of a diagnostic: absent facts are null, `rendered` is the text form."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "span": _span(diagnostic.span),
        "expected": diagnostic.expected,
        "actual": diagnostic.actual,
        "help": diagnostic.help,
        "fix": [{"span": _span(edit.span), "text": edit.text} for edit in diagnostic.fix],
        "notes": [_note(n) for n in diagnostic.notes],
        "trail": [_note(n) for n in diagnostic.trail],
        "rendered": render(diagnostic, sources),
    }


def _note(note: Note) -> dict[str, Any]:
    return {"text": note.text, "span": _span(note.span)}


def _span(span: Span | None) -> dict[str, Any] | None:
    if span is None:
        return None
    return {
        "file": span.file,
        "line": span.line,
        "col": span.col,
        "end_line": span.end_line,
        "end_col": span.end_col,
    }
