"""Optimizers followed step by step: an experiment whose data are the gradients of its parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sexpgpu.data.arrays import NUMPY_DTYPE
from sexpgpu.driver.engine import CpuEngine
from sexpgpu.lang.limits import run_deep
from sexpgpu.runtime.calls import Calls, Tensors, contexts_of
from sexpgpu.runtime.feed import Feed
from sexpgpu.runtime.loading import Loaders
from sexpgpu.runtime.plan import make_plan
from sexpgpu.runtime.ranks import Team
from sexpgpu.runtime.step import TrainStep
from sexpgpu.runtime.views import Views
from sexpgpu.runtime.weights import initial_tensors
from tests.trace.experiments import prepared

GOLDEN = Path(__file__).parents[1] / "golden" / "optim"
STEPS = dict(np.load(GOLDEN / "steps.npz"))
"""What tests/golden/make_optim.py stored: first values, gradients, and each run after KEPT updates."""
KEPT = (1, 2, 3, 10, 20)
NAMES = ("scalar", "vector", "tall", "wide", "kernel")

Array = NDArray[Any]
Step = tuple[dict[str, Array], dict[str, Array], dict[str, float]]


def experiment(folder: Path, optimizer: str, run: str) -> Path:
    """An objective that is linear in the parameters, so that the data are the gradients."""
    for name in NAMES:
        np.save(folder / f"{name}.npy", STEPS[f"grad {name}"])
    shapes = [STEPS[f"init {name}"].shape for name in NAMES]
    sizes = [" ".join(map(str, shape)) for shape in shapes]
    declared = [f"(defparam {n} ({s}) :init (zeros-init))" for n, s in zip(NAMES, sizes, strict=True)]
    products = " ".join(f"(sum (* {n} g-{n}))" for n in NAMES)
    file = folder / "steps.sx"
    file.write_text(
        f"""(require "sexpgpu/optim")
(defloader train-loader (:batch 1 :order :sequential) {" ".join(f'({n} (npy "{n}.npy"))' for n in NAMES)})
(defun prepare (batch) (list {" ".join(f"(field batch '{n})" for n in NAMES)}))
(defmodel net () {" ".join(declared)} (forward ({" ".join(f"g-{n}" for n in NAMES)}) (+ {products})))
(def model (net))
(defun objective (loss) loss)
(def optimizer {optimizer})
(defrun {run} :precision :f64)
"""
    )
    return file


def followed(folder: Path, optimizer: str, run: str = ":steps 20") -> list[Step]:
    """Parameters, what evaluation sees of them, and the step's series, after each step."""
    return steps_of(experiment(folder, optimizer, run))


def steps_of(file: Path) -> list[Step]:
    """What `followed` gives, of an experiment that is there."""

    def work() -> list[Step]:
        with prepared(file) as done:
            assert done.diagnostics.errors == []
            engine = CpuEngine(done)
            calls, contexts = Calls(engine), contexts_of(engine.experiment)
            loader = Loaders().open(engine.experiment.train_loader)
            plan = make_plan(engine.experiment.run, loader.order.epoch_batches, None)
            trainer = TrainStep(
                engine.experiment, Feed(engine.experiment.train_loader, loader, plan, contexts, Team([calls]))
            )
            views = Views(engine.experiment, calls, plan, contexts)
            types = {p.path: p.type.dtype for p in engine.experiment.parameters}
            given = {f"model.{n}": STEPS[f"init {n}"].astype(NUMPY_DTYPE[types[f"model.{n}"]]) for n in NAMES}
            tensors: Tensors = initial_tensors(calls, contexts, given)
            assert all(np.array_equal(views.parameters(0, tensors)[path], given[path]) for path in given)
            found = []
            for step in range(plan.steps):
                views.forget()
                result = trainer.run(step, tensors)
                seen = views.parameters(step + 1, tensors)
                found.append((_copied(tensors.params), _copied(seen), result.metrics))
            return found

    return run_deep(work)


def _copied(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    # The next step but one writes into the memory of these.
    return {path: array.copy() for path, array in arrays.items()}
