"""What the microbatches of one rank give together in a step: sums of gradients, buffers, losses, metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, field

from sexpgpu.runtime.arrays import Arrays
from sexpgpu.runtime.calls import Call
from sexpgpu.runtime.engine import Tensor
from sexpgpu.runtime.fold import MeanFold, add_all, means_of
from sexpgpu.runtime.metrics import Collected
from sexpgpu.runtime.stacking import StackedCall


@define
class Gathering:
    """Takes the results of one microbatch after another, in their order, from number `first` of the step on.

    `rows` are the records of each microbatch of the step. With `tree` sums do not depend on who computed which
    microbatch. `committed` are the buffers as the step found them; those in `per_microbatch` have a row for each.
    """

    arrays: Arrays
    rows: Sequence[int]
    tree: bool
    committed: Mapping[str, Tensor]
    per_microbatch: frozenset[str]
    first: int = 0
    collected: Collected = field(factory=lambda: Collected("train"), init=False)
    losses: list[Tensor] = field(factory=list, init=False)
    gradients: dict[str, MeanFold] = field(factory=dict, init=False)
    averaged: dict[str, MeanFold] = field(factory=dict, init=False)  # what float buffers are proposed to become
    kept: dict[str, Tensor] = field(factory=dict, init=False)  # what other buffers become by the last microbatch
    with_rows: dict[str, Tensor] = field(factory=dict, init=False)  # buffers, as microbatches changed their rows
    changed: list[tuple[str, int]] = field(factory=list, init=False)  # those rows: path and number

    def add(self, microbatch: int, call: Call, results: list[Tensor]) -> None:
        """Results that nobody else holds: their memory goes with them."""
        self._fold(call.named(results, "grad"), 1)
        self._take(microbatch, call, results)

    def add_stacked(self, first: int, call: StackedCall, results: list[Tensor]) -> None:
        """As `add`, of the microbatches from `first` on that a stacked call ran."""
        self._fold(call.sums(results), call.degree)
        for number, part in enumerate(call.parts(results)):
            self._take(first + number, call.one, part)

    def _fold(self, gradients: Mapping[str, Tensor], leaves: int) -> None:
        for path in gradients:
            if path not in self.gradients:
                self.gradients[path] = MeanFold(self.rows, self.tree, self.arrays.give, self.arrays, self.first)
        add_all([self.gradients[path] for path in gradients], list(gradients.values()), leaves)

    def _take(self, microbatch: int, call: Call, results: list[Tensor]) -> None:
        """All that one microbatch gave but gradients."""
        self.collected.add(call, results, self.rows[microbatch])
        self.losses += call.named(results, "loss").values()
        for path, proposal in call.named(results, "buffer").items():
            if path in self.per_microbatch:
                self.put_row(path, microbatch, proposal)
                self.changed.append((path, microbatch))
            elif proposal.dtype.kind == "f":
                if path not in self.averaged:
                    self.averaged[path] = MeanFold(self.rows, True, None, self.arrays, self.first)
                self.averaged[path].add(proposal)
            else:
                self.kept[path] = proposal

    def put_row(self, path: str, microbatch: int, value: Tensor) -> None:
        """What a buffer becomes for one microbatch."""
        committed = self.committed[path]
        current = self.with_rows.get(path, committed)
        self.with_rows[path] = self.arrays.with_row(current, committed, microbatch, value)

    def means(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The means over the step's records, from sums over all its microbatches."""
        return dict(zip(sums, means_of(list(sums.values()), self.rows, self.arrays), strict=True))

    def buffers(self, averages: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What the buffers become, given the means of those that are averaged."""
        return {**self.committed, **self.with_rows, **self.kept, **averages}
