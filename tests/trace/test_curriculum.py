"""Stages of a loader, and the curriculum that chooses: what is read, that a resume is exact, what is refused."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from sexpgpu.driver.engine import CpuEngine
from sexpgpu.lang.limits import run_deep
from sexpgpu.runtime.evaluate import Pass
from sexpgpu.runtime.run import RunOptions, RunResult, run
from tests.runtime.reading import events, last_tensors, timeless
from tests.trace.experiments import codes, prepared, text_of, write, write_data

STAGES = """(defloader train-loader (:batch 2 :order :shuffle)
 (stage easy (x (records xs :to 4)) (y (records ys :to 4)))
 (stage middle (x (records xs :from 4)) (y (records ys :from 4)))
 (stage all (x xs) (y ys)))
(defloader val-loader (:batch 4) (x xs) (y ys))"""
CURRICULUM = """(defun curriculum (ctx)
  (let ((loss (getf (getf ctx :metrics) :val/loss)) (stage (getf ctx :stage)))
    (where (< loss 0.46) 2 (where (< loss 0.48) (max 1 stage) stage))))"""
PREPARE = """(defun prepare (batch ctx)
  (metric 'stage (getf ctx :stage) :reduce :last)
  (values (field batch 'x) (field batch 'y)))"""
EVAL = "(defeval val (:loader val-loader :every 2)) (defeval other (:loader val-loader :every 3))"


def experiment(folder: Path, **more: str) -> Path:
    write_data(folder)
    file = folder / "stages.sx"
    parts = {"loader": STAGES, "eval": f"{EVAL}\n{CURRICULUM}", "prepare": PREPARE}
    parts["evaluate"] = "(defun evaluate (logits labels) (metric 'loss (cross-entropy logits labels)))"
    file.write_text(text_of(**{**parts, "run": "(defrun :steps 24 :seed 1 :checkpoint '(:every 1))", **more}))
    return file


def trained(file: Path, out: Path, *stops: int | None) -> RunResult:
    def work() -> RunResult:
        with prepared(file) as done:
            assert done.diagnostics.errors == []
            for stop in stops:
                result = run(CpuEngine(done), RunOptions(out=out, quiet=True, resume="latest", steps=stop))
            return result

    return run_deep(work)


def test_evaluations_move_the_stages_and_a_resume_is_exact(tmp_path: Path) -> None:
    file = experiment(tmp_path)
    assert trained(file, tmp_path / "whole", None).code == 0
    stages = [event["metrics"]["train/stage"] for event in events(tmp_path / "whole", "step")]
    assert sorted(set(stages)) == [0, 1, 2]
    assert stages == sorted(stages)
    assert all(stages[i] == stages[i + 1] for i in range(0, 24, 2))  # only at evaluations of val
    moves = [e for e in events(tmp_path / "whole", "annotation") if e["name"] == "stage"]
    assert [e["data"] for e in moves] == [{"stage": 1, "name": "middle"}, {"stage": 2, "name": "all"}]
    assert [e["step"] for e in moves] == [stages.index(1), stages.index(2)]
    # Stopping at odd steps adds evaluations at the ends, which choose nothing.
    assert trained(file, tmp_path / "cut", 3, 4, 7, 8, 9, 14, 15, 21, None).code == 0
    assert last_tensors(tmp_path / "cut") == last_tensors(tmp_path / "whole")
    assert timeless(tmp_path / "cut", "step") == timeless(tmp_path / "whole", "step")
    saved = json.loads((tmp_path / "cut/checkpoints/step-00000024/checkpoint.json").read_bytes())["body"]
    assert saved["stage"] == 2
    losses = {k: v for e in timeless(tmp_path / "cut", "eval")[-2:] for k, v in e["metrics"].items()}
    assert {name: float.fromhex(value) for name, value in saved["observed"].items()} == losses


def test_the_passes_that_it_reads_must_have_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = CURRICULUM.replace("(< loss 0.46)", "(< (+ loss (getf (getf ctx :metrics) :other/loss)) 9.0)")
    file = experiment(tmp_path, eval=f"{EVAL}\n{both}")
    assert trained(file, tmp_path / "out", None).code == 0
    moves = [e for e in events(tmp_path / "out", "annotation") if e["name"] == "stage"]
    assert [(e["step"], e["data"]["name"]) for e in moves] == [(6, "all")]

    # A stop between the two passes: the second one, after the resume, completes what the first one reported.
    evaluate = Pass.run

    def stopping(self: Pass, step: int, *rest: Any) -> Any:
        if (step, self.evaluation.name) == (6, "other"):
            signal.raise_signal(signal.SIGTERM)
        return evaluate(self, step, *rest)

    with monkeypatch.context() as patch, prepared(file) as done:
        patch.setattr(Pass, "run", stopping)
        result = run(CpuEngine(done), RunOptions(out=tmp_path / "cut", quiet=True))
    assert (result.code, result.step) == (128 + signal.SIGTERM, 6)
    assert trained(file, tmp_path / "cut", None).code == 0
    assert last_tensors(tmp_path / "cut") == last_tensors(tmp_path / "out")
    moves = [e for e in events(tmp_path / "cut", "annotation") if e["name"] == "stage"]
    assert [(e["step"], e["data"]["name"]) for e in moves] == [(6, "all")]


def test_a_stage_that_is_not_there_ends_the_run(tmp_path: Path) -> None:
    file = experiment(tmp_path, eval=f"{EVAL} (defun curriculum (ctx) 7)")
    result = trained(file, tmp_path / "out", None)
    assert (result.code, result.step) == (1, 2)
    assert result.error is not None
    assert (result.error.code, result.error.actual) == ("E-RUN-103", "7")
    assert result.error.expected == "0 (easy), 1 (middle), 2 (all)"


ONE = "(defloader train-loader (:batch 4) (x xs) (y ys))"
BROKEN = {
    "E-RUN-036": {"loader": ONE, "eval": f"(defeval val (:loader train-loader :every 2)) {CURRICULUM}"},
    "E-RUN-027": {"loader": STAGES, "eval": "(defeval val (:loader val-loader :every 2))"},
    "E-RUN-028": {"loader": STAGES, "eval": f"{EVAL} (defun curriculum (ctx) (getf (getf ctx :metrics) :val/loss))"},
    "E-RUN-029": {"loader": STAGES, "eval": CURRICULUM},
    "E-LOAD-043": {"loader": "(defloader train-loader (:batch 2) (stage a (x xs) (y ys)) (stage b (x ys) (y ys)))"},
    "E-LOAD-044": {"loader": STAGES, "eval": f"(defeval val (:loader train-loader :every 2)) {CURRICULUM}"},
}


@pytest.mark.parametrize("code", BROKEN)
def test_halves_of_a_curriculum_are_refused(code: str, tmp_path: Path) -> None:
    parts = BROKEN[code]
    if code == "E-LOAD-043":
        parts = {**parts, "eval": ""}
    assert [found for found, _ in run_deep(lambda: codes(write(tmp_path, **parts)))] == [code]


def test_fields_outside_of_stages_are_refused(tmp_path: Path) -> None:
    loader = "(defloader train-loader (:batch 2) (stage a (x xs)) (y ys))"
    assert run_deep(lambda: codes(write(tmp_path, loader=loader, eval="")))[0][0].startswith("E-")
