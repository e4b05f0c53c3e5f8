"""A step is the same however its records are split: dropout, flips, masked and weighted losses, a short last batch.

Twenty records in steps of eight leave a last step of four. In f64 every split gives the losses, the gradient norms and
the weights of one microbatch of eight, to 1e-12.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from sexpgpu.diag import Diagnostic
from sexpgpu.driver.engine import CpuEngine
from sexpgpu.lang.limits import run_deep
from sexpgpu.runtime.run import RunOptions, run
from tests.trace.experiments import prepared, text_of

RECORDS, LIMIT = 20, 1e-12

OBJECTIVE = """(defun objective (logits labels)
  (let* ((kept (/= labels -1)) (count (sum (cast kept :float))))
    (metric 'kept (step-sum count) :reduce :last)
    (metric 'by-hand (step-mean (* (cast kept :float) (logsumexp logits)) (cast kept :float)))
    (metric 'plain (mean (square logits)))
    (+ (cross-entropy logits labels :ignore-index -1 :label-smoothing 0.1 :z-loss 0.01 :weights '(1.0 2.5))
       (* 0.1 (cross-entropy logits (max labels 0) :ignore-index 0)))))"""


def trained(folder: Path, batch: int, microbatches: int) -> tuple[list[dict[str, float]], dict[str, Any]]:
    """The metrics of each step of an epoch, and the weights after it."""
    rng = np.random.default_rng(3)
    np.save(folder / "x.npy", rng.normal(size=(RECORDS, 3)))
    labels = rng.integers(0, 2, size=RECORDS)
    labels[[0, 1, 2, 3, 9, 16]] = -1
    np.save(folder / "y.npy", labels)
    file = folder / "split.sx"
    file.write_text(
        text_of(
            loader=f"(defloader train-loader (:batch {batch} :order :sequential) (x xs) (y ys))",
            prepare="(defun prepare (batch) (values (random-flip (field batch 'x)) (field batch 'y)))",
            model="(defmodel net () (defsub in (linear width 5)) (defsub out (linear 5 2))"
            " (forward (x) (out (dropout (tanh (in x)) 0.3))))",
            objective=OBJECTIVE,
            eval="",
            run=f"(defrun :epochs 1 :seed 1 :precision :f64 :microbatches {microbatches})",
        )
    )
    out = folder / f"run-{batch}-{microbatches}"

    def work() -> Diagnostic | None:
        with prepared(file) as done:
            assert done.diagnostics.errors == []
            return run(CpuEngine(done), RunOptions(out=out, quiet=True)).error

    assert run_deep(work) is None
    events: list[dict[str, Any]] = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    steps = [event["metrics"] for event in events if event["event"] == "step"]
    return steps, load_file(sorted(out.rglob("*.safetensors"))[-1])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, float]], dict[str, Any]]:
    return trained(tmp_path_factory.mktemp("whole"), 8, 1)


def test_the_last_step_is_short(whole: tuple[list[dict[str, float]], dict[str, Any]]) -> None:
    steps, _ = whole
    assert [step["train/kept"] for step in steps] == [4, 7, 3]


@pytest.mark.parametrize(("batch", "microbatches"), [(4, 2), (2, 4), (1, 8)])
def test_every_split_is_the_same(
    batch: int, microbatches: int, whole: tuple[list[dict[str, float]], dict[str, Any]], tmp_path: Path
) -> None:
    steps, weights = whole
    others, other_weights = trained(tmp_path, batch, microbatches)
    assert len(others) == len(steps) == 3
    for one, other in zip(steps, others, strict=True):
        for name in ("train/loss", "train/kept", "train/by-hand", "train/plain", "optim/grad_norm"):
            assert other[name] == pytest.approx(one[name], abs=LIMIT), name
    assert weights.keys() == other_weights.keys()
    for name, value in weights.items():
        np.testing.assert_allclose(other_weights[name], value, rtol=0, atol=LIMIT, err_msg=name)
