"""The warm process says what a fresh compilation says, of every case, and again after every kind of edit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from sexpgpu.diag import Diagnostic
from sexpgpu.driver.compile import compiling
from sexpgpu.driver.warm import Answer, Checker, Request
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from tests.trace.experiments import text_of, write, write_data
from tests.trace.test_codes import CASES

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CODES = sorted(CASES)
BLOCKS = '(require "sexpgpu/nn")\n(defmodel layer (in) (defsub out (linear in 2)) (forward (x) (out x)))\n'
USING = {
    "require": '(require "./blocks.sx") (require "sexpgpu/optim")',
    "model": "",
    "instance": "(def model (layer width))",
}


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    made = Checker()
    yield made
    made.close()


def cold(file: Path, selection: Selection) -> tuple[set[Diagnostic], int | None]:
    """What a session made for this file alone reports, and how many parameters it counts."""

    def look() -> tuple[set[Diagnostic], int | None]:
        with compiling(file, selection) as done:
            count = len(done.experiment.parameters) if done.experiment else None
            return set(done.diagnostics), count

    return run_deep(look)


def same(checker: Checker, file: Path, selection: Selection | None = None) -> Answer:
    """The warm answer, which must be the cold one, whether or not an editor asks for names."""
    selection = selection or Selection()
    request = Request(file, selection)
    answer = checker.check(request)
    assert answer.fault is None
    assert (set(answer.diagnostics), answer.parameters) == cold(file, selection)
    assert checker.check(request) == answer
    first = next(iter(asked := checker.answers(evolve(request, names=True))))
    assert set(first.diagnostics) <= set(answer.diagnostics)
    assert [set(last.diagnostics) for last in asked] == [set(answer.diagnostics)]
    return answer


@pytest.mark.parametrize("name", ["moons", "names", "shakespeare"])
def test_examples(checker: Checker, name: str) -> None:
    assert same(checker, EXAMPLES / f"{name}.sx").ok


def test_a_selection(checker: Checker) -> None:
    file = EXAMPLES / "shakespeare.sx"
    assert same(checker, file, Selection("smoke", ("layers=1",))).parameters == 9
    (unknown,) = same(checker, file, Selection("smok")).diagnostics
    assert unknown.code == "E-KNOB-002"


@pytest.mark.parametrize("code", CODES[::8])
def test_some_cases(checker: Checker, code: str, tmp_path: Path) -> None:
    part, text = CASES[code]
    assert code in {d.code for d in same(checker, write(tmp_path, **{part: text})).diagnostics}


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES)
def test_every_case(checker: Checker, code: str, tmp_path: Path) -> None:
    part, text = CASES[code]
    same(checker, write(tmp_path, **{part: text}))


def test_edits_of_a_required_file(checker: Checker, tmp_path: Path) -> None:
    blocks = tmp_path / "blocks.sx"
    blocks.write_text(BLOCKS)
    file = write(tmp_path, **USING)
    answer = same(checker, file)
    assert answer.ok
    assert str(blocks) in answer.files
    blocks.write_text(BLOCKS.replace("linear in", "linear 4"))
    assert "E-SHAPE-013" in {d.code for d in same(checker, file).diagnostics}
    blocks.write_text(BLOCKS.replace("(out x)", "(out y)"))
    assert "E-NAME-001" in {d.code for d in same(checker, file).diagnostics}
    blocks.unlink()
    missing = same(checker, file)
    assert "E-MOD-001" in {d.code for d in missing.diagnostics}
    assert str(blocks) in missing.files
    blocks.write_text(BLOCKS)
    assert same(checker, file).ok


def test_what_a_file_no_longer_requires_is_gone(checker: Checker, tmp_path: Path) -> None:
    kinds = tmp_path / "kinds.sx"
    kinds.write_text("(defstruct kind (size 2))\n(def other 1)\n")
    used = '(require "sexpgpu/nn") (require "sexpgpu/optim") (require "./kinds.sx")'
    file = write(tmp_path, require=used, knobs="(defknobs (width 3)) (def k (typep (make-kind) 'kind))")
    assert same(checker, file).ok
    file.write_text(text_of(knobs="(defknobs (width 3)) (def k (typep 3 'kind))"))
    assert not same(checker, file).ok


def test_a_module_that_declares_is_loaded_anew(checker: Checker, tmp_path: Path) -> None:
    write_data(tmp_path)
    (tmp_path / "run.sx").write_text('(defknobs (lr 0.1))\n(defrun :steps 4 :seed 1)\n(def rows (npy "x.npy"))\n')
    required = '(require "sexpgpu/nn") (require "sexpgpu/optim") (require "./run.sx")'
    file = write(tmp_path, require=required, run="", data='(def xs rows) (def ys (npy "y.npy"))')
    assert same(checker, file).ok
    assert same(checker, file).ok


def test_warnings_of_a_module_come_each_time(checker: Checker, tmp_path: Path) -> None:
    (tmp_path / "blocks.sx").write_text(BLOCKS + "(defun square (x) (* x x))\n")
    answer = same(checker, write(tmp_path, **USING))
    assert [d.code for d in answer.diagnostics] == ["W-NAME-001"]


def test_unsaved_text_counts(checker: Checker, tmp_path: Path) -> None:
    (tmp_path / "blocks.sx").write_text(BLOCKS)
    file = write(tmp_path, **USING)
    assert checker.check(Request(file)).ok
    overlay = {str(tmp_path / "blocks.sx"): BLOCKS.replace("linear in", "linear 4")}
    assert not checker.check(Request(file, overlay=overlay)).ok
    assert checker.check(Request(file)).ok
    new = tmp_path / "unsaved.sx"
    assert checker.check(Request(new, overlay={str(new): text_of()})).ok
    (missing,) = checker.check(Request(new)).diagnostics
    assert missing.code == "E-IO-101"


def test_names_and_types(checker: Checker) -> None:
    file = EXAMPLES / "shakespeare.sx"
    first, last = checker.answers(Request(file, names=True, library=True))
    assert {"gpt-block", "width", "layer-norm"} <= {n.name for n in first.names}
    assert {"matmul", "defmodel", "let", "cross-entropy"} <= {n.name for n in first.library}
    assert first.knobs["width"] == "128 (default)"
    assert last.names == ()
    text = file.read_text()
    types = {text[p.start : p.end]: p.types for p in first.places[str(file)]}
    assert types["(attn (norm1 x))"] == ("f32[12, 64, 128]",)
    assert types["(slice tokens 1 0 -1)"] == ("i32[12, 64]",)
    assert types["x"] == ("f32[12, 64, 128]",)
    assert all(not first.places for first in checker.answers(Request(file)))


def test_a_dead_process_is_replaced(tmp_path: Path) -> None:
    checker = Checker()
    file = write(tmp_path)
    assert checker.check(Request(file)).ok
    os.kill(checker.process, signal.SIGKILL)
    died = checker.check(Request(file))
    assert died.fault is not None
    assert not died.ok
    assert checker.check(Request(file)).ok
    checker.close()
