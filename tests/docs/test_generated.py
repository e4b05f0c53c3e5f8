"""The reference pages say what the program's tables say; `--update-golden` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.diag import Diagnostics
from sexpgpu.diag.catalogue import ENTRIES, Entry, language, library
from sexpgpu.driver.compile import new_session
from sexpgpu.lang.analyze.grammar import SPECIALS
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.trace.declarations import Declarations, declaring
from tests.docs.blocks import PAGES, ROOT
from tests.docs.generated import (
    GENERATORS,
    PART,
    is_public,
    ordinary_libraries,
    regenerated,
    special_shapes,
)

WITH_PARTS = [page for page in PAGES if PART.search(page.read_text(encoding="utf-8"))]

FILES = {"E-MOD-002", "E-MOD-003"}
"""Codes whose example is about more than one file."""

SLOW = {"E-LIMIT-001", "E-LIMIT-002", "E-LIMIT-004", "E-LIMIT-005"}
"""Codes whose example takes seconds; tests/lang provokes them within tighter limits."""

OF_THE_LANGUAGE = [
    entry
    for entry in (*language.ENTRIES, *library.ENTRIES)
    if entry.example and "sexpgpu " not in entry.example and entry.code not in FILES | SLOW
]


def text(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", WITH_PARTS, ids=lambda p: p.stem)
def test_a_page_is_what_the_program_says(page: Path, request: pytest.FixtureRequest) -> None:
    shown = page.read_text(encoding="utf-8")
    wanted = regenerated(shown)
    if request.config.getoption("--update-golden"):
        page.write_text(wanted, encoding="utf-8")
    assert shown == wanted


def test_every_generator_has_its_page() -> None:
    found = [name for page in WITH_PARTS for name, _ in PART.findall(page.read_text(encoding="utf-8"))]
    assert sorted(found) == sorted(GENERATORS)


def test_every_special_form_is_listed_with_a_meaning() -> None:
    shapes = {name: shape for group in special_shapes().values() for name, shape in group.items()}
    assert {name.name for name in SPECIALS if name.interned} <= shapes.keys()
    page = text("special-forms.md")
    assert [name for name in shapes if f"`({name} " not in page and f"`({name})`" not in page] == []
    assert "| |\n|---|---|\n" in page
    assert [line for line in page.splitlines() if line.endswith("|  |")] == []


def test_every_builtin_is_listed_with_a_meaning() -> None:
    page = text("builtins.md")
    public = [builtin for library in ordinary_libraries() for builtin in filter(is_public, library)]
    assert [b.name for b in public if f"| `({b.name} " not in page and f"| `({b.name})`" not in page] == []
    assert [b.name for b in public if not b.doc] == []


def test_everything_of_the_prelude_has_a_meaning() -> None:
    assert [line for line in text("prelude.md").splitlines() if line.endswith(("|  |", "Macro.  |"))] == []


def test_every_code_has_its_heading() -> None:
    headings = [line.removeprefix("### ") for line in text("errors.md").splitlines() if line.startswith("### ")]
    assert sorted(headings) == sorted(ENTRIES)
    assert len(headings) == len(set(headings))


@pytest.mark.parametrize("entry", OF_THE_LANGUAGE, ids=lambda e: e.code)
def test_an_example_provokes_its_code(entry: Entry, tmp_path: Path) -> None:
    path = tmp_path / "example.sx"
    path.write_text(entry.example, encoding="utf-8")
    diagnostics = Diagnostics()
    with declaring(Declarations(path)):
        run_deep(lambda: new_session(diagnostics).evaluate_file(path, Selection()))
    assert entry.code in [d.code for d in diagnostics]
