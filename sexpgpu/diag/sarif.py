"""Diagnostics as a SARIF 2.1.0 log: what code hosts and editors read.

The format: OASIS Standard "Static Analysis Results Interchange Format (SARIF) Version 2.1.0 Plus Errata 01".
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sexpgpu.diag.catalogue import ENTRIES
from sexpgpu.diag.record import Diagnostic, Edit, Note, Span

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif_log(diagnostics: Iterable[Diagnostic], file: str, version: str) -> dict[str, Any]:
    """The log of one run over `file`, which a diagnostic without a place is shown at.

    Rules are the codes that occur. Columns count characters, as those of spans do; notes with a place are related
    locations, the others, the facts and the help are lines of the message.
    """
    reported = list(diagnostics)
    codes = sorted({diagnostic.code for diagnostic in reported})
    driver = {"name": "sexpgpu", "version": version, "rules": [_rule(code) for code in codes]}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [_result(diagnostic, codes.index(diagnostic.code), file) for diagnostic in reported],
            }
        ],
    }


def _rule(code: str) -> dict[str, Any]:
    entry = ENTRIES[code]
    rule: dict[str, Any] = {
        "id": code,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.explanation},
        "defaultConfiguration": {"level": "warning" if code.startswith("W-") else "error"},
    }
    if entry.example:
        rule["help"] = {"text": f"{entry.explanation}\n\nFor example:\n\n{entry.example}"}
    return rule


def _result(diagnostic: Diagnostic, rule: int, file: str) -> dict[str, Any]:
    notes = (*diagnostic.trail, *diagnostic.notes)
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": diagnostic.severity,
        "message": {"text": _message(diagnostic, notes)},
        "locations": [_location(diagnostic.span, file)],
    }
    related = [{**_location(note.span, file), "message": {"text": note.text}} for note in notes if note.span]
    if related:
        result["relatedLocations"] = related
    if diagnostic.fix:
        result["fixes"] = [{"artifactChanges": _changes(diagnostic.fix)}]
    return result


def _changes(fix: Iterable[Edit]) -> list[dict[str, Any]]:
    by_file: dict[str, list[Edit]] = {}
    for edit in fix:
        by_file.setdefault(edit.span.file, []).append(edit)
    return [
        {
            "artifactLocation": {"uri": _uri(name)},
            "replacements": [
                {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.text}} for edit in edits
            ],
        }
        for name, edits in by_file.items()
    ]


def _message(diagnostic: Diagnostic, notes: Iterable[Note]) -> str:
    facts = (("expected", diagnostic.expected), ("actual", diagnostic.actual), ("help", diagnostic.help))
    lines = [diagnostic.message, *(f"{name}: {fact}" for name, fact in facts if fact is not None)]
    return "\n".join([*lines, *(f"note: {note.text}" for note in notes if note.span is None)])


def _location(span: Span | None, file: str) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(span.file if span is not None else file)}}
    if span is not None:
        physical["region"] = _region(span)
    return {"physicalLocation": physical}


def _uri(name: str) -> str:
    return Path(name).as_uri() if Path(name).is_absolute() else quote(Path(name).as_posix())


def _region(span: Span) -> dict[str, int]:
    return {
        "startLine": span.line,
        "startColumn": span.col,
        "endLine": span.end_line,
        "endColumn": span.end_col,
    }
