"""One training step: microbatches, accumulation, norm, finite guard, updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from attrs import Factory, define, evolve, field, frozen

from sexpgpu.data.arrays import NUMPY_DTYPE
from sexpgpu.data.loader import OpenLoader
from sexpgpu.data.order import Indices
from sexpgpu.diag import Span, SxError
from sexpgpu.experiment import Experiment, Graph, OutputRole
from sexpgpu.runtime.batches import Reading, reading
from sexpgpu.runtime.calls import Call, Calls, Contexts, Tables, Tensors
from sexpgpu.runtime.combine import Combined, Combining
from sexpgpu.runtime.engine import Array, Tensor
from sexpgpu.runtime.fold import SumFold, weighted_mean
from sexpgpu.runtime.gather import Gathering
from sexpgpu.runtime.plan import Plan
from sexpgpu.runtime.ranks import Team
from sexpgpu.runtime.room import Retry
from sexpgpu.runtime.stacking import is_whole
from sexpgpu.runtime.update import Updates

_GRADIENTS: frozenset[OutputRole] = frozenset({"grad"})


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
class _Step:
    """The microbatches of a step: the records of all, and what those of this process read, by number."""

    number: int
    indices: list[Indices]
    own: dict[int, _Microbatch]

    @property
    def rows(self) -> list[int]:
        return [len(each) for each in self.indices]

    @property
    def records(self) -> tuple[int, ...]:
        return tuple(np.concatenate(self.indices).tolist())


@frozen
class _Given:
    """What the calls of a step read. Where a pass for its totals went before, the batches are `placed`."""

    batches: _Step
    placed: Mapping[int, _Placed]
    everyone: Sequence[Tensors]
    sums: Sequence[dict[str, Tensor]]


_Run = Callable[[Sequence[Tables], Sequence[Tensor | None]], list[Tensor]]


@frozen
class _Gathered:
    """What the microbatches of a step gave together. Of totals, gradients and buffers each rank has its own."""

    loss: float
    losses: list[float]
    norm: float
    sums: list[dict[str, Tensor]]
    combined: Combined


@define
class TrainStep:
    """Runs steps of one experiment; made once a run.

    `calls` are those of the loop's own rank, the first of `team`, which without one is alone.
    """

    experiment: Experiment
    calls: Calls
    loader: OpenLoader
    plan: Plan
    contexts: Contexts
    stage: int = 0  # of the loader
    team: Team = field(default=Factory(lambda self: Team([self.calls]), takes_self=True))
    _combining: Combining = field(init=False)
    _retries: list[Retry] = field(init=False)
    _updates: list[Updates] = field(init=False)
    _per_microbatch: frozenset[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._combining = Combining(self.team, self.experiment)
        self._retries = [Retry(calls.arrays) for calls in self.team.calls]
        self._updates = [Updates(self.experiment, calls) for calls in self.team.calls]
        kept = (buffer.path for buffer in self.experiment.buffers if buffer.per_microbatch)
        self._per_microbatch = frozenset(kept)

    def run(self, step: int, tensors: Tensors) -> StepResult:
        """Step number `step`, from 0. Changes `tensors`, unless loss or norm is not finite."""
        batches = self._read(step)
        gathered = self._gather(batches, tensors)
        combined = gathered.combined
        norm = gathered.norm
        metrics = {"train/loss": gathered.loss}
        metrics |= combined.collected.metrics(self.calls)
        metrics["optim/grad_norm"] = norm
        if not (math.isfinite(gathered.loss) and math.isfinite(norm)):
            refusal: Refusal | None = self._refusal(gathered, batches, tensors)
        else:
            reported, refusal = self._update(gathered, batches, tensors)
            metrics |= reported
        rows = sum(batches.rows)
        return StepResult(gathered.loss, metrics, combined.collected.counters, rows, refusal)

    def _update(self, gathered: _Gathered, batches: _Step, tensors: Tensors) -> tuple[dict[str, float], Refusal | None]:
        """The updates on every rank, committed where they are finite; the series that they report."""
        limit = self.experiment.run.clip_norm
        clip = (gathered.norm, limit) if limit is not None else None
        context = self._context(batches.number, grad_norm=gathered.norm, loss=gathered.loss)
        everyone = self.team.tensors(tensors)
        made = []
        for updates, held, gradients in zip(self._updates, everyone, gathered.combined.gradients, strict=True):
            made.append(updates.run(held, gradients, context, clip))
        spoilt = self._updates[0].first_not_finite(made[0])
        reported = {series: float(value) for series, value in made[0].reported.items()}
        if spoilt is not None:
            return reported, Refusal(spoilt.partition("/")[0], None, batches.records, updating=True)
        for updates, held, updated, buffers in zip(
            self._updates, everyone, made, gathered.combined.buffers, strict=True
        ):
            updates.commit(held, updated)
            held.buffers.update(buffers)
        self._combining.commit()
        return reported, None

    def _read(self, step: int) -> _Step:
        indices = [self.loader.indices(q) for q in self.plan.batches_of(step)]
        total = sum(map(len, indices))
        own = {
            i: _Microbatch(
                indices[i],
                self.loader.read(indices[i], step),
                self._context(step, microbatch=i, share=len(indices[i]) / total),
            )
            for rank in range(len(self.team.calls))
            for i in self._share(rank, len(indices))
        }
        return _Step(step, indices, own)

    def _share(self, rank: int, count: int) -> range:
        """The microbatches of one rank of this process, of `count` that a step has: the last may have few."""
        share = self.team.share(rank, self.plan.microbatches)
        return range(share.start, max(share.start, min(share.stop, count)))

    def _by_turns(self, batches: _Step) -> Iterator[tuple[int, int, _Microbatch]]:
        """Rank and number of each microbatch of this process: the first of every rank, then the second of each."""
        for rank, (i,) in self._turns(batches, 1):
            yield rank, i, batches.own[i]

    def _turns(self, batches: _Step, degree: int) -> Iterator[tuple[int, range]]:
        """Rank and microbatches of each call that runs `degree` of them, by turns as well."""
        shares = [self._share(rank, len(batches.indices)) for rank in range(len(self.team.calls))]
        for place in range(0, max(map(len, shares)), degree):
            for rank, share in enumerate(shares):
                if place < len(share):
                    yield rank, share[place : place + degree]

    def _context(self, step: int, **values: float) -> dict[str, Array]:
        common = {"microbatch": 0, "trip": 0, "stage": self.stage, "share": 1.0} | values
        progress = step / self.plan.steps
        epoch = self.plan.epochs_before(step)
        return self.contexts.make(step=step, steps=self.plan.steps, epoch=epoch, progress=progress, **common)

    def _gather(self, batches: _Step, tensors: Tensors) -> _Gathered:
        rows = batches.rows
        everyone = self.team.tensors(tensors)
        # Where a pass for the step's totals goes before, the batches stay where it put them.
        placed: dict[int, _Placed] = {}
        if self.experiment.sums_graph is not None:
            placed = {i: self._placed(rank, batch) for rank, i, batch in self._by_turns(batches)}
        sums = self._step_sums(batches, placed, everyone)
        given = _Given(batches, placed, everyone, sums)
        stackable = is_whole(
            self.calls.engine.experiment.graphs[self.experiment.train_graph], rows, self.plan.microbatches
        )
        stacking = self.team.stacking
        if stackable and stacking.open:
            stacking.measure(lambda degree: self._gatherings(given, degree))
        gatherings = self._gatherings(given, stacking.degree if stackable else 1)
        try:
            combined = self._combining.step(gatherings)
            # All is queued before the first number is asked for, which waits for the device.
            norm = self.calls.arrays.global_norm(combined.gradients[0].values())
            found = [float(loss) for loss in combined.losses]
        except SxError as fault:
            self._locate(fault, batches, tensors, sums[0])
            raise
        return _Gathered(weighted_mean(found, rows), found, norm, sums, combined)

    def _gatherings(self, given: _Given, degree: int) -> list[Gathering]:
        """What the train graph gives for the microbatches of every rank, of which each call runs `degree`."""
        batches = given.batches
        graph, rows = self.experiment.train_graph, batches.rows
        tree = self.experiment.run.deterministic
        gatherings = [
            Gathering(calls.arrays, rows, tree, held.buffers, self._per_microbatch, self._share(rank, len(rows)).start)
            for rank, (calls, held) in enumerate(zip(self.team.calls, given.everyone, strict=True))
        ]
        for rank, several in self._turns(batches, degree):
            calls, run = self.team.calls[rank], partial(self._retries[rank].run, batches.number, several)
            if degree > 1:
                stacked = self.team.stacking.call(calls, graph, degree)
                results = run(partial(self._train, rank, stacked.executable.spec, given, several, stacked))
                gatherings[rank].add_stacked(several.start, stacked, results)
                continue
            (i,) = several
            call = calls.get(graph, batches.own[i].rows)
            one = partial(_of_one, call)
            with reading(self.calls.engine, self._reading(graph, batches.number, i, batches.own[i])):
                results = run(partial(self._train, rank, call.executable.spec, given, several, one))
                gatherings[rank].add(i, call, results)
        return gatherings

    def _train(self, rank: int, spec: Graph, given: _Given, several: range, call: _Run) -> list[Tensor]:
        """What one call of a train graph gives for some of a rank's microbatches."""
        into = self.team.calls[rank].arrays.take(spec.outputs, _GRADIENTS)
        batches = [(i, given.placed.get(i) or self._placed(rank, given.batches.own[i])) for i in several]
        return call([self._tables(i, each, given.everyone[rank], given.sums[rank]) for i, each in batches], into)

    def _placed(self, rank: int, batch: _Microbatch) -> _Placed:
        """The batch and its scalars where graphs of a rank read them."""
        place = self.team.calls[rank].arrays.place
        return _Placed(place(batch.fields, {}), place(batch.context, {}))

    def _reading(self, graph: str, step: int, microbatch: int, batch: _Microbatch) -> Reading:
        loader = self.experiment.train_loader
        if loader.stages:
            loader = evolve(loader, fields=loader.stages[self.stage].fields)
        when = f"step {step}" if self.plan.microbatches == 1 else f"step {step}, microbatch {microbatch}"
        return Reading(graph, loader, batch.indices.tolist(), batch.fields, when)

    def _step_sums(
        self, batches: _Step, placed: Mapping[int, _Placed], everyone: Sequence[Tensors]
    ) -> list[dict[str, Tensor]]:
        """The totals over the step that the train graph reads, by a pass of their own over its
        microbatches.
        """
        graph = self.experiment.sums_graph
        if graph is None:
            return [{} for _ in everyone]
        folds: list[dict[str, SumFold]] = [{} for _ in everyone]
        for rank, i, batch in self._by_turns(batches):
            call = self.team.calls[rank].get(graph, batch.rows)
            with reading(self.calls.engine, self._reading(graph, batches.number, i, batch)):
                results = call(self._tables(i, placed[i], everyone[rank], _no_totals(call)))
            for name, term in call.named(results, "step_term").items():
                if name not in folds[rank]:
                    folds[rank][name] = SumFold(arrays=self.team.calls[rank].arrays, first=i)
                folds[rank][name].add(term)
        return self._combining.totals(folds)

    def _tables(self, microbatch: int, batch: _Placed, tensors: Tensors, sums: dict[str, Tensor]) -> Tables:
        return {
            "param": tensors.params,
            "buffer": self._buffers_of(microbatch, tensors),
            "field": batch.fields,
            "ctx": batch.context,
            "step_sum": sums,
        }

    def _refusal(self, gathered: _Gathered, batches: _Step, tensors: Tensors) -> Refusal:
        """What of a step was not finite. Where its microbatch is of this process, that runs once more, or each does
        until one is guilty, to see where it stopped being finite.
        """
        refusal = Refusal(None, None, batches.records)
        for i, loss in enumerate(gathered.losses):
            if not math.isfinite(loss):
                refusal = Refusal("loss", i, tuple(batches.indices[i].tolist()))
                break
        else:
            tensor = self.calls.arrays.first_not_finite(gathered.combined.gradients[0])
            refusal = evolve(refusal, tensor=tensor)
        if refusal.tensor is None:
            return refusal
        for i, batch in batches.own.items():
            if refusal.microbatch in (None, i):
                call = self.calls.get(self.experiment.train_graph, batch.rows)
                origin = call.origin_not_finite(self._again(i, batch, tensors, gathered.sums[0]))
                if origin is not None:
                    return evolve(refusal, origin=origin)
        return refusal

    def _locate(self, fault: SxError, batches: _Step, tensors: Tensors, sums: dict[str, Tensor]) -> None:
        """Run the step's microbatches once more where an index was met outside its axis and the device does not say by
        which form: what explains a call raises the same fault with its place.
        """
        if fault.diagnostic.index is None or fault.diagnostic.span is not None:
            return
        graph = self.experiment.train_graph
        for i, batch in batches.own.items():
            with reading(self.calls.engine, self._reading(graph, batches.number, i, batch)):
                self.calls.get(graph, batch.rows).origin_not_finite(self._again(i, batch, tensors, sums))

    def _again(self, microbatch: int, batch: _Microbatch, tensors: Tensors, sums: dict[str, Tensor]) -> Tables:
        """What the train graph reads where the loop's own rank runs a microbatch once more."""
        return self._tables(microbatch, self._placed(0, batch), tensors, sums)

    def _buffers_of(self, microbatch: int, tensors: Tensors) -> dict[str, Tensor]:
        if not self._per_microbatch:
            return tensors.buffers
        kept = {path: tensors.buffers[path][microbatch] for path in self._per_microbatch}
        return tensors.buffers | kept


def _of_one(call: Call, tables: Sequence[Tables], into: Sequence[Tensor | None]) -> list[Tensor]:
    """A call that runs one microbatch."""
    return call(tables[0], into)


def _no_totals(call: Call) -> dict[str, Array]:
    """What a graph that gives the terms of totals reads for these; no term depends on it."""
    slots = [slot for slot in call.executable.spec.inputs if slot.role == "step_sum"]
    return {slot.name: np.ones(slot.type.shape, NUMPY_DTYPE[slot.type.dtype]) for slot in slots}
