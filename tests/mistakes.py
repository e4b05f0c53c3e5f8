"""Golden cases of mistakes: a file, all that is told of it, and the file once the fixes are made as they stand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sexpgpu.diag import Diagnostic, apply_edits


def cases(folder: Path) -> list[Path]:
    """The files of a folder that hold a mistake; `name.fixed.sx` is the mended `name.sx` where no edit is offered."""
    return sorted(file for file in folder.glob("*.sx") if not file.name.endswith(".fixed.sx"))


def mended(case: Path, diagnostics: Iterable[Diagnostic], file: str) -> str:
    """The text with the fixes of all diagnostics made; without any, the mended file beside the case."""
    edits = dict.fromkeys(edit for diagnostic in diagnostics for edit in diagnostic.fix)
    by_hand = case.with_suffix(".fixed.sx")
    if not edits:
        return by_hand.read_text(encoding="utf-8")
    assert not by_hand.exists(), f"{case.name} has a fix of its own"
    assert {edit.span.file for edit in edits} == {file}
    return apply_edits(case.read_text(encoding="utf-8"), edits)
