"""What the microbatches of a step read: records of the loader, numbers of the loop; and which rank runs which."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from attrs import define, evolve, field, frozen

from sexpgpu.data.loader import OpenLoader
from sexpgpu.data.order import Indices
from sexpgpu.diag import SxError
from sexpgpu.experiment import Loader
from sexpgpu.runtime.batches import Reading
from sexpgpu.runtime.calls import Contexts
from sexpgpu.runtime.engine import Array
from sexpgpu.runtime.plan import Plan
from sexpgpu.runtime.ranks import Team


@frozen
class Microbatch:
    """The records of a microbatch, their fields, and what the loop says of it."""

    indices: Indices
    fields: dict[str, Array]
    context: dict[str, Array]

    @property
    def rows(self) -> int:
        return len(self.indices)


@frozen
class Batches:
    """The microbatches of a step: the records of all, and what those of this process read, by number."""

    number: int
    indices: list[Indices]
    own: dict[int, Microbatch]

    @property
    def rows(self) -> list[int]:
        return [len(each) for each in self.indices]

    @property
    def records(self) -> tuple[int, ...]:
        return tuple(np.concatenate(self.indices).tolist())


@define
class Feed:
    """Reads the steps of a run for the ranks of this process. `stage` is that of the loader."""

    declared: Loader
    loader: OpenLoader
    plan: Plan
    contexts: Contexts
    team: Team
    stage: int = 0
    _next: tuple[int, int, Batches] | None = field(default=None, init=False)  # step, stage, what was read of it

    def read(self, step: int) -> Batches:
        """The microbatches of step number `step`, from 0."""
        kept, self._next = self._next, None
        if kept is not None and kept[:2] == (step, self.stage):
            return kept[2]
        indices = [self.loader.indices(q) for q in self.plan.batches_of(step)]
        total = sum(map(len, indices))
        own = {
            i: Microbatch(
                indices[i],
                self.loader.read(indices[i], step),
                self.context(step, microbatch=i, share=len(indices[i]) / total),
            )
            for rank in range(len(self.team.calls))
            for i in self.share(rank, len(indices))
        }
        return Batches(step, indices, own)

    def read_ahead(self, step: int) -> None:
        """Read a step before its turn, if it comes: while a device works on the one before.

        What goes wrong is told when the step is to be run, and goes wrong then again.
        """
        if step < self.plan.stop:
            with suppress(SxError, OSError, MemoryError):
                self._next = step, self.stage, self.read(step)

    def share(self, rank: int, count: int) -> range:
        """The microbatches of one rank of this process, of `count` that a step has: the last may have few."""
        share = self.team.share(rank, self.plan.microbatches)
        return range(share.start, max(share.start, min(share.stop, count)))

    def by_turns(self, batches: Batches) -> Iterator[tuple[int, int, Microbatch]]:
        """Rank and number of each microbatch of this process: the first of every rank, then the second of each."""
        for rank, (i,) in self.turns(batches, 1):
            yield rank, i, batches.own[i]

    def turns(self, batches: Batches, degree: int) -> Iterator[tuple[int, range]]:
        """Rank and microbatches of each call that runs `degree` of them, by turns as well."""
        shares = [self.share(rank, len(batches.indices)) for rank in range(len(self.team.calls))]
        for place in range(0, max(map(len, shares)), degree):
            for rank, share in enumerate(shares):
                if place < len(share):
                    yield rank, share[place : place + degree]

    def context(self, step: int, **values: float) -> dict[str, Array]:
        """The numbers of the loop that graphs of a step read, those that are told and those that the step says."""
        common = {"microbatch": 0, "trip": 0, "stage": self.stage, "share": 1.0} | values
        progress = step / self.plan.steps
        epoch = self.plan.epochs_before(step)
        return self.contexts.make(step=step, steps=self.plan.steps, epoch=epoch, progress=progress, **common)

    def reading(self, graph: str, step: int, microbatch: int, batch: Microbatch) -> Reading:
        """What a call of a graph reads, for who has to tell of it."""
        loader = self.declared
        if loader.stages:
            loader = evolve(loader, fields=loader.stages[self.stage].fields)
        when = f"step {step}" if self.plan.microbatches == 1 else f"step {step}, microbatch {microbatch}"
        return Reading(graph, loader, batch.indices.tolist(), batch.fields, when)
