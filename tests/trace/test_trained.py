"""What training can change: only what the objective has a gradient for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trace.experiments import codes, write


def told(tmp_path: Path, **replaced: str) -> list[str]:
    return [code for code, _ in codes(write(tmp_path, **replaced))]


@pytest.mark.parametrize(
    "loss",
    [
        "(mean (stop-gradient logits))",
        "(mean (cast (argmax logits) :float))",
        "(mean (cast (cast logits :i32) :float))",
        "(mean (where (> logits 0.0) 1.0 0.0))",
        "(mean (round logits))",
        "(mean (scan (lambda (s r) (values (+ s (stop-gradient r)) nil)) (zeros '(2)) logits))",
        "(mean (scan (lambda (s r) (values (stop-gradient (+ s r)) nil)) (zeros '(2)) logits))",
    ],
)
def test_an_objective_without_a_gradient_trains_nothing(tmp_path: Path, loss: str) -> None:
    assert told(tmp_path, objective=f"(defun objective (logits labels) {loss})") == ["E-RUN-025"]


@pytest.mark.parametrize(
    "loss",
    [
        "(mean (+ logits (stop-gradient (- (round logits) logits))))",  # the straight-through estimator
        "(mean (where (> logits 0.0) logits 0.0))",
        # By way of the state of two turns: the sum of the first is a part of the second.
        "(mean (multiple-value-bind (ab) (scan (lambda (ab r) (values (list (+ (car ab) r) (car ab)) nil))"
        " (list (zeros '(2)) (zeros '(2))) logits) (cadr ab)))",
    ],
)
def test_an_objective_with_a_gradient_is_taken(tmp_path: Path, loss: str) -> None:
    assert told(tmp_path, objective=f"(defun objective (logits labels) {loss})") == []


def test_a_parameter_of_a_loop_that_gets_no_gradient_is_told(tmp_path: Path) -> None:
    model = (
        "(defmodel net () (defparam w (3) :init (normal 1.0)) (defparam v (3) :init (normal 1.0))"
        " (defsub out (linear width 2)) (forward (x) (multiple-value-bind (_last all)"
        " (scan (lambda (s r) (values (+ s (* w r) (stop-gradient v)) (+ s r))) (zeros '(3)) x) (out all))))"
    )
    assert told(tmp_path, model=model) == ["W-PARAM-001"]
