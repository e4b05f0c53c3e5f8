"""Models: what freezing, parts and initializers give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sexpgpu.dialects.opdef import Array
from tests.trace.experiments import compiled, write
from tests.trace.expressions import run

GENERATOR_AND_CRITIC = """
(defmodel net ()
  (defsub maker (linear width 2)) (defsub critic (linear 2 2))
  (forward (x) (values (maker x) x)))
"""


def trained(folder: Path, objective: str) -> set[str]:
    """Parameters that the train graph reads as something to differentiate, beyond a zero gradient."""
    file = write(folder, model=GENERATOR_AND_CRITIC, objective=f"(defun objective (made x labels) {objective})",
                 evaluate="(defun evaluate (made x labels) (metric 'loss (mean made)))")  # fmt: skip
    with compiled(file) as done:
        assert not done.diagnostics.errors, done.diagnostics.errors
        text = str(done.module)
    train = text[text.index("@train(") :]
    grads = train[train.index("return") : train.index("\n", train.index("return"))]
    names = [part.split('"')[1] for part in train[: train.index("{\n")].split("sx.grad = ")[1:]]
    values = grads.split(" : ")[0].removeprefix("return ").split(", ")[-len(names) :]
    zero = {line.split(" = ")[0].strip() for line in train.split("\n") if "sx.constant" in line and "dense<0.0" in line}
    return {name for name, value in zip(names, values, strict=True) if value not in zero}


@pytest.mark.parametrize(
    ("objective", "parameters"),
    [
        ("(mean (funcall (part model 'critic) made))", {"maker.weight", "maker.bias", "critic.weight", "critic.bias"}),
        ("(mean (funcall (frozen (part model 'critic)) made))", {"maker.weight", "maker.bias"}),
        ("(mean (funcall (part model 'critic) (stop-gradient made)))", {"critic.weight", "critic.bias"}),
    ],
)
def test_what_frozen_and_stop_gradient_train(objective: str, parameters: set[str], tmp_path: Path) -> None:
    found = {name.removeprefix("model.") for name in trained(tmp_path, objective)}
    assert found == parameters


def drawn(initializer: str, *shape: int) -> Array:
    sizes = " ".join(map(str, shape))
    return run(f"(lambda () (funcall {initializer} '({sizes})))")[0]


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (6, 2, 2, 2), (64, 64), (1, 4)])
def test_orthogonal_weights_have_orthonormal_rows_or_columns(shape: tuple[int, ...]) -> None:
    w = drawn("(orthogonal 2.0)", *shape).reshape(shape[0], -1)
    square = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    np.testing.assert_allclose(square, 4.0 * np.eye(len(square)), atol=1e-9)


def test_orthogonal_weights_favour_no_direction() -> None:
    w = drawn("(orthogonal)", 60, 60)
    assert abs(w.mean()) < 0.01
    assert abs((w**4).mean() * 60**2 - 3) < 0.4  # entries of a Haar matrix are nearly normal of variance 1/n


def test_a_truncated_normal_stays_within_two_deviations() -> None:
    x = drawn("(truncated-normal 0.5)", 200, 100)
    assert np.abs(x).max() <= 1.0
    assert abs(x.mean()) < 0.01
    assert abs(x.std() / 0.5 - 0.8796) < 0.01  # of a standard normal cut to [-2, 2]


@pytest.mark.parametrize(
    ("initializer", "deviation", "most"),
    [
        ("(xavier-uniform)", np.sqrt(2 / 300), np.sqrt(6 / 300)),
        ("(xavier-normal)", np.sqrt(2 / 300), np.inf),
        ("(kaiming-uniform)", np.sqrt(2 / 100), np.sqrt(6 / 100)),
        ("(kaiming-normal)", np.sqrt(2 / 100), np.inf),
        ("(fan-in-uniform)", np.sqrt(1 / 300), np.sqrt(1 / 100)),
        ("(normal 0.3)", 0.3, np.inf),
        ("(uniform -1.0 1.0)", np.sqrt(1 / 3), 1.0),
    ],
)
def test_initializers_have_their_moments(initializer: str, deviation: float, most: float) -> None:
    x = drawn(initializer, 200, 100)
    assert abs(x.mean()) < 0.03 * deviation
    assert abs(x.std() / deviation - 1) < 0.02
    assert np.abs(x).max() <= most


def test_a_constant_initializer_gives_the_shape_that_it_is_asked_for() -> None:
    for initializer, value in (("(zeros-init)", 0.0), ("(ones-init)", 1.0), ("(constant-init -2.5)", -2.5)):
        np.testing.assert_array_equal(drawn(initializer, 3, 2), np.full((3, 2), value))
    np.testing.assert_array_equal(drawn("(init-by (lambda (shape) (* 3.0 (eye (car shape)))))", 2, 2), 3.0 * np.eye(2))


TOWER = """
(defmodel net ()
  (defsub layers (repeat (i 3) (linear width (if (= i 2) 2 width) :bias (= i 1))))
  (defsub twins (repeat 2 (linear 2 2 :bias nil)))
  (forward (x) (dolist (layer (append layers twins) x) (setq x (funcall layer x)))))
"""


@pytest.mark.parametrize(
    ("selector", "paths"),
    [
        ("", "layers.0.weight layers.1.weight layers.1.bias layers.2.weight twins.0.weight twins.1.weight"),
        ('"*.bias"', "layers.1.bias"),
        ("(lambda (p) (equal (shape p) '(2 2)))", "twins.0.weight twins.1.weight"),
        ('\'("*layers.2*" "*twins.0*")', "layers.2.weight twins.0.weight"),
    ],
)
def test_the_parameters_of_a_model_by_their_paths(selector: str, paths: str, tmp_path: Path) -> None:
    expected = " ".join(f'"model.{path}"' for path in paths.split())
    objective = (
        "(defun objective (logits labels)"
        f" (assert (equal (mapcar (lambda (p) (parameter-path p)) (parameters model {selector})) '({expected})))"
        " (cross-entropy logits labels))"
    )
    with compiled(write(tmp_path, model=TOWER, objective=objective)) as done:
        assert done.diagnostics.errors == []


def test_a_child_may_have_the_name_of_an_argument(tmp_path: Path) -> None:
    model = """(defmodel head (inner &key (out (linear 3 2))) (defsub inner inner) (defsub out out)
      (forward (x) (out (inner x)))) (defmodel net () (defsub head (head (linear 3 3))) (forward (x) (head x)))"""
    with compiled(write(tmp_path, model=model)) as done:
        assert done.diagnostics.errors == []
        assert done.experiment is not None
        assert [p.path for p in done.experiment.parameters] == [
            "model.head.inner.weight",
            "model.head.inner.bias",
            "model.head.out.weight",
            "model.head.out.bias",
        ]
