"""Steps in full swing ask the device for nothing and are replayed: the same addresses come again after a few steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sexpgpu.dialects.context import open_context
from sexpgpu.driver.compile import compile_in
from sexpgpu.driver.devices import engine_of, opened, prepare_for
from sexpgpu.gpu.arrays import DeviceArrays
from sexpgpu.gpu.program import DeviceProgram
from sexpgpu.gpu.updates import DeviceUpdates
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.runtime.calls import Calls, contexts_of, placed
from sexpgpu.runtime.loading import Loaders
from sexpgpu.runtime.plan import make_plan
from sexpgpu.runtime.step import TrainStep
from sexpgpu.runtime.weights import initial_tensors
from tests.trace.experiments import write

STEPS = 12


def trained(file: Path) -> tuple[list[int], list[int]]:
    """After each step: the calls of the train graph that are captured, and the bytes held of the device."""
    captured, held = [], []
    with opened("sim") as device, open_context() as context:
        done = compile_in(context, file, Selection(), pipeline=None)
        engine, arrays = engine_of(done, device, prepare_for(done, device))
        assert isinstance(arrays, DeviceArrays)
        calls, contexts = Calls(engine, arrays), contexts_of(engine.experiment)
        loader = Loaders().open(engine.experiment.train_loader)
        plan = make_plan(engine.experiment.run, loader.order.epoch_batches, None)
        trainer = TrainStep(engine.experiment, calls, loader, plan, contexts)
        tensors = placed(initial_tensors(calls, contexts, {}), engine.experiment, arrays)
        for step in range(plan.steps):
            trainer.run(step, tensors)
            program = calls.get("train").executable
            assert isinstance(program, DeviceProgram)
            captured.append(program.captured)
            held.append(arrays.held_bytes())
    return captured, held


def test_steps_come_to_repeat_their_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the updates as well, which write parameters where gradients were: the two take turns."""
    updates, plain = [], DeviceUpdates.__call__

    def counted(self: DeviceUpdates, *given: Any) -> Any:
        made = plain(self, *given)
        updates.append(self.program.captured)
        return made

    monkeypatch.setattr(DeviceUpdates, "__call__", counted)
    model = "(defmodel net () (defsub in (linear 3 70)) (defsub out (linear 70 2)) (forward (x) (out (tanh (in x)))))"
    run = f"(defrun :steps {STEPS} :microbatches 2 :clip-norm 0.01 :seed 1)"
    loader = "(defloader train-loader (:batch 5 :order :shuffle) (x xs) (y ys))"
    optimizer = "(def optimizer (adam :lr 0.1))"
    captured, held = run_deep(
        lambda: trained(write(tmp_path, model=model, run=run, loader=loader, optimizer=optimizer))
    )
    assert captured[-1] == captured[STEPS - 3] > 0
    assert updates[-1] == updates[STEPS - 3] > 0
    assert held[-1] == held[2]
