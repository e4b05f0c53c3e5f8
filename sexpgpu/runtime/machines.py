"""Several machines begin one run together and end it together."""

from __future__ import annotations

import hashlib
from typing import TextIO

from sexpgpu import __version__, knobs
from sexpgpu.diag import Diagnostic
from sexpgpu.experiment import Experiment
from sexpgpu.runtime.agree import digest
from sexpgpu.runtime.checkpoint import canonical
from sexpgpu.runtime.manifest import Data, slug
from sexpgpu.runtime.peers import Peers
from sexpgpu.runtime.plan import Plan
from sexpgpu.runtime.ranks import Team, rounds
from sexpgpu.runtime.signals import Signals
from sexpgpu.runtime.start import Start

_SLACK = 256  # bytes: what a small array takes of a message beside its elements


def meet(team: Team, plan: Plan, start: Start, data: Data, signals: Signals, stream: TextIO | None) -> None:
    """Wait until all machines of the run are there and are about to do the same; nothing where there is one.

    `stream` is told of the waiting. `E-DP-006` where one differs, `E-DP-007` where one does not come.
    """
    if team.peers is None:
        return
    experiment = team.calls[0].engine.experiment

    def say(line: str) -> None:
        if stream is not None:
            stream.write(f"machine {team.machine} of {team.machines}: {line}\n")
            stream.flush()

    say(f"waiting for the others at {team.peers.place}")
    team.peers.meet(facts_of(team, team.peers, plan, start, data), largest_message(experiment), signals, say)


def facts_of(team: Team, peers: Peers, plan: Plan, start: Start, data: Data) -> dict[str, str]:
    """What has to be the same on every machine."""
    engine = team.calls[0].engine
    return {
        "version of sexpgpu": __version__,
        "number of machines": str(peers.count),
        "number of GPUs": str(len(team.calls)),
        "device": " ".join(engine.device.replace(",", " ").split()[:2]),
        "experiment": slug(engine.experiment),
        "data": hashlib.sha256(canonical(data).encode()).hexdigest()[:16],
        "last step": str(plan.stop),
        "products of f32": "in tf32" if knobs.TF32.get() else "in f32",
        "dtype of gradients": "bf16" if rounds(engine.experiment.run, peers) else "f32",
        "checkpoint": "none" if start.checkpoint is None else f"step {start.position.step}, {start.nonce}",
        "first weights": digest(start.given, lambda array: array)[:16] if start.given else "drawn",
    }


def largest_message(experiment: Experiment) -> int:
    """Bytes of arrays that no message of the run has more of: each microbatch's outputs by themselves, as on a host."""
    graphs = [experiment.graphs[name] for name in (experiment.train_graph, experiment.sums_graph) if name is not None]
    each = sum(2 * output.type.nbytes + _SLACK for graph in graphs for output in graph.outputs)
    return experiment.run.microbatches * each


def part(peers: Peers, code: int, fault: Diagnostic | None) -> None:
    """This machine's run is over: the others are told how."""
    if fault is not None:
        peers.leave(fault)
    elif peers.leads:
        peers.end(code)
    peers.close()
