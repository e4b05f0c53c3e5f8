"""Diagnostics as an editor wants them: by file, in its own units, each file's as one list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lsprotocol import types as lsp
from pygls import uris

from sexpgpu.diag import Diagnostic, Edit, Note
from sexpgpu.driver.warm import Answer
from sexpgpu.editor.text import Text

CONTRACT = frozenset(f"E-RUN-00{n}" for n in range(1, 8))
"""What is missing from a file that is no experiment but a module of one."""

Read = Callable[[str], Text | None]


class Published:
    """What was sent of each file; two files that require a third both say what is wrong there, once."""

    def __init__(self, send: Callable[[str, list[lsp.Diagnostic]], None]) -> None:
        self._send = send
        self._by_entry: dict[str, dict[str, list[lsp.Diagnostic]]] = {}
        self._sent: dict[str, list[lsp.Diagnostic]] = {}

    def fixes(self, path: str) -> list[lsp.Diagnostic]:
        """The diagnostics of a file that say how it is mended: `data` has the edits, as the protocol's by document."""
        return [diagnostic for diagnostic in self._sent.get(path, ()) if diagnostic.data]

    def replace(self, entry: str, found: dict[str, list[lsp.Diagnostic]], *, first: bool = True) -> None:
        """Take the diagnostics that checking `entry` gave, and send those of the files where they differ.

        The `first` ones of a check are sent for `entry` whether they differ or not: its ranges are new.
        """
        before = self._by_entry.get(entry, {})
        self._by_entry[entry] = found
        for path in before.keys() | found.keys():
            together: list[lsp.Diagnostic] = []
            for every in self._by_entry.values():
                together += [d for d in every.get(path, ()) if d not in together]
            if together != self._sent.get(path) or (first and path == entry):
                self._sent[path] = together
                self._send(path, together)


def published(answer: Answer, text: str, read: Read) -> dict[str, list[lsp.Diagnostic]]:
    """The diagnostics of a check by the path of the file they are in; the checked file is always there."""
    entry = str(answer.path)
    found: dict[str, list[lsp.Diagnostic]] = {entry: []}
    partial = "(defrun" not in text and "train-loader" not in text
    for diagnostic in answer.diagnostics:
        if partial and diagnostic.code in CONTRACT:
            continue
        path = diagnostic.span.file if diagnostic.span is not None else entry
        where = read(path)
        if where is None:
            path = entry
        found.setdefault(path, []).append(_diagnostic(diagnostic, where, read))
    return found


def _diagnostic(diagnostic: Diagnostic, text: Text | None, read: Read) -> lsp.Diagnostic:
    if text is not None and diagnostic.span is not None:
        where = text.range_of(diagnostic.span)
    else:
        where = lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0))
    lines = [diagnostic.message]
    if diagnostic.expected is not None:
        lines.append(f"expected: {diagnostic.expected}")
    if diagnostic.actual is not None:
        lines.append(f"actual: {diagnostic.actual}")
    if diagnostic.help is not None:
        lines.append(f"help: {diagnostic.help}")
    notes = (*diagnostic.trail, *diagnostic.notes)
    lines += [f"note: {note.text}" for note in notes if note.span is None]
    return lsp.Diagnostic(
        where,
        "\n".join(lines),
        severity=lsp.DiagnosticSeverity.Error if diagnostic.severity == "error" else lsp.DiagnosticSeverity.Warning,
        code=diagnostic.code,
        source="sexpgpu",
        data=_edits(diagnostic.fix, read),
        related_information=[told for note in notes if (told := _related(note, read)) is not None] or None,
    )


def _edits(fix: tuple[Edit, ...], read: Read) -> dict[str, list[dict[str, Any]]] | None:
    """The edits of a fix by document, None where there is none or one of its files cannot be read."""
    found: dict[str, list[dict[str, Any]]] = {}
    for edit in fix:
        text = read(edit.span.file)
        if text is None:
            return None
        where = text.range_of(edit.span)
        ends = {name: {"line": at.line, "character": at.character} for name, at in
                (("start", where.start), ("end", where.end))}  # fmt: skip
        found.setdefault(uris.from_fs_path(edit.span.file) or edit.span.file, []).append(
            {"range": ends, "newText": edit.text}
        )
    return found or None


def _related(note: Note, read: Read) -> lsp.DiagnosticRelatedInformation | None:
    text = read(note.span.file) if note.span is not None else None
    if note.span is None or text is None:
        return None
    uri = uris.from_fs_path(note.span.file) or note.span.file
    return lsp.DiagnosticRelatedInformation(lsp.Location(uri, text.range_of(note.span)), note.text)
