"""Evaluation passes: forward graphs over a loader's batches, nothing of the run changed."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from sexpgpu.data.codec import codec_of
from sexpgpu.data.loader import OpenLoader
from sexpgpu.data.order import Listed, Random
from sexpgpu.diag import Note, SxError
from sexpgpu.experiment import Evaluation, Experiment
from sexpgpu.runtime.batches import Reading, reading
from sexpgpu.runtime.calls import Call, Calls, Contexts, Tensors
from sexpgpu.runtime.engine import Tensor
from sexpgpu.runtime.metrics import Collected
from sexpgpu.runtime.plan import Plan, Turns
from sexpgpu.runtime.samples import Sample, make_sample
from sexpgpu.runtime.views import Views


@frozen
class Report:
    """What a pass found: `batches` and `records` it read, metrics by full name."""

    batches: int
    records: int
    metrics: dict[str, float]
    samples: tuple[Sample, ...] = ()  # of the first batch


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
    views: Views

    def run(self, step: int, index: int, tensors: Tensors, stopped: Callable[[], bool], stage: int) -> Report | None:
        """Evaluation number `index` of this pass, after `step` steps; None if it was stopped on the way.

        `stage` is that of the training, of which graphs may know.
        """
        context = {
            "step": step,
            "steps": self.plan.steps,
            "epoch": self.plan.epochs_before(step),
            "progress": step / self.plan.steps,
        }
        seen = self.evaluation.weights == "view"
        params = self.views.parameters(step, tensors) if seen else tensors.params
        buffers = self._buffers(tensors)
        collected = Collected(self.evaluation.name)
        arrays = self.calls.arrays
        records = 0
        samples: tuple[Sample, ...] = ()
        batches = self.batches(index)
        for place, q in enumerate(batches):
            if stopped():
                return None
            numbers = self.loader.indices(q)
            call = self.calls.get(self.evaluation.graph, len(numbers))
            scalars = self.contexts.make(**context, microbatch=place, trip=0, stage=stage, share=1.0)
            fields = self.loader.read(numbers, index)
            when = f"batch {q} of evaluation {self.evaluation.name}, after step {step}"
            read = Reading(self.evaluation.graph, self.evaluation.loader, numbers.tolist(), fields, when)
            with reading(self.calls.engine, read):
                placed, given = arrays.place(fields, {}), arrays.place(scalars, {})
                results = call({"param": params, "buffer": buffers, "field": placed, "ctx": given})
            collected.add(call, results, len(numbers))
            records += len(numbers)
            if place == 0:
                samples = self._samples(call, results)
            del placed, results  # before the next batch asks for memory
        try:
            metrics = collected.metrics(self.calls)
        except SxError as fault:
            note = Note(f"in evaluation {self.evaluation.name}, after step {step}", self.evaluation.span)
            raise SxError(fault.diagnostic.noting(note)) from None
        return Report(len(batches), records, metrics, samples)

    def _samples(self, call: Call, results: list[Tensor]) -> tuple[Sample, ...]:
        outputs = zip(call.executable.spec.outputs, results, strict=True)
        shown = [(o, value) for o, value in outputs if o.role == "sample"]
        if not shown:
            return ()
        texts = [codec for f in self.evaluation.loader.fields if (codec := codec_of(f.source)) is not None]
        codec = texts[0] if texts and all(c == texts[0] for c in texts) else None
        return tuple(make_sample(o.name, o.form or "array", self.calls.arrays.host(value), codec) for o, value in shown)

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

    def _buffers(self, tensors: Tensors) -> dict[str, Tensor]:
        """Of a buffer kept per microbatch an evaluation sees the first microbatch's."""
        kept = {b.path: tensors.buffers[b.path][0] for b in self.experiment.buffers if b.per_microbatch}
        return tensors.buffers | kept
