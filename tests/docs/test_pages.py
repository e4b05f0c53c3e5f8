"""Every block of every page: commands are run and their output compared, experiments are compiled.

`pytest tests/docs --update-golden` writes what the commands print into the pages, where they show something else.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, Block, blocks_of
from tests.docs.console import environment, faults_of, prepare, rewritten, run_block
from tests.docs.fragments import defined, diagnostics, patched
from tests.docs.tensors import evaluated as computed
from tests.docs.values import evaluated, with_values

LANGUAGES = {"console", "diff", "lisp", "mlir", "ptx", "sh", "text"}
MARKS = {"fragment", "broken", "forms", "tensors", "values"}
SMALLEST = ROOT / "docs" / "run-file.md"
EVERY = [block for page in PAGES for block in blocks_of(page)]


def of_language(language: str, *marks: str) -> list[Block]:
    return [b for b in EVERY if b.language == language and all(m in b.marks for m in marks)]


def each_page(language: str, *marks: str) -> pytest.MarkDecorator:
    pages = [page for page in PAGES if any(b.page == page for b in of_language(language, *marks))]
    return pytest.mark.parametrize("page", pages, ids=lambda p: p.stem)


def write_files(page: Path, folder: Path) -> None:
    for block in blocks_of(page):
        if block.file is not None:
            target = folder / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")


@each_page("console")
def test_the_commands_of_a_page(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = tmp_path / "page"
    prepare(folder)
    write_files(page, folder)
    variables = environment(tmp_path / "tools")
    faults = []
    text = page.read_text(encoding="utf-8")
    for block in blocks_of(page):
        if block.language == "console":
            results = run_block(block, folder, variables)
            faults += faults_of(block, results)
            text = text.replace(f"```console\n{block.text}```", f"```console\n{rewritten(block, results)}```", 1)
    if request.config.getoption("--update-golden"):
        page.write_text(text, encoding="utf-8")
    assert not faults, "\n\n".join(faults)


@each_page("lisp", "values")
def test_the_values_of_a_page(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = page.read_text(encoding="utf-8")
    faults = []
    for block, forms in evaluated([b for b in of_language("lisp", "values") if b.page == page], tmp_path):
        wrong = [form for form in forms if not form.agrees]
        faults += ["\n".join([f"{page.name}:{f.line}: {f.text}", *f.printed]) for f in wrong]
        text = text.replace(f"values\n{block.text}```", f"values\n{with_values(block, forms)}```", 1)
    if request.config.getoption("--update-golden"):
        page.write_text(text, encoding="utf-8")
    assert not faults, "\n\n".join(faults)


@each_page("lisp", "tensors")
def test_the_tensors_of_a_page(page: Path, request: pytest.FixtureRequest) -> None:
    text = page.read_text(encoding="utf-8")
    faults = []
    for block in [b for b in of_language("lisp", "tensors") if b.page == page]:
        forms = computed(block)
        faults += [f"{page.name}:{f.line}: {f.text}\n{f.printed[0]}" for f in forms if f.shown != f.printed]
        text = text.replace(f"tensors\n{block.text}```", f"tensors\n{with_values(block, forms)}```", 1)
    if request.config.getoption("--update-golden"):
        page.write_text(text, encoding="utf-8")
    assert not faults, "\n\n".join(faults)


@pytest.mark.parametrize("block", [b for b in of_language("lisp") if not MARKS & set(b.marks)], ids=lambda b: str(b))
def test_an_experiment_of_a_page_compiles(block: Block, tmp_path: Path) -> None:
    prepare(tmp_path)
    path = tmp_path / (block.file or "examples/of-the-page.sx")
    path.write_text(block.text, encoding="utf-8")
    assert diagnostics(path) == []


@pytest.mark.parametrize("block", of_language("lisp", "fragment"), ids=lambda b: str(b))
def test_a_fragment_compiles_in_its_experiment(block: Block, tmp_path: Path) -> None:
    prepare(tmp_path)
    path = tmp_path / "examples" / "of-the-page.sx"
    path.write_text(patched(base_of(block), block.text), encoding="utf-8")
    assert diagnostics(path) == [], path.read_text(encoding="utf-8")


def base_of(fragment: Block) -> str:
    """The last experiment with a name above a fragment, else the smallest one."""
    above = [b for b in blocks_of(fragment.page) if b.file and b.line < fragment.line and not MARKS & set(b.marks)]
    return above[-1].text if above else next(b for b in blocks_of(SMALLEST) if b.file).text


NO_EXPERIMENTS = [
    *(block for mark in ("broken", "forms") for block in of_language("lisp", mark)),
    *(block for language in ("diff", "mlir", "ptx") for block in of_language(language)),
]


@pytest.mark.parametrize("block", NO_EXPERIMENTS, ids=lambda b: str(b))
def test_what_is_no_experiment_is_shown_by_a_command(block: Block) -> None:
    assert block.file is not None
    commands = [b.text for b in blocks_of(block.page) if b.language == "console"]
    assert any(block.file in text for text in commands)


@pytest.mark.parametrize("block", EVERY, ids=lambda b: str(b))
def test_a_block_says_what_it_is(block: Block) -> None:
    assert block.language in LANGUAGES
    assert [m for m in block.marks if m not in MARKS and not m.startswith("file=")] == []


@pytest.mark.parametrize("block", of_language("sh"), ids=lambda b: str(b))
def test_a_command_that_only_installs(block: Block) -> None:
    """Such commands take minutes or the network; what they name exists."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for line in (line.split("#")[0].strip() for line in block.text.splitlines()):
        if line.startswith("make "):
            asked = ["make", "-n", "-f", str(ROOT / "Makefile"), *line.split()[1:]]
            done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert done.stdout, f"{line} does nothing"
        elif line.startswith(".venv/bin/"):
            program = line.split()[0].removeprefix(".venv/bin/")
            assert program in ("python", *project["scripts"])
            for extras in re.findall(r"\.\[([\w,]+)\]", line):
                assert set(extras.split(",")) <= set(project["optional-dependencies"])
        else:
            assert line.startswith(("git clone ", "cd ", "python3 -m venv ")) or not line


def test_a_fragment_takes_the_place_of_what_it_replaces() -> None:
    base = "(def model (a))\n\n(defun f (x)\n  x)\n(defrun :steps 1)\n"
    assert patched(base, "(defrun :steps 2)") == "(def model (a))\n(defun f (x)\n  x)\n(defrun :steps 2)\n"
    assert patched(base, "; new\n(def b 2)").startswith("(def b 2)\n(def model (a))")
    assert defined("(defloader train-loader (:batch 2)") == "train-loader"
