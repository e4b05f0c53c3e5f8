"""Evaluation passes: forward graphs over a loader's batches, nothing of the run changed."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from sexpgpu.data.loader import OpenLoader
from sexpgpu.data.order import Listed, Random
from sexpgpu.experiment import Evaluation, Experiment
from sexpgpu.runtime.calls import Calls, Contexts, Tensors
from sexpgpu.runtime.engine import Array
from sexpgpu.runtime.metrics import Collected
from sexpgpu.runtime.plan import Plan, Turns


@frozen
class Report:
    """What a pass found: `batches` and `records` it read, metrics by full name."""

    batches: int
    records: int
    metrics: dict[str, float]


@frozen
class Pass:
    """One `defeval`, ready: which batches it reads depends on its own count of evaluations alone."""

    evaluation: Evaluation
    experiment: Experiment
    calls: Calls
    loader: OpenLoader
    plan: Plan
    turns: Turns
    contexts: Contexts

    def run(self, step: int, index: int, tensors: Tensors, stopped: Callable[[], bool]) -> Report | None:
        """Evaluation number `index` of this pass, after `step` steps; None if it was stopped on the way."""
        context = {
            "step": step,
            "steps": self.plan.steps,
            "epoch": self.plan.epochs_before(step),
            "progress": step / self.plan.steps,
        }
        params = self._weights(tensors, context)
        buffers = self._buffers(tensors)
        collected = Collected(self.evaluation.name)
        records = 0
        batches = self.batches(index)
        for place, q in enumerate(batches):
            if stopped():
                return None
            numbers = self.loader.indices(q)
            call = self.calls.get(self.evaluation.graph, len(numbers))
            scalars = self.contexts.make(**context, microbatch=place, trip=0, stage=0, share=1.0)
            fields = self.loader.read(numbers)
            results = call({"param": params, "buffer": buffers, "field": fields, "ctx": scalars})
            collected.add(call, results, len(numbers))
            records += len(numbers)
        return Report(len(batches), records, collected.metrics(self.calls))

    def batches(self, index: int) -> range:
        """The batches of evaluation `index`: in order from the first, or, where batches never end, its
        own.
        """
        order = self.loader.order
        wanted = self.evaluation.batches
        if isinstance(order, Listed | Random):
            whole = len(order.table) if isinstance(order, Listed) else order.epoch_batches
            first = 0 if self.evaluation.fixed or wanted is None else index * wanted
            return range(first, first + (whole if wanted is None else wanted))
        return range(min(order.epoch_batches, wanted or order.epoch_batches))

    def _weights(self, tensors: Tensors, context: dict[str, float]) -> dict[str, Array]:
        """The parameters as evaluation sees them: through an optimizer's view, where it has one."""
        views = self.experiment.views
        if self.evaluation.weights == "train" or not views:
            return tensors.params
        seen = dict(tensors.params)
        scalars = self.contexts.make(**context, microbatch=0, trip=0, stage=0)
        for path, graph in views.items():
            call = self.calls.get(graph)
            inputs = []
            for role, name in call.wanted:
                match role:
                    case "param":
                        inputs.append(tensors.params[path])
                    case "state":
                        inputs.append(tensors.states[f"{path}/{name.rpartition('/')[2]}"])
                    case _:
                        inputs.append(scalars[name])
            (seen[path],) = call.executable(inputs)
        return seen

    def _buffers(self, tensors: Tensors) -> dict[str, Array]:
        """Of a buffer kept per microbatch an evaluation sees the first microbatch's."""
        kept = {b.path: tensors.buffers[b.path][0] for b in self.experiment.buffers if b.per_microbatch}
        return tensors.buffers | kept
