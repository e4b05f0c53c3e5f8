"""The stage of the train loader: chosen after evaluations, by a graph that reads their metrics.

A choice is made where every pass whose metrics the graph reads has a turn of the whole plan; an evaluation that a run
makes only because it ends there chooses nothing, so that going on later is the same as never having stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from attrs import define, field

from sexpgpu.data.arrays import NUMPY_DTYPE
from sexpgpu.diag import error
from sexpgpu.experiment import Evaluation, Experiment
from sexpgpu.runtime.batches import during
from sexpgpu.runtime.calls import Call, Calls, Contexts, float_dtype
from sexpgpu.runtime.plan import Plan


@define
class Curriculum:
    """The graph `curriculum` of an experiment, ready to be asked."""

    experiment: Experiment
    calls: Calls
    contexts: Contexts
    plan: Plan
    _call: Call = field(init=False)
    needs: frozenset[str] = field(init=False)
    """The passes whose metrics it reads; all of a step where it reads none."""

    def __attrs_post_init__(self) -> None:
        assert self.experiment.curriculum is not None
        self._call = self.calls.get(self.experiment.curriculum)
        read = {slot.name for slot in self._call.executable.spec.inputs if slot.role == "observed"}
        self.needs = frozenset(e.name for e in self.experiment.evaluations if read & self._metrics(e))

    def _metrics(self, evaluation: Evaluation) -> set[str]:
        outputs = self.experiment.graphs[evaluation.graph].outputs
        return {full_name(o.name, evaluation.name) for o in outputs if o.role == "metric"}

    def due(self, planned: Collection[str]) -> bool:
        """Whether a step at which the passes `planned` have their turns chooses a stage."""
        return bool(planned) and self.needs <= set(planned)

    def choose(self, step: int, stage: int, metrics: Mapping[str, float]) -> int:
        """The stage to use from step number `step` on. `E-RUN-103` for one that is not there."""
        scalars = self.contexts.make(
            step=step,
            steps=self.plan.steps,
            epoch=self.plan.epochs_before(step),
            progress=step / self.plan.steps,
            stage=stage,
        )
        dtype = NUMPY_DTYPE[float_dtype(self.experiment)]
        observed = {name: np.array(value, dtype) for name, value in metrics.items()}
        with during(f"in `curriculum`, after step {step}"):
            (result,) = self._call({"ctx": scalars, "observed": observed})
            chosen, stages = int(result), self.experiment.train_loader.stages
        if not 0 <= chosen < len(stages):
            raise error(
                "E-RUN-103",
                f"after step {step} `curriculum` gives {chosen}, which is no stage of the train loader",
                self.experiment.train_loader.span,
                expected=", ".join(f"{i} ({each.name})" for i, each in enumerate(stages)),
                actual=str(chosen),
            )
        return chosen


def full_name(metric: str, evaluation: str) -> str:
    return metric if "/" in metric else f"{evaluation}/{metric}"
