"""Mistakes in what a file declares: contract names, knobs, modules, keywords; the fix as printed makes it check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sexpgpu.diag import Diagnostic, render
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.modules import LIBRARY
from tests.mistakes import cases, mended
from tests.trace.experiments import compiled

CASES = cases(Path(__file__).parent / "mistakes")


def checked(file: Path) -> tuple[list[Diagnostic], str]:
    """All that is told of a file, and the text of it with the file's name alone."""

    def look() -> tuple[list[Diagnostic], str]:
        with compiled(file) as done:
            shown = "\n\n".join(render(diagnostic, done.session.sources) for diagnostic in done.diagnostics)
            return list(done.diagnostics), shown.replace(f"{file.parent}/", "").replace(f"{LIBRARY}/", "sexpgpu/")

    return run_deep(look)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_the_fix_as_printed_makes_it_check(case: Path, golden: Callable[[str], None], tmp_path: Path) -> None:
    found, shown = checked(case)
    assert [d for d in found if d.severity == "error"]
    golden(shown)
    after = tmp_path / case.name
    after.write_text(mended(case, found, str(case)), encoding="utf-8")
    assert checked(after) == ([], "")
