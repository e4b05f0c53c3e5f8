"""Diagnostics as text for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sexpgpu.diag.record import Diagnostic, Note, Span

Sources = Mapping[str, str]
"""Source texts by the file name that spans carry."""

_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "help": "\x1b[1;32m", "note": "\x1b[1;36m"}
_RESET = "\x1b[0m"


def render(diagnostic: Diagnostic, sources: Sources, *, colour: bool = False) -> str:
    """`file:line:col: error[CODE]: message`, the source line with a caret span, then the facts and the fix."""

    def paint(word: str) -> str:
        return f"{_COLOURS[word]}{word}{_RESET}" if colour else word

    place = f"{diagnostic.span}: " if diagnostic.span else ""
    lines = [f"{place}{paint(diagnostic.severity)}[{diagnostic.code}]: {diagnostic.message}"]
    lines += _excerpt(diagnostic.span, sources)
    if diagnostic.expected is not None:
        lines.append(f"  expected: {diagnostic.expected}")
    if diagnostic.actual is not None:
        lines.append(f"  actual:   {diagnostic.actual}")
    if diagnostic.help is not None:
        lines.append(f"  {paint('help')}: {diagnostic.help}")
    for note in (*diagnostic.trail, *diagnostic.notes):
        place = f" ({note.span})" if note.span else ""
        lines.append(f"  {paint('note')}: {note.text}{place}")
    return "\n".join(lines)


def _excerpt(span: Span | None, sources: Sources) -> list[str]:
    text = sources.get(span.file) if span else None
    if span is None or text is None:
        return []
    rows = text.splitlines()
    if not 1 <= span.line <= len(rows):
        return []
    row = rows[span.line - 1]
    end = span.end_col if span.end_line == span.line else len(row) + 1
    start = min(span.col, len(row) + 1)
    width = max(1, end - start)
    # Tabs are kept in the padding so that the caret stands under its character however they are shown.
    padding = "".join("\t" if c == "\t" else " " for c in row[: start - 1])
    number = str(span.line)
    return [f" {number} | {row}", f" {' ' * len(number)} | {padding}{'^' * width}"]


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
