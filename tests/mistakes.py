"""Golden cases of mistakes: a file, all that is told of it, and the file once the fixes are made as they stand."""

from __future__ import annotations

from pathlib import Path

from sexpgpu.diag import Diagnostic, apply_edits, render


def cases(folder: Path) -> list[Path]:
    """The files of a folder that hold a mistake; `name.fixed.sx` is the mended `name.sx` where no edit is offered."""
    return sorted(file for file in folder.glob("*.sx") if not file.name.endswith(".fixed.sx"))


def compare(case: Path, diagnostics: list[Diagnostic], sources: dict[str, str], update: bool) -> None:
    """What is told of a case, as the file of its name with `.txt` has it."""
    golden = case.with_suffix(".txt")
    told = "\n\n".join(render(diagnostic, sources) for diagnostic in diagnostics) + "\n"
    if update:
        golden.write_text(told, encoding="utf-8")
    assert told == golden.read_text(encoding="utf-8"), f"pytest --update-golden writes {golden.name}"


def mended(case: Path, diagnostics: list[Diagnostic], file: str) -> str:
    """The text with the fixes of all diagnostics made; without any, the mended file beside the case."""
    edits = dict.fromkeys(edit for diagnostic in diagnostics for edit in diagnostic.fix)
    by_hand = case.with_suffix(".fixed.sx")
    if not edits:
        return by_hand.read_text(encoding="utf-8")
    assert not by_hand.exists(), f"{case.name} has a fix of its own"
    assert {edit.span.file for edit in edits} == {file}
    return apply_edits(case.read_text(encoding="utf-8"), edits)
