"""Ranks: the devices that train together, of this process and of others, and what each of them does of a step.

Every rank holds all parameters, states and buffers, and runs its share of a step's microbatches: rank r of R takes
those from r·k/R on. Sums over the microbatches are added up in an order that is fixed by the microbatches' numbers or
the ranks', so that every rank has the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from attrs import define, field

from sexpgpu.diag import Diagnostic
from sexpgpu.experiment import Experiment, RunConfig
from sexpgpu.runtime.arrays import Arrays
from sexpgpu.runtime.calls import Calls, Tensors, placed
from sexpgpu.runtime.engine import Tensor

Gradients = Literal["bf16", "f32"]


class Links(Protocol):
    """What the ranks of one process do together. Each rank's tensors are on its own device."""

    def add(self, tensors: Sequence[Sequence[Tensor]]) -> None:
        """Each of `tensors` is one array of every rank, in order: all become their sum, added in a fixed order."""
        ...

    def copies(self, tensor: Tensor, rank: int) -> list[Tensor]:
        """A tensor of one rank as every rank has it then, in order; its own is the tensor itself."""
        ...


class Peers(Protocol):
    """The other processes of a run; this is number `rank` of `count`."""

    @property
    def rank(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def gradients(self) -> Gradients:
        """How gradients travel."""
        ...

    def exchange(self, message: bytes) -> list[bytes]:
        """Everybody's message in the order of ranks; `E-DP-007` where somebody is gone."""
        ...

    def meet(self, facts: dict[str, Any]) -> None:
        """Begin together: `E-DP-006` where the facts differ, `E-DP-007` where somebody does not come."""
        ...


@define
class Team:
    """The ranks of this process: their graphs and arithmetic, in order, of which the first is the loop's own.

    `links` join them where there are several. `replicas` are the tensors of the others, once the run has begun.
    """

    calls: Sequence[Calls]
    links: Links | None = None
    peers: Peers | None = None
    replicas: list[Tensors] = field(factory=list)

    @property
    def nodes(self) -> int:
        return 1 if self.peers is None else self.peers.count

    @property
    def node(self) -> int:
        return 0 if self.peers is None else self.peers.rank

    @property
    def count(self) -> int:
        """Ranks of the whole run."""
        return self.nodes * len(self.calls)

    @property
    def arrays(self) -> Sequence[Arrays]:
        return [calls.arrays for calls in self.calls]

    def share(self, rank: int, microbatches: int) -> range:
        """The microbatches of a step that rank `rank` of this process runs, of so many in a whole step."""
        each = microbatches // self.count
        first = (self.node * len(self.calls) + rank) * each
        return range(first, first + each)

    def replicate(self, tensors: Tensors, experiment: Experiment) -> Tensors:
        """Tensors of the host where graphs read them, on every rank; those of the first."""
        own, *self.replicas = [placed(tensors, experiment, arrays) for arrays in self.arrays]
        return own

    def tensors(self, own: Tensors) -> list[Tensors]:
        """The tensors of every rank of this process, given the first's."""
        return [own, *self.replicas]


def not_divided(run: RunConfig, ranks: int, nodes: int = 1) -> Diagnostic | None:
    """`E-DP-003` where the microbatches of a step do not divide over the ranks."""
    if run.microbatches % ranks == 0:
        return None
    where = f"{ranks} devices" + (f" of {nodes} machines" if nodes > 1 else "")
    return Diagnostic(
        "E-DP-003",
        f"the microbatches of a step do not divide over {where}",
        run.span,
        expected=f"a multiple of {ranks} for :microbatches",
        actual=str(run.microbatches),
        help="SEXPGPU_DEVICES names fewer devices",
    )
