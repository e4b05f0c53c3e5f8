"""One training step: microbatches, accumulation, norm, finite guard, updates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from attrs import define, evolve, field, frozen

from sexpgpu.data.arrays import NUMPY_DTYPE
from sexpgpu.data.loader import OpenLoader
from sexpgpu.data.order import Indices
from sexpgpu.diag import Span, SxError
from sexpgpu.experiment import Experiment, InputRole, OutputRole
from sexpgpu.runtime.arrays import Arrays
from sexpgpu.runtime.batches import Reading, reading
from sexpgpu.runtime.calls import Call, Calls, Contexts, Tables, Tensors, state_name
from sexpgpu.runtime.engine import Array, Tensor
from sexpgpu.runtime.fold import SumFold, weighted_mean
from sexpgpu.runtime.gather import Gathering
from sexpgpu.runtime.metrics import Collected
from sexpgpu.runtime.plan import Plan
from sexpgpu.runtime.room import Retry

_GRADIENTS: frozenset[OutputRole] = frozenset({"grad"})
_UPDATED: frozenset[OutputRole] = frozenset({"param", "state"})


@frozen
class Refusal:
    """Why a step committed nothing: the first tensor that was not finite, and where that showed.

    `tensor` is `loss` or a parameter path (its gradient or update), or None when only the norm overflowed. `microbatch`
    is known for the loss. `origin` is what was not finite first in the train graph, in words, and its place.
    """

    tensor: str | None
    microbatch: int | None
    records: tuple[int, ...]
    origin: tuple[str, Span | None] | None = None
    updating: bool = False  # loss and gradients are finite, what the optimizer makes of them is not


@frozen
class StepResult:
    loss: float
    metrics: dict[str, float]
    counters: dict[str, int]
    records: int
    refusal: Refusal | None


@frozen
class _Microbatch:
    indices: Indices
    fields: dict[str, Array]
    context: dict[str, Array]

    @property
    def rows(self) -> int:
        return len(self.indices)


@frozen
class _Placed:
    """What a graph reads of a microbatch, on the device."""

    fields: dict[str, Tensor]
    context: dict[str, Tensor]


@frozen
class _Gathered:
    """What the microbatches of a step gave together."""

    loss: float
    losses: list[float]
    norm: float
    sums: dict[str, Tensor]
    gradients: dict[str, Tensor]
    buffers: dict[str, Tensor]
    collected: Collected


@frozen
class _Update:
    """One update graph with the places of its inputs and outputs; they are the same for each of its
    parameters.
    """

    call: Call
    params: tuple[str, ...]
    group: str
    slots: tuple[tuple[InputRole, str], ...]

    @classmethod
    def of(cls, call: Call, params: tuple[str, ...], group: str) -> _Update:
        inputs = call.executable.spec.inputs
        named = ((slot.role, state_name(slot) if slot.role == "state" else slot.name) for slot in inputs)
        return cls(call, params, group, tuple(named))


@frozen
class _Updated:
    """What the update graphs gave: parameters by path, states by `path/state`, the series that they report."""

    params: dict[str, Tensor] = field(factory=dict)
    states: dict[str, Tensor] = field(factory=dict)
    reported: dict[str, Tensor] = field(factory=dict)


@define
class TrainStep:
    """Runs steps of one experiment; made once a run."""

    experiment: Experiment
    calls: Calls
    loader: OpenLoader
    plan: Plan
    contexts: Contexts
    stage: int = 0  # of the loader
    _retry: Retry = field(init=False)
    _updates: list[_Update] = field(init=False)
    _per_microbatch: frozenset[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._retry = Retry(self.calls.arrays)
        updates = self.experiment.updates
        self._updates = [_Update.of(self.calls.get(u.graph), u.params, u.group) for u in updates]
        kept = (buffer.path for buffer in self.experiment.buffers if buffer.per_microbatch)
        self._per_microbatch = frozenset(kept)

    def run(self, step: int, tensors: Tensors) -> StepResult:
        """Step number `step`, from 0. Changes `tensors`, unless loss or norm is not finite."""
        batches = self._read(step)
        gathered = self._gather(step, batches, tensors)
        arrays = self.calls.arrays
        norm = gathered.norm
        metrics = {"train/loss": gathered.loss}
        metrics |= gathered.collected.metrics(self.calls)
        metrics["optim/grad_norm"] = norm
        refusal = None
        if not (math.isfinite(gathered.loss) and math.isfinite(norm)):
            refusal = _refusal(gathered, batches, arrays)
            origin = self._origin(refusal, gathered.sums, batches, tensors)
            refusal = evolve(refusal, origin=origin)
        else:
            limit = self.experiment.run.clip_norm
            if limit is not None:
                arrays.clip(gathered.gradients, norm, limit)
            context = self._context(step, grad_norm=norm, loss=gathered.loss)
            updated = self._apply(tensors, gathered.gradients, context)
            spoilt = arrays.first_not_finite(updated.params | updated.states)
            metrics |= {series: float(value) for series, value in updated.reported.items()}
            if spoilt is None:
                self._commit(tensors.params, updated.params)
                self._commit(tensors.states, updated.states)
                tensors.buffers.update(gathered.buffers)
            else:
                records = tuple(np.concatenate([batch.indices for batch in batches]).tolist())
                refusal = Refusal(spoilt.partition("/")[0], None, records, updating=True)
        rows = sum(batch.rows for batch in batches)
        return StepResult(gathered.loss, metrics, gathered.collected.counters, rows, refusal)

    def _commit(self, held: dict[str, Tensor], fresh: dict[str, Tensor]) -> None:
        """Put what the updates gave in the place of what it was made from, whose memory serves the next step."""
        for name, array in fresh.items():
            self.calls.arrays.give(held[name])
            held[name] = array

    def _read(self, step: int) -> list[_Microbatch]:
        indices = [self.loader.indices(q) for q in self.plan.batches_of(step)]
        total = sum(map(len, indices))
        return [
            _Microbatch(
                numbers,
                self.loader.read(numbers, step),
                self._context(step, microbatch=i, share=len(numbers) / total),
            )
            for i, numbers in enumerate(indices)
        ]

    def _context(self, step: int, **values: float) -> dict[str, Array]:
        common = {"microbatch": 0, "trip": 0, "stage": self.stage, "share": 1.0} | values
        progress = step / self.plan.steps
        epoch = self.plan.epochs_before(step)
        return self.contexts.make(step=step, steps=self.plan.steps, epoch=epoch, progress=progress, **common)

    def _gather(self, step: int, batches: Sequence[_Microbatch], tensors: Tensors) -> _Gathered:
        rows = [batch.rows for batch in batches]
        # Where a pass for the step's totals goes before, the batches stay where it put them.
        placed = None if self.experiment.sums_graph is None else [self._placed(batch) for batch in batches]
        sums = self._step_sums(step, batches, placed or [], tensors)
        tree = self.experiment.run.deterministic
        gathering = Gathering(self.calls.arrays, rows, tree, tensors.buffers, self._per_microbatch)
        for i, batch in enumerate(batches):
            call = self.calls.get(self.experiment.train_graph, batch.rows)
            read = None if placed is None else placed[i]
            attempt = partial(self._train, call, i, batch, read, tensors, sums)
            with reading(self.calls.engine, self._reading(self.experiment.train_graph, step, i, batch)):
                gathering.add(i, call, self._retry.run(step, i, attempt))
        buffers, gradients = gathering.buffers(), gathering.gradients()
        try:
            # All is queued before the first number is asked for, which waits for the device.
            norm = self.calls.arrays.global_norm(gradients.values())
            found = [float(loss) for loss in gathering.losses]
        except SxError as fault:
            self._locate(fault, step, batches, tensors, sums)
            raise
        return _Gathered(weighted_mean(found, rows), found, norm, sums, gradients, buffers, gathering.collected)

    def _train(
        self,
        call: Call,
        microbatch: int,
        batch: _Microbatch,
        placed: _Placed | None,
        tensors: Tensors,
        sums: dict[str, Tensor],
    ) -> list[Tensor]:
        """What the train graph gives for one microbatch."""
        into = self.calls.arrays.take(call.executable.spec.outputs, _GRADIENTS)
        return call(self._tables(microbatch, placed or self._placed(batch), tensors, sums), into)

    def _placed(self, batch: _Microbatch) -> _Placed:
        """The batch and its scalars where graphs read them."""
        place = self.calls.arrays.place
        return _Placed(place(batch.fields, {}), place(batch.context, {}))

    def _reading(self, graph: str, step: int, microbatch: int, batch: _Microbatch) -> Reading:
        loader = self.experiment.train_loader
        if loader.stages:
            loader = evolve(loader, fields=loader.stages[self.stage].fields)
        when = f"step {step}" if self.plan.microbatches == 1 else f"step {step}, microbatch {microbatch}"
        return Reading(graph, loader, batch.indices.tolist(), batch.fields, when)

    def _step_sums(
        self, step: int, batches: Sequence[_Microbatch], placed: Sequence[_Placed], tensors: Tensors
    ) -> dict[str, Tensor]:
        """The totals over the step that the train graph reads, by a pass of their own over its
        microbatches.
        """
        graph = self.experiment.sums_graph
        if graph is None:
            return {}
        folds: dict[str, SumFold] = {}
        for i, batch in enumerate(batches):
            call = self.calls.get(graph, batch.rows)
            with reading(self.calls.engine, self._reading(graph, step, i, batch)):
                results = call(self._tables(i, placed[i], tensors, _no_totals(call)))
            for name, term in call.named(results, "step_term").items():
                folds.setdefault(name, SumFold(arrays=self.calls.arrays)).add(term)
        return {name: fold.total() for name, fold in folds.items()}

    def _tables(self, microbatch: int, batch: _Placed, tensors: Tensors, sums: dict[str, Tensor]) -> Tables:
        return {
            "param": tensors.params,
            "buffer": self._buffers_of(microbatch, tensors),
            "field": batch.fields,
            "ctx": batch.context,
            "step_sum": sums,
        }

    def _origin(
        self, refusal: Refusal, sums: dict[str, Tensor], batches: Sequence[_Microbatch], tensors: Tensors
    ) -> tuple[str, Span | None] | None:
        """Runs the guilty microbatch once more, or each until one is, to see where it stopped being finite."""
        if refusal.tensor is None:
            return None
        for i, batch in enumerate(batches):
            if refusal.microbatch in (None, i):
                call = self.calls.get(self.experiment.train_graph, batch.rows)
                origin = call.origin_not_finite(self._tables(i, self._placed(batch), tensors, sums))
                if origin is not None:
                    return origin
        return None

    def _locate(
        self, fault: SxError, step: int, batches: Sequence[_Microbatch], tensors: Tensors, sums: dict[str, Tensor]
    ) -> None:
        """Run the step's microbatches once more where an index was met outside its axis and the device does not say by
        which form: what explains a call raises the same fault with its place.
        """
        if fault.diagnostic.index is None or fault.diagnostic.span is not None:
            return
        graph = self.experiment.train_graph
        for i, batch in enumerate(batches):
            with reading(self.calls.engine, self._reading(graph, step, i, batch)):
                self.calls.get(graph, batch.rows).origin_not_finite(self._tables(i, self._placed(batch), tensors, sums))

    def _buffers_of(self, microbatch: int, tensors: Tensors) -> dict[str, Tensor]:
        if not self._per_microbatch:
            return tensors.buffers
        kept = {path: tensors.buffers[path][microbatch] for path in self._per_microbatch}
        return tensors.buffers | kept

    def _apply(self, tensors: Tensors, gradients: dict[str, Tensor], scalars: dict[str, Array]) -> _Updated:
        """Runs every update graph on every parameter it serves; changes nothing."""
        arrays = self.calls.arrays
        context = arrays.place(scalars, {})
        several = len(self.experiment.groups) > 1
        updated = _Updated()
        for update in self._updates:
            outputs = update.call.executable.spec.outputs
            for path in update.params:
                gradient = gradients.pop(path)
                inputs = []
                for role, name in update.slots:
                    match role:
                        case "param":
                            inputs.append(tensors.params[path])
                        case "grad":
                            inputs.append(gradient)
                        case "state":
                            inputs.append(tensors.states[f"{path}/{name}"])
                        case _:
                            inputs.append(context[name])
                results = update.call.executable(inputs, arrays.take(outputs, _UPDATED))
                arrays.give(gradient)
                for output, result in zip(outputs, results, strict=True):
                    match output.role:
                        case "param":
                            updated.params[path] = result
                        case "state":
                            updated.states[f"{path}/{output.name.rpartition('/')[2]}"] = result
                        case _:
                            series = f"optim/{output.name}"
                            series = f"{series}.{update.group}" if several else series
                            updated.reported.setdefault(series, result)
        return updated


def _no_totals(call: Call) -> dict[str, Array]:
    """What a graph that gives the terms of totals reads for these; no term depends on it."""
    slots = [slot for slot in call.executable.spec.inputs if slot.role == "step_sum"]
    return {slot.name: np.ones(slot.type.shape, NUMPY_DTYPE[slot.type.dtype]) for slot in slots}


def _refusal(gathered: _Gathered, batches: Sequence[_Microbatch], arrays: Arrays) -> Refusal:
    for i, loss in enumerate(gathered.losses):
        if not math.isfinite(loss):
            return Refusal("loss", i, tuple(batches[i].indices.tolist()))
    records = np.concatenate([batch.indices for batch in batches])
    return Refusal(arrays.first_not_finite(gathered.gradients), None, tuple(records.tolist()))
