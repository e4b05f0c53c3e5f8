"""Training steps whose products are by warpgroups: kernels of sm_90a through plans, memory and launches, simulated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sexpgpu.dialects.context import open_context
from sexpgpu.driver.compile import compile_in
from sexpgpu.driver.devices import opened
from sexpgpu.driver.prepared import engine_of, prepare_for
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.runtime.calls import Calls, contexts_of, placed
from sexpgpu.runtime.feed import Feed
from sexpgpu.runtime.loading import Loaders
from sexpgpu.runtime.plan import make_plan
from sexpgpu.runtime.ranks import Team
from sexpgpu.runtime.step import TrainStep
from sexpgpu.runtime.weights import initial_tensors
from tests.gpu.kernels import launches_of
from tests.gpu.test_product_warpgroup import SMALL, cut
from tests.trace.experiments import write

STEPS = 4
MODEL = """
(defmodel net ()
  (defsub in (linear 3 64)) (defsub hidden (linear 64 128)) (defsub back (linear 128 64)) (defsub out (linear 64 2))
  (forward (x) (out (gelu (back (gelu (hidden (gelu (in x)))))))))
"""


def trained(file: Path) -> tuple[list[float], int]:
    """The losses of all steps, and how many kernels take tensor maps."""
    with opened("sim") as device, open_context() as context:
        done = compile_in(context, file, Selection(), pipeline=None)
        plans = prepare_for(done, device)
        assert plans is not None
        mapped = sum(bool(launch.maps) for plan in plans.plans.values() for launch in launches_of(plan))
        engine, arrays = engine_of(done, device, plans)
        calls, contexts = Calls(engine, arrays), contexts_of(engine.experiment)
        loader = Loaders().open(engine.experiment.train_loader)
        plan = make_plan(engine.experiment.run, loader.order.epoch_batches, None)
        trainer = TrainStep(
            engine.experiment, Feed(engine.experiment.train_loader, loader, plan, contexts, Team([calls]))
        )
        tensors = placed(initial_tensors(calls, contexts, {}), engine.experiment, arrays)
        return [trainer.run(step, tensors).metrics["train/loss"] for step in range(STEPS)], mapped


def test_steps_give_what_other_chips_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXPGPU_CACHE", "off")
    monkeypatch.setenv("SEXPGPU_CHECK", "1")
    cut(monkeypatch, SMALL)
    loader = "(defloader train-loader (:batch 8 :order :sequential) (x xs) (y ys))"
    run = f"(defrun :steps {STEPS} :seed 1 :precision :bf16)"
    optimizer = "(def optimizer (adam :lr 0.05))"
    file = write(tmp_path, model=MODEL, loader=loader, run=run, optimizer=optimizer)
    wanted, none = run_deep(lambda: trained(file))
    monkeypatch.setenv("SEXPGPU_TARGET", "sm_90a")
    losses, mapped = run_deep(lambda: trained(file))
    assert none == 0
    assert mapped >= 6  # both wide layers: forward, and the gradients of their input and weight
    assert losses == pytest.approx(wanted, rel=2e-2)
    assert wanted[-1] < wanted[0]
    assert np.isfinite(losses).all()
