"""What `metric` reports of several calls: each way to reduce, weights, and what maps the reduced value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sexpgpu.diag import Diagnostic
from sexpgpu.driver.engine import CpuEngine
from sexpgpu.lang.limits import run_deep
from sexpgpu.runtime.run import RunOptions, run
from tests.trace.experiments import prepared, text_of

Y = np.array([3, 0, 1, 2, 5, 1, 0, 4, 2, 6, 1, 3])
REPORT = """(let* ((y (cast labels :float)) (w (+ y 1.0)))
    (metric 'mean (mean y))
    (metric 'total (sum y) :reduce :sum)
    (metric 'most (amax y) :reduce :max)
    (metric 'last (sum y) :reduce :last)
    (metric 'weighted (/ (sum (* y w)) (sum w)) :weight (sum w))
    (metric 'mapped (mean y) :then #'exp)
    (metric 'mapped-sum (sum y) :reduce :sum :then (lambda (v) (sqrt (* 2 v))))"""


def reported(folder: Path) -> dict[str, dict[str, float]]:
    """The metrics of the first step (two microbatches of four) and of the pass (calls over five, five and two)."""
    np.save(folder / "x.npy", np.ones((12, 3)))
    np.save(folder / "y.npy", Y)
    file = folder / "metrics.sx"
    file.write_text(
        text_of(
            loader="(defloader train-loader (:batch 4 :order :sequential) (x xs) (y ys))"
            " (defloader all (:batch 5) (x xs) (y ys))",
            objective=f"(defun objective (logits labels) {REPORT} (mean (square logits))))",
            evaluate=f"(defun evaluate (logits labels) {REPORT}))",
            eval="(defeval val (:loader all :at-start t))",
            run="(defrun :steps 1 :seed 1 :precision :f64 :microbatches 2)",
        )
    )
    out = folder / "run"

    def work() -> Diagnostic | None:
        with prepared(file) as done:
            assert done.diagnostics.errors == []
            return run(CpuEngine(done), RunOptions(out=out, quiet=True)).error

    assert run_deep(work) is None
    events: list[dict[str, Any]] = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    return {e["event"]: e["metrics"] for e in reversed(events) if e["event"] in ("step", "eval")}


def wanted(calls: list[np.ndarray]) -> dict[str, float]:
    y = np.concatenate(calls).astype(float)
    return {
        "mean": y.mean(),
        "total": y.sum(),
        "most": y.max(),
        "last": calls[-1].sum(),
        "weighted": (y * (y + 1)).sum() / (y + 1).sum(),
        "mapped": np.exp(y.mean()),
        "mapped-sum": np.sqrt(2 * y.sum()),
    }


def test_each_way_to_reduce(tmp_path: Path) -> None:
    found = reported(tmp_path)
    for event, prefix, calls in (
        ("step", "train", [Y[:4], Y[4:8]]),
        ("eval", "val", [Y[:5], Y[5:10], Y[10:]]),
    ):
        for name, value in wanted(calls).items():
            assert found[event][f"{prefix}/{name}"] == pytest.approx(value, abs=1e-12), (event, name)
