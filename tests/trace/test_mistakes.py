"""Mistakes of shapes, dtypes and flow that people make: what is said of each, and that its fix mends the file.

Each file of `mistakes` holds one mistake and needs no data: what it must know of them is declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from sexpgpu.diag import Diagnostic, Edit, apply_edits, render
from sexpgpu.lang.limits import run_deep
from tests.trace.experiments import compiled

FILES = sorted((Path(__file__).parent / "mistakes").glob("*.sx"))


def checked(file: Path) -> tuple[list[Diagnostic], str]:
    """The errors of a file, and the text of all that is said of it, with its name alone."""

    def look() -> tuple[list[Diagnostic], str]:
        with compiled(file) as done:
            lines = [render(diagnostic, done.session.sources) for diagnostic in done.diagnostics]
            return done.diagnostics.errors, "\n".join(lines)

    errors, text = run_deep(look)
    library = Path(__file__).resolve().parents[2] / "sexpgpu" / "library"
    return errors, text.replace(f"{file.parent}/", "").replace(f"{library}/", "sexpgpu/")


def edits_of(errors: Iterable[Diagnostic]) -> list[Edit]:
    """Every edit once: two graphs may meet the same mistake."""
    return list(dict.fromkeys(edit for error in errors for edit in error.fix))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_fix_of_a_mistake_mends_it(file: Path, golden: Callable[[str], None], tmp_path: Path) -> None:
    errors, text = checked(file)
    assert errors
    assert all(error.span is not None and error.fix for error in errors), text
    golden(text)
    mended = tmp_path / file.name
    mended.write_text(apply_edits(file.read_text("utf-8"), edits_of(errors)), "utf-8")
    assert checked(mended) == ([], "")
