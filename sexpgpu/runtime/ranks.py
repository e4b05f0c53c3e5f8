"""Ranks: the devices that train together, of this process, and what each of them does of a step.

Every rank holds all parameters, states and buffers, and runs its share of a step's microbatches: rank r of R takes
those from r·k/R on. Sums over the microbatches are added up in an order that is fixed by the microbatches' numbers or
the ranks', so that every rank has the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import define, field

from sexpgpu.diag import Diagnostic
from sexpgpu.experiment import Experiment, RunConfig
from sexpgpu.runtime.arrays import Arrays
from sexpgpu.runtime.calls import Calls, Tensors, placed
from sexpgpu.runtime.engine import Tensor


class Links(Protocol):
    """What the ranks of one process do together. Each rank's tensors are on its own device."""

    def add(self, tensors: Sequence[Sequence[Tensor]]) -> None:
        """Each of `tensors` is one array of every rank, in order: all become their sum, added in a fixed order."""
        ...

    def copies(self, tensor: Tensor, rank: int) -> list[Tensor]:
        """A tensor of one rank as every rank has it then, in order; its own is the tensor itself."""
        ...


@define
class Team:
    """The ranks of this process: their graphs and arithmetic, in order, of which the first is the loop's own.

    `links` join them where there are several. `replicas` are the tensors of the others, once the run has begun.
    """

    calls: Sequence[Calls]
    links: Links | None = None
    replicas: list[Tensors] = field(factory=list)

    @property
    def count(self) -> int:
        """Ranks of the whole run."""
        return len(self.calls)

    @property
    def arrays(self) -> Sequence[Arrays]:
        return [calls.arrays for calls in self.calls]

    def share(self, rank: int, microbatches: int) -> range:
        """The microbatches of a step that rank `rank` of this process runs, of so many in a whole step."""
        each = microbatches // self.count
        first = rank * each
        return range(first, first + each)

    def replicate(self, tensors: Tensors, experiment: Experiment) -> Tensors:
        """Tensors of the host where graphs read them, on every rank; those of the first."""
        own, *self.replicas = [placed(tensors, experiment, arrays) for arrays in self.arrays]
        return own

    def tensors(self, own: Tensors) -> list[Tensors]:
        """The tensors of every rank of this process, given the first's."""
        return [own, *self.replicas]


def not_divided(run: RunConfig, ranks: int) -> Diagnostic | None:
    """`E-DP-003` where the microbatches of a step do not divide over the ranks."""
    if run.microbatches % ranks == 0:
        return None
    return Diagnostic(
        "E-DP-003",
        f"the microbatches of a step do not divide over {ranks} devices",
        run.span,
        expected=f"a multiple of {ranks} for :microbatches",
        actual=str(run.microbatches),
        help="SEXPGPU_DEVICES names fewer devices",
    )
