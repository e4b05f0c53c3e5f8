"""What rounding has taken of the gradients of machines, kept with a checkpoint: a run that goes on adds it to the next.

Every rank has its own of these arrays, and machine 0 those of the sums. Machine 0 writes all of them, as it writes
everything: the others tell it theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sexpgpu.diag import Diagnostic, warning
from sexpgpu.experiment import Experiment
from sexpgpu.runtime.checkpoint import ROUNDING
from sexpgpu.runtime.engine import Array
from sexpgpu.runtime.message import Message, Sent, pack, unpack
from sexpgpu.runtime.peers import Told
from sexpgpu.runtime.ranks import Team, rounds

_SUM = "sum"  # in the place of a rank


def gathered(team: Team, experiment: Experiment) -> dict[str, Array]:
    """The errors of all ranks and of the sums, on machine 0, by their names in a checkpoint; nothing elsewhere, or
    where gradients are not rounded. All machines call it at once.
    """
    if team.peers is None or not rounds(experiment.run, team.peers):
        return {}
    sent = [
        Sent("error", name, team.first + rank, 1, array)
        for rank, transport in enumerate(team.transports)
        for name, array in transport.errors().items()
    ]
    found: dict[str, Array] = {}

    def keep(several: Sequence[Told]) -> Told:
        for message in (Message(arrays=sent), *map(unpack, several[1:])):
            found.update({f"{ROUNDING}/{each.first}/{each.name}": each.array for each in message.arrays})
        found.update({f"{ROUNDING}/{_SUM}/{name}": array for name, array in team.lacking.items()})
        return Told({})

    team.peers.exchange(pack(Message(arrays=sent)), keep)
    return found


def take(team: Team, experiment: Experiment, errors: Mapping[str, Array]) -> Diagnostic | None:
    """Go on with the errors of a checkpoint, by their names in it; `W-CKPT-006` where this run does not round."""
    if not errors:
        return None
    if not rounds(experiment.run, team.peers):
        return warning(
            "W-CKPT-006",
            "the run that goes on sends its gradients exactly: what rounding took from those before is lost",
            help="SEXPGPU_NODE_GRADIENTS=bf16, as the checkpoint was written with, loses nothing",
        )
    own: dict[str, dict[str, Array]] = {}
    for key, array in errors.items():
        _, of, name = key.split("/", 2)
        own.setdefault(of, {})[name] = array
    for rank, transport in enumerate(team.transports, start=team.first):
        transport.take(own.get(str(rank), {}))
    if team.machine == 0:
        team.lacking.update(own.get(_SUM, {}))
    return None
