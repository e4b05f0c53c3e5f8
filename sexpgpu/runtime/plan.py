"""The plan of a run in whole numbers: which batches a step reads, when evaluations and checkpoints fall.

Everything is a function of the step, so a resumed run plans as the run that was never stopped.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from attrs import frozen

from sexpgpu.diag import error
from sexpgpu.experiment import Evaluation, RunConfig


@frozen
class Plan:
    """`steps` is what the file plans, `stop` where this run ends; `batches` are those of the whole plan."""

    steps: int
    stop: int
    microbatches: int
    epoch_batches: int
    batches: int

    def batches_of(self, step: int) -> range:
        """The batches of one step; the last step of a run in epochs may have fewer."""
        return range(self.batches_before(step), self.batches_before(step + 1))

    def batches_before(self, step: int) -> int:
        return min(step * self.microbatches, self.batches)

    def epochs_before(self, step: int) -> int:
        """Whole epochs read when `step` steps are done."""
        return self.batches_before(step) // self.epoch_batches


def make_plan(run: RunConfig, epoch_batches: int, stop: int | None) -> Plan:
    """The plan of `run`; `stop` ends it sooner. `E-RUN-101` for one that ends later than the file's plan."""
    if run.steps is not None:
        steps, batches = run.steps, run.steps * run.microbatches
    else:
        batches = (run.epochs or 0) * epoch_batches
        steps = -(-batches // run.microbatches)
    if stop is not None and stop > steps:
        raise error(
            "E-RUN-101",
            f"the file plans {steps} steps, so a run cannot stop after {stop}",
            run.span,
            expected=f"--steps up to {steps}",
            actual=f"--steps {stop}",
            help="to train longer, change the plan: schedules depend on it",
        )
    return Plan(steps, steps if stop is None else stop, run.microbatches, epoch_batches, batches)


def evaluation_steps(evaluation: Evaluation, plan: Plan) -> list[int]:
    """The steps, of the whole plan, at which a pass has its turn, in order; the end of a run is not among
    them.
    """
    steps = {step for step in evaluation.at if step <= plan.steps}
    if evaluation.at_start:
        steps.add(0)
    if evaluation.every == "epoch":
        ends = range(1, plan.steps + 1)
        steps |= {step for step in ends if plan.epochs_before(step) > plan.epochs_before(step - 1)}
    elif evaluation.every is not None:
        steps |= set(range(evaluation.every, plan.steps + 1, evaluation.every))
    return sorted(steps)


@frozen
class Turns:
    """When one pass runs. It also runs at the end of the run, unless it lists its steps and nothing else."""

    steps: list[int]
    at_end: bool

    def index_at(self, step: int, stop: int) -> int | None:
        """Which evaluation of this pass falls after `step` steps, from 0; None when none does.

        The number counts the turns before it, so that it does not depend on where a run was cut.
        """
        place = bisect_left(self.steps, step)
        has_turn = place < len(self.steps) and self.steps[place] == step
        return place if has_turn or (self.at_end and step == stop) else None

    def planned(self, step: int) -> bool:
        """Whether the whole plan has a turn after `step` steps, wherever this run ends."""
        return step in self.steps

    def count_until(self, stop: int) -> int:
        """How many evaluations a run that ends after `stop` steps has."""
        last = self.index_at(stop, stop)
        return bisect_right(self.steps, stop) if last is None else last + 1


def turns(evaluation: Evaluation, plan: Plan) -> Turns:
    listed_only = bool(evaluation.at) and evaluation.every is None
    return Turns(evaluation_steps(evaluation, plan), not listed_only)
