"""Steps in full swing ask the device for nothing and are one launch each: the same addresses come again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from attrs import define, field

from sexpgpu.data.loader import OpenLoader
from sexpgpu.data.order import Indices
from sexpgpu.dialects.context import open_context
from sexpgpu.driver.compile import compile_in
from sexpgpu.driver.devices import opened
from sexpgpu.driver.prepared import engine_of, prepare_for
from sexpgpu.gpu.arrays import DeviceArrays
from sexpgpu.gpu.captures import ALTERNATE
from sexpgpu.gpu.driver import Command
from sexpgpu.gpu.program import DeviceProgram
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.gpu.updates import DeviceUpdates
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.runtime.calls import Calls, contexts_of, placed
from sexpgpu.runtime.engine import Array
from sexpgpu.runtime.feed import Feed
from sexpgpu.runtime.loading import Loaders
from sexpgpu.runtime.plan import make_plan
from sexpgpu.runtime.ranks import Team
from sexpgpu.runtime.step import TrainStep
from sexpgpu.runtime.weights import initial_tensors
from tests.trace.experiments import write

STEPS = 12


@define
class Told:
    """What is known behind each step."""

    captured: list[int] = field(factory=list)  # what is launched as one and calls the train graph
    updates: list[int] = field(factory=list)  # or the updates
    launched: list[int] = field(factory=list)  # how often something was launched as one, in all
    alone: list[int] = field(factory=list)  # commands that were launched by themselves, in all
    held: list[int] = field(factory=list)  # bytes of the device


class Counting(SimDriver):
    """Counts the commands that it runs one by one."""

    alone = 0

    def run(self, command: Command) -> None:
        self.alone += 1
        super().run(command)


def trained(file: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()
    monkeypatch.setattr("sexpgpu.gpu.sim.SimDriver", Counting)
    with opened("sim") as device, open_context() as context:
        done = compile_in(context, file, Selection(), pipeline=None)
        engine, arrays = engine_of(done, device, prepare_for(done, device))
        assert isinstance(arrays, DeviceArrays)
        driver = arrays.pool.driver
        assert isinstance(driver, Counting)
        calls, contexts = Calls(engine, arrays), contexts_of(engine.experiment)
        loader = Loaders().open(engine.experiment.train_loader)
        plan = make_plan(engine.experiment.run, loader.order.epoch_batches, None)
        feed = Feed(engine.experiment.train_loader, loader, plan, contexts, Team([calls]))
        trainer = TrainStep(engine.experiment, feed)
        tensors = placed(initial_tensors(calls, contexts, {}), engine.experiment, arrays)
        captures = arrays.pool.stream.captures
        for step in range(plan.steps):
            assert trainer.run(step, tensors).refusal is None
            program = calls.get("train").executable
            assert isinstance(program, DeviceProgram)
            (updates,) = trainer._updates
            assert isinstance(updates._updater, DeviceUpdates)
            told.captured.append(program.captured)
            told.updates.append(updates._updater.program.captured)
            told.launched.append(captures.replayed)
            told.alone.append(driver.alone)
            told.held.append(arrays.held_bytes())
    return told


MODEL = "(defmodel net () (defsub in (linear 3 70)) (defsub out (linear 70 2)) (forward (x) (out (tanh (in x)))))"
LOADER = "(defloader train-loader (:batch 5 :order :shuffle) (x xs) (y ys))"


@pytest.mark.parametrize("microbatches", [1, 2, 5])
def test_steps_come_to_be_one_launch_each(microbatches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploads, microbatches, their sum, the norm, clipping and the updates, which write parameters where gradients
    were: the two take turns.
    """
    run = f"(defrun :steps {STEPS} :microbatches {microbatches} :clip-norm 0.01 :seed 1)"
    optimizer = "(def optimizer (adam :lr (cosine-schedule 0.1)))"
    file = write(tmp_path, model=MODEL, run=run, loader=LOADER, optimizer=optimizer)
    told = run_deep(lambda: trained(file, monkeypatch))
    late = slice(STEPS - 4, STEPS)
    assert np.diff(told.launched)[late].tolist() == [1] * 3
    assert np.diff(told.alone)[late].tolist() == [0] * 3
    assert told.captured[-1] == told.captured[STEPS - 3] == told.updates[-1] == ALTERNATE
    assert told.held[-1] == told.held[2]


def test_an_update_that_is_told_the_norm_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host reads it first: two launches a step."""
    optimizer = """(defoptimizer normed ()
      (optimizer-update (param grad ctx) (- param (* (/ 0.1 (+ 1.0 (getf ctx :grad-norm))) grad))))
    (def optimizer (normed))"""
    run = f"(defrun :steps {STEPS} :microbatches 2 :seed 1)"
    told = run_deep(
        lambda: trained(write(tmp_path, model=MODEL, run=run, loader=LOADER, optimizer=optimizer), monkeypatch)
    )
    assert np.diff(told.launched)[-3:].tolist() == [2] * 3
    assert np.diff(told.alone)[-3:].tolist() == [0] * 3


@pytest.mark.parametrize("fault", [OSError, MemoryError])
def test_what_goes_wrong_with_the_next_step_is_no_fault_of_this_one(
    fault: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are read while the device works on the step before, and again where that has failed."""
    plain = OpenLoader.read
    failed: list[int] = []

    def read(self: OpenLoader, indices: Indices, index: int) -> dict[str, Array]:
        if index == 2 and not failed:
            failed.append(index)
            raise fault
        return plain(self, indices, index)

    monkeypatch.setattr(OpenLoader, "read", read)
    run = "(defrun :steps 4 :microbatches 2 :seed 1)"
    told = run_deep(lambda: trained(write(tmp_path, model=MODEL, run=run, loader=LOADER), monkeypatch))
    assert (failed, len(told.held)) == ([2], 4)
