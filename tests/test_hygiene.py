"""What no linter checks: sizes, unfinished marks, names, and that every error code has its catalogue entry.

Words that must not occur are spelt in two pieces here, since this file is searched too.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from sexpgpu.diag.catalogue import ENTRIES

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("sexpgpu", "dialects", "passes")
EVERYTHING = (*PRODUCT, "tests", "lit", "bench", "examples", "docs", ".ci")
SOURCE = frozenset({".py", ".sx"})
PYTHON = frozenset({".py"})
TEXT = SOURCE | {".md", ".toml", ".mlir", ".yaml", ".json", ".txt", ""}
SKIPPED = {"__pycache__", "venv", "Output", "runs"}
DATA = ("examples/data", "bench/curves/out", "bench/curves/published", "tests/golden")
LINES = 400
CODE = re.compile(r"\b[EW]-[A-Z]+-\d{3}\b")
CATALOGUE = ROOT / "sexpgpu" / "diag" / "catalogue"


def walk(folders: tuple[str, ...], suffixes: frozenset[str]) -> Iterator[Path]:
    """Files of the tree; the two links are not followed, so each file comes once."""
    for folder in folders:
        for here, below, names in os.walk(ROOT / folder):
            below[:] = sorted(d for d in below if d not in SKIPPED and relative(Path(here, d)) not in DATA)
            for name in sorted(names):
                path = Path(here, name)
                if path.suffix in suffixes and not path.is_symlink():
                    yield path


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path))


def calls_and_names(path: Path, wrong: Callable[[ast.AST], bool]) -> list[str]:
    return [f"{relative(path)}:{getattr(n, 'lineno', 0)}" for n in ast.walk(tree(path)) if wrong(n)]


def test_the_walk_sees_the_product() -> None:
    seen = {relative(path) for path in walk(EVERYTHING, SOURCE)}
    assert {"sexpgpu/data/source.py", "dialects/opdef.py", "passes/autodiff.py", "examples/moons.sx"} <= seen


def test_a_file_fits_in_the_head() -> None:
    sizes = {relative(p): len(text(p).splitlines()) for p in walk(EVERYTHING, SOURCE)}
    assert {path: lines for path, lines in sizes.items() if lines > LINES} == {}


def test_nothing_is_marked_as_unfinished() -> None:
    marks = re.compile("|".join((r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b", r"\bXX" + r"X\b")))
    assert [relative(p) for p in walk(EVERYTHING, SOURCE) if marks.search(text(p))] == []
    assert [relative(p) for p in walk(PRODUCT, PYTHON) if "raise NotImplementedError" in text(p)] == []


def test_no_path_of_one_machine_and_no_registry() -> None:
    places = ("/" + "work/", "/" + "root/", "/" + "home/", "/tmp/" + "venv", "pypi" + ".org", "python" + "hosted")
    top = [p for p in sorted(ROOT.iterdir()) if p.is_file() and p.suffix in TEXT and p.name != "LICENSE"]
    found = [(relative(p), place) for p in (*walk(EVERYTHING, TEXT), *top) for place in places if place in text(p)]
    assert found == []


def test_names_say_what_a_module_is_for() -> None:
    vague = {"util", "utils", "helper", "helpers", "manager", "managers", "misc", "common"}
    assert [relative(p) for p in walk(PRODUCT, PYTHON) if vague & set(re.split(r"[_.]", p.stem.lower()))] == []


def test_only_the_command_line_prints() -> None:
    def prints(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"

    silent = (p for p in walk(PRODUCT, PYTHON) if not relative(p).startswith("sexpgpu/cli/"))
    assert [place for path in silent for place in calls_and_names(path, prints)] == []


def test_the_environment_is_read_in_one_module() -> None:
    def reads(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv", "putenv"}

    others = (p for p in walk(PRODUCT, PYTHON) if relative(p) != "sexpgpu/knobs.py")
    assert [place for path in others for place in calls_and_names(path, reads)] == []


def test_a_module_says_what_it_is_for() -> None:
    assert [relative(p) for p in walk(PRODUCT, PYTHON) if not ast.get_docstring(tree(p))] == []


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


def test_an_entry_explains() -> None:
    wordless = [code for code, entry in ENTRIES.items() if len(entry.explanation) <= len(entry.title)]
    assert wordless == []
    assert [code for code, entry in ENTRIES.items() if entry.code != code or not entry.title] == []


def test_each_code_is_declared_once() -> None:
    entry = re.compile(r'Entry\(\s*(?:code=)?"([EW]-[A-Z]+-\d{3})"')
    declared = sorted(code for path in CATALOGUE.glob("*.py") for code in entry.findall(text(path)))
    assert declared == sorted(set(declared))
    assert set(declared) == set(ENTRIES)
