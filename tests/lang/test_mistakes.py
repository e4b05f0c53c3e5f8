"""The mistakes people make in the language: what is said of each, where, and that the fix as printed mends it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from sexpgpu.diag import Diagnostic, Diagnostics, apply_edits, render
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.standard import standard_session
from tests.mistakes import cases, mended

CASES = cases(Path(__file__).parent / "mistakes")


def told(text: str, name: str) -> list[Diagnostic]:
    diagnostics = Diagnostics()
    run_deep(lambda: standard_session(diagnostics).evaluate_text(text, name))
    return list(diagnostics)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_the_fix_as_printed_mends_it(case: Path, golden: Callable[[str], None]) -> None:
    text = case.read_text(encoding="utf-8")
    found = told(text, case.name)
    assert found
    golden("\n\n".join(render(diagnostic, {case.name: text}) for diagnostic in found))
    after = told(mended(case, found, case.name), case.name)
    assert [d for d in after if d.severity == "error" or d.code in {f.code for f in found}] == []


@pytest.mark.parametrize("seed", range(4))
def test_a_fix_of_whatever_is_wrong_can_be_made(seed: int) -> None:
    """Files with a few characters changed: each is told without a fault of ours, and each fix lies in the text."""
    random = Random(seed)
    short = [case for case in CASES if not case.name.startswith("15")]  # a runaway takes a second
    for case in random.sample(short, 15):
        text = case.read_text(encoding="utf-8")
        for _ in range(2):
            at = random.randrange(len(text))
            text = text[:at] + random.choice(["", "(", ")", "'", ",", "x", ":", '"', " "]) + text[at + 1 :]
        for diagnostic in told(text, case.name):
            assert render(diagnostic, {case.name: text})
            apply_edits(text, diagnostic.fix)


def test_every_row_of_the_table_has_a_case() -> None:
    assert {case.name[:2] for case in CASES} >= {f"{row:02}" for row in range(1, 16)}
