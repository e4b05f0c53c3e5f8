"""What the loop calls, told as one mistake with the edit that mends it: makers without parentheses, lacking labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.diag import Diagnostic, apply_edits
from sexpgpu.lang.limits import run_deep
from tests.trace.experiments import compiled, write


def errors(file: Path) -> list[Diagnostic]:
    def look() -> list[Diagnostic]:
        with compiled(file) as done:
            return done.diagnostics.errors

    return run_deep(look)


@pytest.mark.parametrize(
    ("part", "form", "mended"),
    [
        ("instance", "(def model net)", "(def model (net))"),
        ("optimizer", "(def optimizer adamw)", "(def optimizer (adamw))"),
        (
            "objective",
            "(defun objective (logits) (cross-entropy logits labels))",
            "(defun objective (logits labels) (cross-entropy logits labels))",
        ),
        (
            "objective",
            "(defun objective () (cross-entropy logits labels))",
            "(defun objective (logits labels) (cross-entropy logits labels))",
        ),
        (
            "evaluate",
            "(defun evaluate (logits) (metric 'loss (cross-entropy logits labels)))",
            "(defun evaluate (logits labels) (metric 'loss (cross-entropy logits labels)))",
        ),
        (
            "prepare",
            "(defun prepare (batch) (field batch 'x))",
            "(defun prepare (batch) (values (field batch 'x) (field batch 'y)))",
        ),
    ],
)
def test_one_mistake_is_told_once_and_mended(part: str, form: str, mended: str, tmp_path: Path) -> None:
    file = write(tmp_path, **{part: form})
    found = errors(file)
    if part == "prepare":  # both the objective and evaluate miss the labels
        found = found[:1]
    (error,) = found
    file.write_text(apply_edits(file.read_text("utf-8"), error.fix), "utf-8")
    assert mended in file.read_text("utf-8")
    assert errors(file) == []


def test_a_maker_with_arguments_is_shown_with_them(tmp_path: Path) -> None:
    (error,) = errors(write(tmp_path, instance="(def model linear)"))
    assert (error.code, error.fix) == ("E-NAME-001", ())
    assert error.help == "`linear` is a function: (linear in out &key ((:bias bias-p) t) init) makes one"


def test_a_function_stays_a_function(tmp_path: Path) -> None:
    (error,) = errors(write(tmp_path, knobs="(defknobs (width 3)) (def act tanh)"))
    assert [edit.text for edit in error.fix] == ["#'"]


def test_a_label_that_the_body_does_not_name_is_not_made_up(tmp_path: Path) -> None:
    (error,) = errors(write(tmp_path, objective="(defun objective (logits) (mean logits))"))
    assert (error.code, error.fix) == ("E-ARG-001", ())
    assert error.help == "a parameter for each: (logits label)"


def test_labels_that_are_missing_are_shown_behind_those_there_are(tmp_path: Path) -> None:
    loader = "(defloader train-loader (:batch 4) (x xs) (y ys) (z ys))"
    objective = "(defun objective (logits labels extra) (+ (cross-entropy logits labels) (mean (cast extra :float))))"
    evaluate = "(defun evaluate (logits labels extra) (metric 'loss (cross-entropy logits labels)))"
    file = write(tmp_path, loader=loader, objective=objective, evaluate=evaluate)
    error = errors(file)[0]
    assert (error.code, error.expected) == ("E-RUN-026", "(values input labels extra)")
    file.write_text(apply_edits(file.read_text("utf-8"), error.fix), "utf-8")
    assert "(values (field batch 'x) (field batch 'y) (field batch 'z))" in file.read_text("utf-8")
    assert errors(file) == []
