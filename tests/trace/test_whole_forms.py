"""Every fault of one declaring form is told at once, each at what is written for the option at fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.diag import Diagnostic, apply_edits
from sexpgpu.lang.limits import run_deep
from tests.trace.experiments import compiled, write


def told(file: Path) -> list[tuple[str, str]]:
    """The code of each error, and the text that it marks."""
    rows = file.read_text("utf-8").split("\n")

    def marked(error: Diagnostic) -> str:
        span = error.span
        assert span is not None
        return rows[span.line - 1][span.col - 1 : span.end_col - 1]

    def look() -> list[tuple[str, str]]:
        with compiled(file) as done:
            return [(error.code, marked(error)) for error in done.diagnostics.errors]

    return run_deep(look)


@pytest.mark.parametrize(
    ("run", "faults"),
    [
        (
            '(defrun :steps -5 :precision :f99 :seed "x" :log-every 0)',
            [("E-RUN-012", "-5"), ("E-ARG-011", ":f99"), ("E-ARG-010", '"x"'), ("E-RUN-012", "0")],
        ),
        (
            '(defrun :seed "x" :clip-norm -1 :microbatches 0)',
            [
                ("E-RUN-010", '(defrun :seed "x" :clip-norm -1 :microbatches 0)'),
                ("E-ARG-010", '"x"'),
                ("E-RUN-012", "-1"),
                ("E-RUN-012", "0"),
            ],
        ),
        (
            "(defrun :steps 2 :checkpoint (list :evrey 1 :keep 0))",
            [("E-ARG-002", ":evrey"), ("E-RUN-012", "0")],
        ),
        (
            "(defrun :step 2 :bogus 3 :precision :f99 :checkpoint (list :keep 0))",
            [("E-ARG-002", ":step"), ("E-ARG-002", ":bogus"), ("E-ARG-011", ":f99"), ("E-RUN-012", "0")],
        ),
    ],
)
def test_a_run_tells_all_that_is_wrong_in_it(run: str, faults: list[tuple[str, str]], tmp_path: Path) -> None:
    assert told(write(tmp_path, run=run)) == faults


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        (
            ':btach 4 :order :shufle :seed "x"',
            [("E-ARG-002", ":btach"), ("E-ARG-011", ":shufle"), ("E-ARG-010", '"x"')],
        ),
        (":btach 4 :order :shuffle", [("E-ARG-002", ":btach")]),
        (":batch 0 :order 5", [("E-LOAD-041", "0"), ("E-ARG-011", "5")]),
    ],
)
def test_a_loader_tells_all_that_is_wrong_in_it(options: str, faults: list[tuple[str, str]], tmp_path: Path) -> None:
    assert told(write(tmp_path, loader=f"(defloader train-loader ({options}) (x xs) (y ys))")) == faults


@pytest.mark.parametrize(
    ("part", "form", "mended"),
    [
        ("run", "(defrun steps 3)", "(defrun :steps 3)"),
        ("run", "(defrun :seed 1 steps 3)", "(defrun :seed 1 :steps 3)"),
        (
            "loader",
            "(defloader train-loader (batch 4) (x xs) (y ys))",
            "(defloader train-loader (:batch 4) (x xs) (y ys))",
        ),
        ("eval", "(defeval val (:loader train-loader every 2))", "(defeval val (:loader train-loader :every 2))"),
    ],
)
def test_an_option_without_its_colon_gets_one(part: str, form: str, mended: str, tmp_path: Path) -> None:
    file = write(tmp_path, **{part: form})

    def look() -> list[Diagnostic]:
        with compiled(file) as done:
            return done.diagnostics.errors

    (error,) = run_deep(look)
    assert error.code == "E-ARG-002"
    file.write_text(apply_edits(file.read_text("utf-8"), error.fix), "utf-8")
    assert mended in file.read_text("utf-8")
    assert told(file) == []


def test_a_handler_takes_them_together(tmp_path: Path) -> None:
    run = '(defrun :steps 4) (handler-case (defrun :steps 0 :seed "x") (error () 5))'
    assert told(write(tmp_path, run=run)) == []


@pytest.mark.parametrize(
    ("part", "form", "fault"),
    [
        ("optimizer", "(def optimizer (sgd :momentum 0.5 :lr -1))", ("E-VALUE-012", "-1")),
        ("optimizer", "(def optimizer (ema 2 (adam)))", ("E-VALUE-012", "2")),
        ("optimizer", "(def optimizer (adam :beta1 'x))", ("E-ARG-010", "'x")),
        ("model", "(defmodel net () (defsub out (linear width 0)) (forward (x) (out x)))", ("E-VALUE-012", "0")),
        ("model", "(defmodel net () (defsub out (linear 3.0 2)) (forward (x) (out x)))", ("E-ARG-010", "3.0")),
    ],
)
def test_an_argument_outside_its_domain_is_marked(part: str, form: str, fault: tuple[str, str], tmp_path: Path) -> None:
    assert told(write(tmp_path, **{part: form})) == [fault]
