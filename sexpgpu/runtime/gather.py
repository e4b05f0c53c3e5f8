"""What the microbatches of a step give together: sums of gradients, buffers, losses, metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, field

from sexpgpu.runtime.arrays import Arrays
from sexpgpu.runtime.calls import Call
from sexpgpu.runtime.engine import Tensor
from sexpgpu.runtime.fold import MeanFold
from sexpgpu.runtime.metrics import Collected


@define
class Gathering:
    """Takes the results of one microbatch after another, of `rows` records each, in their order.

    With `tree` sums do not depend on who computed which microbatch. `committed` are the buffers as the step found them;
    those in `per_microbatch` have a row for each.
    """

    arrays: Arrays
    rows: Sequence[int]
    tree: bool
    committed: Mapping[str, Tensor]
    per_microbatch: frozenset[str]
    collected: Collected = field(factory=lambda: Collected("train"), init=False)
    losses: list[Tensor] = field(factory=list, init=False)
    _buffers: dict[str, Tensor] = field(init=False)
    _gradients: dict[str, MeanFold] = field(factory=dict, init=False)
    _proposals: dict[str, MeanFold] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._buffers = dict(self.committed)

    def add(self, microbatch: int, call: Call, results: list[Tensor]) -> None:
        """Results that nobody else holds: their memory goes with them."""
        arrays = self.arrays
        self.collected.add(call, results, self.rows[microbatch])
        self.losses += call.named(results, "loss").values()
        for path, gradient in call.named(results, "grad").items():
            self._gradients.setdefault(path, MeanFold(self.rows, self.tree, arrays.give, arrays)).add(gradient)
        for path, proposal in call.named(results, "buffer").items():
            if path in self.per_microbatch:
                row = arrays.with_row(self._buffers[path], self.committed[path], microbatch, proposal)
                self._buffers[path] = row
            elif proposal.dtype.kind == "f":
                self._proposals.setdefault(path, MeanFold(self.rows, tree=True, arrays=arrays)).add(proposal)
            else:
                self._buffers[path] = proposal

    def gradients(self) -> dict[str, Tensor]:
        """Their means over the step's records; the sums are spent."""
        return {path: fold.mean() for path, fold in self._gradients.items()}

    def buffers(self) -> dict[str, Tensor]:
        """What the buffers become; the sums are spent."""
        return self._buffers | {path: fold.mean() for path, fold in self._proposals.items()}
