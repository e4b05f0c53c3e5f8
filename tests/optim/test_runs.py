"""Runs with optimizers: a resumed one is the uninterrupted one, evaluation sees the weights it should."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve

from sexpgpu.diag import Diagnostic
from sexpgpu.driver.engine import CpuEngine
from sexpgpu.lang.limits import run_deep
from sexpgpu.runtime.run import RunOptions, run
from tests.optim.following import Array
from tests.runtime.line_fit import make_engine, options, write_data
from tests.runtime.reading import events, last_tensors, timeless
from tests.trace.experiments import prepared, text_of
from tests.trace.experiments import write_data as write_records

OPTIMIZERS = {
    "sgd": "(sgd :lr 0.1 :momentum 0.9 :dampening 0.5)",
    "adam": "(adam :lr 0.05)",
    "adamw": "(adamw :lr (cosine-schedule 0.05 :warmup 2))",
    "rmsprop": "(rmsprop :lr 0.05 :centered t :momentum 0.9)",
    "adagrad": "(adagrad :lr 0.1 :initial 0.1)",
    "adadelta": "(adadelta)",
    "adafactor": "(adafactor :beta1 0.9)",
    "lion": "(lion :lr 0.01)",
    "muon": "(muon)",
    "lamb": "(lamb :lr 0.05 :weight-decay 0.1)",
    "schedule-free": "(schedule-free-adamw :lr (constant-schedule 0.05 :warmup 2))",
    "ema": "(ema 0.9 (adam :lr 0.05) :every 2)",
}


def run_of(folder: Path, optimizer: str, model: str, out: str, **more: Any) -> Path:
    """A run of six steps evaluated before, on the way and after, on both sorts of weights."""
    write_records(folder)
    file = folder / "experiment.sx"
    raw = "(defeval raw (:loader train-loader :every 2 :at-start t :weights :train))"
    file.write_text(
        text_of(
            model=model,
            optimizer=f"(def optimizer {optimizer})",
            eval=f"(defeval val (:loader train-loader :every 2 :at-start t)) {raw}",
            run="(defrun :steps 6 :seed 1 :checkpoint '(:every 2))",
        )
    )

    def work() -> Diagnostic | None:
        with prepared(file) as done:
            assert done.diagnostics.errors == []
            return run(CpuEngine(done), RunOptions(out=folder / out, quiet=True, **more)).error

    assert run_deep(work) is None
    return folder / out


def test_a_resumed_run_is_bitwise_the_same_with_every_optimizer(tmp_path: Path) -> None:
    parts = " ".join(f"(defsub {name} (linear width width))" for name in OPTIMIZERS)
    calls = " ".join(f"(setq x (tanh ({name} x)))" for name in OPTIMIZERS)
    model = f"(defmodel net () {parts} (defsub out (linear width 2)) (forward (x) {calls} (out x)))"
    groups = " ".join(f'(group "model.{name}.weight" {form})' for name, form in OPTIMIZERS.items())
    biases = " ".join(f'(group "model.{n}.bias" {f})' for n, f in OPTIMIZERS.items() if n != "muon")
    optimizer = f"(optimizer-groups (sgd) {groups} {biases})"
    whole = run_of(tmp_path, optimizer, model, "whole")
    out = run_of(tmp_path, optimizer, model, "cut", steps=3)
    begun = last_tensors(out)
    run_of(tmp_path, optimizer, model, "cut", resume="latest")
    cut, wanted = last_tensors(out), last_tensors(whole)
    assert [name for name in wanted if cut[name] != wanted[name]] == []
    assert [name for name in wanted if name.startswith("param/") and begun[name] == wanted[name]] == []
    assert timeless(out, "step") == timeless(whole, "step")
    states = Counter(name.split("/")[1].split(".")[1] for name in wanted if name.startswith("state/"))
    assert set(OPTIMIZERS) == set(states)
    assert {event["step"] for event in events(whole, "eval")} == {0, 2, 4, 6}
    evaluated = [event for event in timeless(out, "eval") if event["step"] != 3]
    assert evaluated == timeless(whole, "eval")


def test_evaluation_sees_the_view_or_what_is_trained(tmp_path: Path) -> None:
    model = "(defmodel net () (defsub out (linear width 2)) (forward (x) (out x)))"
    averaged = run_of(tmp_path, "(ema 0.5 (sgd :lr 0.5) :every 3)", model, "averaged")
    plain = run_of(tmp_path, "(sgd :lr 0.5)", model, "plain")

    def losses(out: Path, name: str) -> list[float]:
        return [event["metrics"][f"{name}/loss"] for event in events(out, "eval") if event["name"] == name]

    assert losses(averaged, "raw") == losses(plain, "raw") == losses(plain, "val")
    seen, raw = losses(averaged, "val"), losses(averaged, "raw")
    assert seen[0] == seen[1] == raw[0]  # at step 2 the average has not moved yet
    assert len(set(raw)) == 4
    assert not set(seen[1:]) & set(raw[1:])


def test_a_view_is_computed_once_between_two_steps(tmp_path: Path) -> None:
    write_data(tmp_path)
    asked: list[Array] = []

    def halved(w: Array) -> list[Array]:
        asked.append(w)
        return [w / 2]

    engine = make_engine(tmp_path, functions={"view": halved})
    passes = [evolve(e, every=1, at_start=True) for e in engine.experiment.evaluations]
    changed = evolve(engine.experiment, views={"model.w": "view"}, evaluations=tuple(passes))
    engine = evolve(engine, experiment=changed)
    assert run(engine, options(tmp_path / "out", steps=3)).code == 0
    assert len(events(tmp_path / "out", "eval")) == 8
    assert len(asked) == 4
    assert len({array.tobytes() for array in asked}) == 4
    assert all(np.isfinite(array).all() for array in asked)
