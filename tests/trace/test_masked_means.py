"""Masked losses and their metrics are the same number however a step's records are split, and in uneven passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sexpgpu.diag import Diagnostic
from sexpgpu.driver.engine import CpuEngine
from sexpgpu.driver.pipeline import Passes
from sexpgpu.lang.limits import run_deep
from sexpgpu.runtime.run import RunOptions, run
from tests.trace.experiments import prepared, text_of

RECORDS = 16


def trained(
    folder: Path, batch: int, microbatches: int, evaluated: int = 5, skip: tuple[str, ...] = ()
) -> dict[str, list[dict[str, float]]]:
    """Metrics of the steps and evaluations of two steps of eight records each, by the kind of event."""
    rng = np.random.default_rng(3)
    np.save(folder / "x.npy", rng.normal(size=(RECORDS, 3)))
    np.save(folder / "y.npy", rng.choice([-1, 0, 1], size=RECORDS))
    file = folder / "masked.sx"
    loss = "(cross-entropy logits labels :ignore-index -1)"
    observed = f"(metric 'plain {loss}) (metric 'scaled (- (/ {loss} 2.0)))"
    file.write_text(
        text_of(
            loader=f"(defloader train-loader (:batch {batch}) (x xs) (y ys))"
            f" (defloader all (:batch {evaluated}) (x xs) (y ys))",
            objective=f"(defun objective (logits labels) {observed} {loss})",
            evaluate=f"(defun evaluate (logits labels) {observed})",
            eval="(defeval val (:loader all :at-start t))",
            run=f"(defrun :steps 2 :seed 1 :precision :f64 :microbatches {microbatches})",
        )
    )
    out = folder / f"run-{batch}-{microbatches}-{evaluated}-{'-'.join(skip)}"

    def work() -> Diagnostic | None:
        with prepared(file, passes=Passes(frozenset(skip))) as done:
            assert done.diagnostics.errors == []
            return run(CpuEngine(done), RunOptions(out=out, quiet=True)).error

    assert run_deep(work) is None
    found: dict[str, list[dict[str, float]]] = {"step": [], "eval": []}
    events: list[dict[str, Any]] = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    for event in events:
        if event["event"] in found:
            found[event["event"]].append(event["metrics"])
    return found


@pytest.mark.parametrize(("batch", "microbatches"), [(4, 2), (2, 4), (1, 8)])
def test_a_step_is_the_same_on_every_split(batch: int, microbatches: int, tmp_path: Path) -> None:
    whole = trained(tmp_path, 8, 1)["step"]
    split = trained(tmp_path, batch, microbatches)["step"]
    for one, other in zip(whole, split, strict=True):
        assert one["train/plain"] == pytest.approx(one["train/loss"], abs=1e-12)
        for name in ("train/loss", "train/plain", "train/scaled", "optim/grad_norm"):
            assert other[name] == pytest.approx(one[name], abs=1e-12), name


def test_totals_need_no_graph_of_their_own(tmp_path: Path) -> None:
    """Without `step-sums` the train graph is run once for its terms and once with their totals."""
    split, whole = trained(tmp_path, 2, 4)["step"], trained(tmp_path, 2, 4, skip=("step-sums",))["step"]
    for one, other in zip(split, whole, strict=True):
        for name in ("train/loss", "train/plain", "train/scaled", "optim/grad_norm"):
            assert other[name] == one[name]


def test_an_uneven_pass_is_exact(tmp_path: Path) -> None:
    whole = trained(tmp_path, 8, 1, evaluated=RECORDS)["eval"]
    uneven = trained(tmp_path, 8, 1, evaluated=5)["eval"]
    assert len(whole) == len(uneven) == 2
    for one, other in zip(whole, uneven, strict=True):
        assert one["val/scaled"] == pytest.approx(-one["val/plain"] / 2, abs=1e-12)
        for name in ("val/plain", "val/scaled"):
            assert other[name] == pytest.approx(one[name], abs=1e-12), name
