"""Ranks: the devices that train together, of this process and of other machines, and what each does of a step.

Every rank holds all parameters, states and buffers, and runs its share of a step's microbatches: rank r of R takes
those from r·k/R on. Sums over the microbatches are added up in an order that is fixed by the microbatches' numbers or
the ranks', so that every rank has the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from attrs import define, field

from sexpgpu.diag import Diagnostic
from sexpgpu.experiment import Experiment, RunConfig
from sexpgpu.runtime.arrays import Arrays
from sexpgpu.runtime.calls import Calls, Tensors, placed
from sexpgpu.runtime.engine import Array, Tensor
from sexpgpu.runtime.peers import Peers
from sexpgpu.runtime.stacking import Stacking


class Links(Protocol):
    """What the ranks of one process do together. Each rank's tensors are on its own device."""

    def add(self, tensors: Sequence[Sequence[Tensor]]) -> None:
        """Each of `tensors` is one array of every rank, in order: all become their sum, added in a fixed order."""
        ...

    def copies(self, tensor: Tensor, rank: int) -> list[Tensor]:
        """A tensor of one rank as every rank has it then, in order; its own is the tensor itself."""
        ...

    def close(self) -> None:
        """The end, before that of the devices."""
        ...


class Transport(Protocol):
    """How the gradients of one rank go to other machines, and their sums come back."""

    def rounded(self, gradients: dict[str, Tensor]) -> dict[str, Array]:
        """f32 gradients, with what rounding took from those before, rounded to bf16 and as its bits, u16.

        They belong to the callee. What this rounding took counts once `commit` is called.
        """
        ...

    def commit(self) -> None:
        """The step was kept."""
        ...

    def placed(self, sums: Mapping[str, Array]) -> dict[str, Tensor]:
        """Gradients where graphs read them, which belong to the caller."""
        ...

    def errors(self) -> dict[str, Array]:
        """What rounding has taken of the gradients up to now, on the host; nothing where none is rounded."""
        ...

    def take(self, errors: Mapping[str, Array]) -> None:
        """Go on from what `errors` gave."""
        ...


@define
class Team:
    """The ranks of this process: their graphs and arithmetic, in order, of which the first is the loop's own.

    `links` join them where there are several. `replicas` are the tensors of the others, once the run has begun. Where
    there are other machines, `peers`, each rank has a transport. All ranks stack microbatches by the same degree.
    `lacking` is what rounding took from the sums of gradients, on machine 0.
    """

    calls: Sequence[Calls]
    links: Links | None = None
    peers: Peers | None = None
    transports: Sequence[Transport] = ()
    stacking: Stacking = field(factory=Stacking)
    replicas: list[Tensors] = field(factory=list)
    lacking: dict[str, Array] = field(factory=dict)

    @property
    def count(self) -> int:
        """Ranks of the whole run."""
        return self.machines * len(self.calls)

    @property
    def machines(self) -> int:
        return 1 if self.peers is None else self.peers.count

    @property
    def machine(self) -> int:
        return 0 if self.peers is None else self.peers.rank

    @property
    def first(self) -> int:
        """The number of this process's first rank."""
        return self.machine * len(self.calls)

    def order(self, **what: Any) -> None:
        """Machine 0 has the others, where there are any, do something."""
        if self.peers is not None and self.peers.leads:
            self.peers.order(**what)

    @property
    def arrays(self) -> Sequence[Arrays]:
        return [calls.arrays for calls in self.calls]

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is asked of every rank inside may wait until the host reads something, and then run as one."""
        with ExitStack() as stack:
            for arrays in self.arrays:
                stack.enter_context(arrays.together())
            yield

    def start(self) -> None:
        """Let every rank begin with what it was asked for."""
        for arrays in self.arrays:
            arrays.start()

    def share(self, rank: int, microbatches: int) -> range:
        """The microbatches of a step that rank `rank` of this process runs, of so many in a whole step."""
        each = microbatches // self.count
        first = (self.first + rank) * each
        return range(first, first + each)

    def replicate(self, tensors: Tensors, experiment: Experiment) -> Tensors:
        """Tensors of the host where graphs read them, on every rank; those of the first."""
        own, *self.replicas = [placed(tensors, experiment, arrays) for arrays in self.arrays]
        return own

    def tensors(self, own: Tensors) -> list[Tensors]:
        """The tensors of every rank of this process, given the first's."""
        return [own, *self.replicas]


def rounds(run: RunConfig, peers: Peers | None) -> bool:
    """Whether gradients travel between machines as bf16: not where a step's bits are not to depend on the ranks."""
    return peers is not None and peers.gradients == "bf16" and not run.deterministic


def not_divided(run: RunConfig, ranks: int, machines: int = 1) -> Diagnostic | None:
    """`E-DP-003` where the microbatches of a step do not divide over the ranks of all machines."""
    if run.microbatches % ranks == 0:
        return None
    where = f" of {machines} machines" if machines > 1 else ""
    return Diagnostic(
        "E-DP-003",
        f"the microbatches of a step do not divide over {ranks} devices{where}",
        run.span,
        expected=f"a multiple of {ranks} for :microbatches",
        actual=str(run.microbatches),
        help=_fewer(ranks, machines),
    )


def _fewer(ranks: int, machines: int) -> str:
    """What makes the microbatches divide: fewer devices where a machine has several, fewer machines where not."""
    other = f"or give :microbatches a multiple of {ranks}"
    if machines == 1:
        return f"SEXPGPU_DEVICES names fewer devices, {other}"
    if ranks == machines:
        return f"start fewer machines (SEXPGPU_NODES), {other}"
    return f"start fewer machines (SEXPGPU_NODES), name fewer devices on each (SEXPGPU_DEVICES), {other}"
