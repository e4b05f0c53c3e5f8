"""One training step: microbatches, accumulation, norm, finite guard, updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
from attrs import define, evolve, field, frozen

from sexpgpu.data.arrays import NUMPY_DTYPE
from sexpgpu.diag import Span, SxError
from sexpgpu.experiment import Experiment, Graph, OutputRole
from sexpgpu.runtime.batches import during, reading
from sexpgpu.runtime.calls import Call, Calls, Tables, Tensors
from sexpgpu.runtime.combine import Combined, Combining
from sexpgpu.runtime.engine import Array, Tensor
from sexpgpu.runtime.feed import Batches, Feed, Microbatch
from sexpgpu.runtime.fold import SumFold, weighted_mean
from sexpgpu.runtime.gather import Gathering
from sexpgpu.runtime.ranks import Team
from sexpgpu.runtime.room import Retry
from sexpgpu.runtime.stacking import is_whole
from sexpgpu.runtime.update import Updated, Updates

_GRADIENTS: frozenset[OutputRole] = frozenset({"grad"})
_SEEN = ("grad-norm", "loss")
"""Numbers of a step that the loop hands to updates."""


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
class _Placed:
    """What a graph reads of a microbatch, on the device."""

    fields: dict[str, Tensor]
    context: dict[str, Tensor]


@frozen
class _Given:
    """What the calls of a step read. Where a pass for its totals went before, the batches are `placed`."""

    batches: Batches
    placed: Mapping[int, _Placed]
    everyone: Sequence[Tensors]
    sums: Sequence[dict[str, Tensor]]


_Run = Callable[[Sequence[Tables], Sequence[Tensor | None]], list[Tensor]]


@frozen
class _Gathered:
    """What the microbatches of a step gave together. Of all but losses each rank has its own."""

    norms: list[Tensor]
    sums: list[dict[str, Tensor]]
    combined: Combined


@frozen
class _Seen:
    """The first numbers of a step that the host reads."""

    loss: float
    losses: list[float]  # one a microbatch, in order
    norm: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.loss) and math.isfinite(self.norm)


@define
class TrainStep:
    """Runs steps of one experiment; made once a run.

    `feed` reads what its ranks train on; the loop's own rank is the first of them.
    """

    experiment: Experiment
    feed: Feed
    _combining: Combining = field(init=False)
    _retries: list[Retry] = field(init=False)
    _updates: list[Updates] = field(init=False)
    _per_microbatch: frozenset[str] = field(init=False)
    _ahead: bool = field(init=False)

    @property
    def team(self) -> Team:
        return self.feed.team

    @property
    def calls(self) -> Calls:
        return self.team.calls[0]

    def __attrs_post_init__(self) -> None:
        self._combining = Combining(self.team, self.experiment)
        self._retries = [Retry(calls.arrays) for calls in self.team.calls]
        self._updates = [Updates(self.experiment, calls) for calls in self.team.calls]
        kept = (buffer.path for buffer in self.experiment.buffers if buffer.per_microbatch)
        self._per_microbatch = frozenset(kept)
        # Numbers that the host reads first are those that other machines have a part in, or that an update is given.
        slots = [slot for u in self.experiment.updates for slot in self.experiment.graphs[u.graph].inputs]
        told = any(slot.role == "ctx" and slot.name in _SEEN for slot in slots)
        self._ahead = all(arrays.waits for arrays in self.team.arrays) and self.team.peers is None and not told

    def run(self, step: int, tensors: Tensors) -> StepResult:
        """Step number `step`, from 0. Changes `tensors`, unless loss or norm is not finite."""
        batches = self.feed.read(step)
        with self.team.together():
            gathered = self._gather(batches, tensors)
            made = None
            if self._ahead:
                made = self._updated(gathered, batches, tensors)
                self.team.start()
                self.feed.read_ahead(step + 1)
            seen = self._look(gathered, batches, tensors)
            metrics = {"train/loss": seen.loss}
            metrics |= gathered.combined.collected.metrics(self.calls)
            metrics["optim/grad_norm"] = seen.norm
            if seen.finite:
                made = made or self._updated(gathered, batches, tensors, seen)
                reported, refusal = self._commit(made, gathered, batches, tensors)
                metrics |= reported
            else:
                if made is not None:
                    # The updates have spent the gradients, so these are made once more to be looked at.
                    made = None
                    self._drop_updates()
                    gathered = self._gather(batches, tensors)
                refusal = self._refusal(gathered, seen, batches, tensors)
        rows = sum(batches.rows)
        return StepResult(seen.loss, metrics, gathered.combined.collected.counters, rows, refusal)

    def _updated(
        self, gathered: _Gathered, batches: Batches, tensors: Tensors, seen: _Seen | None = None
    ) -> list[Updated]:
        """What the updates give on every rank, which may be asked for before the host has `seen` anything."""
        limit = self.experiment.run.clip_norm
        told = {} if seen is None else {"grad_norm": seen.norm, "loss": seen.loss}
        context = self.feed.context(batches.number, **told)
        ranks = zip(self._updates, self.team.tensors(tensors), gathered.combined.gradients, gathered.norms, strict=True)
        with during(f"at step {batches.number}"):
            return [
                updates.run(held, gradients, context, (norm, limit) if limit is not None else None)
                for updates, held, gradients, norm in ranks
            ]

    def _commit(
        self, made: Sequence[Updated], gathered: _Gathered, batches: Batches, tensors: Tensors
    ) -> tuple[dict[str, float], Refusal | None]:
        """Put what the updates gave in its place on every rank, where it is finite; the series that they report."""
        with during(f"at step {batches.number}"):
            spoilt = self._updates[0].first_not_finite(made[0])
            reported = {series: float(value) for series, value in made[0].reported.items()}
        if spoilt is not None:
            return reported, Refusal(spoilt.partition("/")[0], None, batches.records, updating=True)
        everyone = self.team.tensors(tensors)
        for updates, held, updated, buffers in zip(
            self._updates, everyone, made, gathered.combined.buffers, strict=True
        ):
            updates.commit(held, updated)
            held.buffers.update(buffers)
        self._combining.commit()
        return reported, None

    def _drop_updates(self) -> None:
        for updates in self._updates:
            updates.drop()

    def _gather(self, batches: Batches, tensors: Tensors) -> _Gathered:
        rows = batches.rows
        everyone = self.team.tensors(tensors)
        # Where a pass for the step's totals goes before, the batches stay where it put them.
        placed: dict[int, _Placed] = {}
        if self.experiment.sums_graph is not None:
            placed = {i: self._placed(rank, batch) for rank, i, batch in self.feed.by_turns(batches)}
        with self._locating(batches, tensors, {}):
            sums = self._step_sums(batches, placed, everyone)
        given = _Given(batches, placed, everyone, sums)
        stackable = is_whole(
            self.calls.engine.experiment.graphs[self.experiment.train_graph], rows, self.feed.plan.microbatches
        )
        stacking = self.team.stacking
        if stackable and stacking.open:
            stacking.measure(lambda degree: self._gatherings(given, degree))
        gatherings = self._gatherings(given, stacking.degree if stackable else 1)
        with self._locating(batches, tensors, sums[0]):
            combined = self._combining.step(gatherings)
            ranks = zip(self.team.arrays, combined.gradients, strict=True)
            return _Gathered([arrays.global_norm(own.values()) for arrays, own in ranks], sums, combined)

    def _look(self, gathered: _Gathered, batches: Batches, tensors: Tensors) -> _Seen:
        """Read the first numbers, which waits until the device has done all that it was asked for."""
        with self._locating(batches, tensors, gathered.sums[0]):
            norm = float(gathered.norms[0])
            losses = [float(loss) for loss in gathered.combined.losses]
        return _Seen(weighted_mean(losses, batches.rows), losses, norm)

    def _gatherings(self, given: _Given, degree: int) -> list[Gathering]:
        """What the train graph gives for the microbatches of every rank, of which each call runs `degree`."""
        batches = given.batches
        graph, rows = self.experiment.train_graph, batches.rows
        tree = self.experiment.run.deterministic
        firsts = [self.feed.share(rank, len(rows)).start for rank in range(len(self.team.calls))]
        gatherings = [
            Gathering(calls.arrays, rows, tree, held.buffers, self._per_microbatch, first)
            for calls, held, first in zip(self.team.calls, given.everyone, firsts, strict=True)
        ]
        for rank, several in self.feed.turns(batches, degree):
            calls, run = self.team.calls[rank], partial(self._retries[rank].run, batches.number, several)
            if degree > 1:
                stacked = self.team.stacking.call(calls, graph, degree)
                results = run(partial(self._train, rank, stacked.executable.spec, given, several, stacked))
                gatherings[rank].add_stacked(several.start, stacked, results)
                continue
            (i,) = several
            call = calls.get(graph, batches.own[i].rows)
            one = partial(_of_one, call)
            with reading(self.calls.engine, self.feed.reading(graph, batches.number, i, batches.own[i])):
                results = run(partial(self._train, rank, call.executable.spec, given, several, one))
                gatherings[rank].add(i, call, results)
        return gatherings

    def _train(self, rank: int, spec: Graph, given: _Given, several: range, call: _Run) -> list[Tensor]:
        """What one call of a train graph gives for some of a rank's microbatches."""
        into = self.team.calls[rank].arrays.take(spec.outputs, _GRADIENTS)
        batches = [(i, given.placed.get(i) or self._placed(rank, given.batches.own[i])) for i in several]
        return call([self._tables(i, each, given.everyone[rank], given.sums[rank]) for i, each in batches], into)

    def _placed(self, rank: int, batch: Microbatch) -> _Placed:
        """The batch and its scalars where graphs of a rank read them."""
        place = self.team.calls[rank].arrays.place
        return _Placed(place(batch.fields, {}), place(batch.context, {}))

    def _step_sums(
        self, batches: Batches, placed: Mapping[int, _Placed], everyone: Sequence[Tensors]
    ) -> list[dict[str, Tensor]]:
        """The totals over the step that the train graph reads, by a pass of their own over its
        microbatches.
        """
        graph = self.experiment.sums_graph
        if graph is None:
            return [{} for _ in everyone]
        folds: list[dict[str, SumFold]] = [{} for _ in everyone]
        for rank, i, batch in self.feed.by_turns(batches):
            call = self.team.calls[rank].get(graph, batch.rows)
            with reading(self.calls.engine, self.feed.reading(graph, batches.number, i, batch)):
                results = call(self._tables(i, placed[i], everyone[rank], _no_totals(call)))
            for name, term in call.named(results, "step_term").items():
                if name not in folds[rank]:
                    folds[rank][name] = SumFold(arrays=self.team.calls[rank].arrays, first=i)
                folds[rank][name].add(term)
        return self._combining.totals(folds)

    def _tables(self, microbatch: int, batch: _Placed, tensors: Tensors, sums: Mapping[str, Tensor]) -> Tables:
        return {
            "param": tensors.params,
            "buffer": self._buffers_of(microbatch, tensors),
            "field": batch.fields,
            "ctx": batch.context,
            "step_sum": sums,
        }

    def _refusal(self, gathered: _Gathered, seen: _Seen, batches: Batches, tensors: Tensors) -> Refusal:
        """What of a step was not finite. Where its microbatch is of this process, that runs once more, or each does
        until one is guilty, to see where it stopped being finite.
        """
        refusal = Refusal(None, None, batches.records)
        for i, loss in enumerate(seen.losses):
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

    @contextmanager
    def _locating(self, batches: Batches, tensors: Tensors, sums: Mapping[str, Tensor]) -> Iterator[None]:
        """Run a step's microbatches once more, one by one, where a device tells only behind them all that it met an
        index outside its axis: what explains the call of the first that does raises the same fault with the operation
        and the records.
        """
        try:
            yield
        except SxError as fault:
            if fault.diagnostic.index is None or not self.calls.arrays.waits:
                raise
            self._require_indices(batches, tensors, sums)
            with during(f"at step {batches.number}"):
                raise

    def _require_indices(self, batches: Batches, tensors: Tensors, sums: Mapping[str, Tensor]) -> None:
        """Run the graphs of every microbatch by themselves, as far as the first that meets such an index."""
        for graph in (self.experiment.sums_graph, self.experiment.train_graph):
            if graph is None:
                continue
            for i, batch in batches.own.items():
                call = self.calls.get(graph, batch.rows)
                with reading(self.calls.engine, self.feed.reading(graph, batches.number, i, batch)):
                    again = self._again(i, batch, tensors, {**_no_totals(call), **sums})
                    self.calls.require_indices(call, again)

    def _again(self, microbatch: int, batch: Microbatch, tensors: Tensors, sums: Mapping[str, Tensor]) -> Tables:
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
