"""Evaluation passes: forward graphs over a loader's batches, nothing of the run changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import frozen

from sexpgpu.data.codec import codec_of
from sexpgpu.data.loader import OpenLoader
from sexpgpu.data.order import Listed, Random
from sexpgpu.diag import SxError
from sexpgpu.experiment import Evaluation, Experiment
from sexpgpu.runtime.batches import Reading, during, reading
from sexpgpu.runtime.calls import Call, Calls, Contexts, Tables, Tensors
from sexpgpu.runtime.engine import Array, Tensor
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
class _Batch:
    """What a call of the pass's graph reads, on the host."""

    call: Call
    read: Reading
    scalars: dict[str, Array]


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
        seen = self.evaluation.weights == "view"
        params = self.views.parameters(step, tensors) if seen else tensors.params
        tables: Tables = {"param": params, "buffer": self._buffers(tensors)}
        collected = Collected(self.evaluation.name)
        records = 0
        samples: tuple[Sample, ...] = ()
        batches = self.batches(index)
        for place in range(len(batches)):
            if stopped():
                return None
            batch = self._batch(step, index, place, stage)
            with reading(self.calls.engine, batch.read):
                results = batch.call(self._placed(batch, tables))
                if place == 0:
                    samples = self._samples(batch.call, results)
            collected.add(batch.call, results, len(batch.read.records))
            records += len(batch.read.records)
            del batch, results  # before the next batch asks for memory
        try:
            metrics = collected.metrics(self.calls)
        except SxError as fault:
            if fault.diagnostic.index is not None and self.calls.arrays.waits:
                self._locate((self._batch(step, index, place, stage) for place in range(len(batches))), tables)
            with during(f"in evaluation {self.evaluation.name}, after step {step}", self.evaluation.span):
                raise
        return Report(len(batches), records, metrics, samples)

    def _batch(self, step: int, index: int, place: int, stage: int) -> _Batch:
        """The batch at a place of evaluation `index`, and what its graph is told."""
        q = self.batches(index)[place]
        numbers = self.loader.indices(q)
        scalars = self.contexts.make(
            step=step,
            steps=self.plan.steps,
            epoch=self.plan.epochs_before(step),
            progress=step / self.plan.steps,
            microbatch=place,
            trip=0,
            stage=stage,
            share=1.0,
        )
        evaluation = self.evaluation
        when = f"batch {q} of evaluation {evaluation.name}, after step {step}"
        fields = self.loader.read(numbers, index)
        read = Reading(evaluation.graph, evaluation.loader, numbers.tolist(), fields, when)
        return _Batch(self.calls.get(evaluation.graph, len(numbers)), read, scalars)

    def _placed(self, batch: _Batch, tables: Tables) -> Tables:
        place = self.calls.arrays.place
        return {**tables, "field": place(dict(batch.read.fields), {}), "ctx": place(batch.scalars, {})}

    def _locate(self, batches: Iterable[_Batch], tables: Tables) -> None:
        """Run batches once more, one by one, where a device tells only behind all of them that it met an index outside
        its axis: what explains the call of the first that has one raises the same fault with the operation and records.
        """
        for batch in batches:
            with reading(self.calls.engine, batch.read):
                self.calls.require_indices(batch.call, self._placed(batch, tables))

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
