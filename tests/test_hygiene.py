"""What no linter checks: sizes, unfinished marks, names, and that every error code has its catalogue entry.

Words that must not occur are spelt in two pieces here, since this file is searched too.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from sexpgpu.diag.catalogue import ENTRIES

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("sexpgpu", "dialects", "passes")
EVERYTHING = (*PRODUCT, "tests", "lit", "bench", "examples", "docs", ".ci")
SOURCE = frozenset({".py", ".sx"})
TEXT = SOURCE | {".md", ".toml", ".mlir", ".yaml", ".txt", ""}
LINES = 400
CODE = re.compile(r"\b[EW]-[A-Z]+-\d{3}\b")
CATALOGUE = ROOT / "sexpgpu" / "diag" / "catalogue"


def walk(folders: tuple[str, ...], suffixes: frozenset[str]) -> Iterator[Path]:
    """Files of the tree; the two links are not followed, so each file comes once."""
    skipped = {"__pycache__", "data", "out", "venv", "Output", "runs", "golden"}
    for folder in folders:
        for here, below, names in os.walk(ROOT / folder):
            below[:] = sorted(set(below) - skipped)
            for name in sorted(names):
                path = Path(here, name)
                if path.suffix in suffixes and not path.is_symlink():
                    yield path


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def each(folders: tuple[str, ...], suffixes: frozenset[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", list(walk(folders, suffixes)), ids=relative)


def top_level_text() -> list[Path]:
    return [p for p in sorted(ROOT.iterdir()) if p.is_file() and p.suffix in TEXT and p.name != "LICENSE"]


@each(EVERYTHING, SOURCE)
def test_a_file_fits_in_the_head(path: Path) -> None:
    assert len(text(path).splitlines()) <= LINES


@each(EVERYTHING, SOURCE)
def test_nothing_is_marked_as_unfinished(path: Path) -> None:
    marks = "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "Not" + "ImplementedError"))
    assert not re.findall(rf"\b(?:{marks})\b", text(path))


@pytest.mark.parametrize("path", [*walk(EVERYTHING, TEXT), *top_level_text()], ids=relative)
def test_no_path_of_one_machine_and_no_registry(path: Path) -> None:
    places = (
        "/" + "work/",
        "/" + "root/",
        "/" + "home/",
        "/tmp/" + "venv",
        "pypi" + ".org",
        "python" + "hosted",
    )
    assert [place for place in places if place in text(path)] == []


@each(PRODUCT, frozenset({".py"}))
def test_names_say_what_a_module_is_for(path: Path) -> None:
    vague = {"util", "utils", "helper", "helpers", "manager", "managers", "misc", "common"}
    assert not vague & set(re.split(r"[_.]", path.name.lower()))


@each(PRODUCT, frozenset({".py"}))
def test_only_the_command_line_prints(path: Path) -> None:
    if relative(path).startswith("sexpgpu/cli/"):
        pytest.skip("the command line prints")
    calls = [n for n in ast.walk(ast.parse(text(path))) if isinstance(n, ast.Call)]
    assert [c.lineno for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"] == []


@each(PRODUCT, frozenset({".py"}))
def test_the_environment_is_read_in_one_module(path: Path) -> None:
    if relative(path) == "sexpgpu/knobs.py":
        pytest.skip("the one module")
    names = [n for n in ast.walk(ast.parse(text(path))) if isinstance(n, ast.Attribute)]
    assert [n.lineno for n in names if n.attr in {"environ", "environb", "getenv", "putenv"}] == []


@each(PRODUCT, frozenset({".py"}))
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(text(path))), "no module docstring"


def test_folders_that_must_not_be_packages() -> None:
    """The checkout is on sys.path in an editable install: a package `lit` here would hide the test runner."""
    assert [f for f in ("tests", "lit", "bench", "examples") if list((ROOT / f).rglob("__init__.py"))] == []


def codes_in_source() -> dict[str, str]:
    """Each code that the product or its library files mention, with one file that does."""
    found: dict[str, str] = {}
    for path in walk(PRODUCT, SOURCE):
        if CATALOGUE not in path.parents:
            found.update(dict.fromkeys(CODE.findall(text(path)), relative(path)))
    return found


def test_every_code_has_an_entry() -> None:
    assert {code: file for code, file in codes_in_source().items() if code not in ENTRIES} == {}


def test_every_entry_is_used() -> None:
    assert sorted(set(ENTRIES) - set(codes_in_source())) == []


@pytest.mark.parametrize("code", sorted(ENTRIES))
def test_an_entry_explains(code: str) -> None:
    entry = ENTRIES[code]
    assert entry.code == code
    assert entry.title
    assert len(entry.explanation) > len(entry.title)


def test_each_code_is_declared_once() -> None:
    declared = [
        code
        for path in sorted(CATALOGUE.glob("*.py"))
        for code in re.findall(r'Entry\(\s*(?:code=)?"([EW]-[A-Z]+-\d{3})"', text(path))
    ]
    assert sorted(declared) == sorted(set(declared))
