"""What a machine behind the first does of a run: its share of each step, and its word before each checkpoint.

It reads the files, the data and the checkpoint as machine 0 does, and writes nothing. Machine 0 has the loop: it
evaluates, samples and commits, and tells what is to be done next.
"""

from __future__ import annotations

from attrs import define, field

from sexpgpu.data.loader import OpenLoader
from sexpgpu.experiment import Experiment
from sexpgpu.runtime import rounding
from sexpgpu.runtime.agree import require_agreement
from sexpgpu.runtime.calls import Tensors, contexts_of
from sexpgpu.runtime.feed import Feed
from sexpgpu.runtime.loading import Loaders
from sexpgpu.runtime.peers import Peers
from sexpgpu.runtime.plan import Plan
from sexpgpu.runtime.ranks import Team
from sexpgpu.runtime.start import Start
from sexpgpu.runtime.step import TrainStep
from sexpgpu.runtime.weights import initial_tensors


@define
class Follower:
    """The tensors of this machine's ranks, and the step that changes them."""

    experiment: Experiment
    team: Team
    peers: Peers
    trainer: TrainStep
    tensors: Tensors
    stages: list[OpenLoader]
    done: int
    metrics: dict[str, float] = field(factory=dict, init=False)

    def run(self) -> int:
        """Does what machine 0 orders until the run ends; its exit code. `E-DP-007` where machine 0 is gone."""
        while True:
            order = self.peers.next_order()
            if isinstance(order, int):
                return order
            if order["do"] == "step":
                self._step(order["step"], order["stage"])
            else:
                require_agreement(self.done, self.team, self.tensors, self.experiment)
                rounding.gathered(self.team, self.experiment)

    def _step(self, step: int, stage: int) -> None:
        self.trainer.feed.stage = stage
        self.trainer.feed.loader = self.stages[stage]
        self.metrics |= self.trainer.run(step, self.tensors).metrics
        self.done = step + 1


def follower(team: Team, loaders: Loaders, plan: Plan, start: Start) -> Follower:
    """A machine that begins where machine 0 does."""
    assert team.peers is not None
    calls = team.calls[0]
    experiment = calls.engine.experiment
    contexts = contexts_of(experiment)
    host = start.tensors or initial_tensors(calls, contexts, start.given)
    tensors = team.replicate(host, experiment)
    rounding.take(team, experiment, start.rounding)
    stages = list(loaders.stages(experiment.train_loader))
    trainer = TrainStep(experiment, Feed(experiment.train_loader, stages[0], plan, contexts, team))
    return Follower(experiment, team, team.peers, trainer, tensors, stages, start.position.step)
