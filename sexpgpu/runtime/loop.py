"""The training loop: steps, evaluations, checkpoints, and what each tells the outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import define, evolve, field, frozen

from sexpgpu.data.loader import OpenLoader
from sexpgpu.diag import CallSite, Diagnostic, Note, Span, SxError, error, inside_note, warning
from sexpgpu.experiment import Experiment
from sexpgpu.runtime import rounding
from sexpgpu.runtime.agree import require_agreement
from sexpgpu.runtime.batches import shown
from sexpgpu.runtime.calls import Tensors
from sexpgpu.runtime.checkpoint import Position
from sexpgpu.runtime.curriculum import Curriculum
from sexpgpu.runtime.evaluate import Pass
from sexpgpu.runtime.events import EventStream
from sexpgpu.runtime.generate import Generation
from sexpgpu.runtime.keep import Keeper
from sexpgpu.runtime.plan import Plan
from sexpgpu.runtime.progress import Pace, Progress
from sexpgpu.runtime.samples import Sample, tell
from sexpgpu.runtime.signals import Signals
from sexpgpu.runtime.status import Status
from sexpgpu.runtime.step import Refusal, StepResult, TrainStep
from sexpgpu.runtime.views import Views
from sexpgpu.tensortype import binary_size

_RECORDS_TOLD = 64  # in the event
_TEXTS_SHOWN, _TEXT_SHOWN = 2, 200


@frozen
class Outcome:
    """`finished` when the last planned step is committed and evaluated."""

    step: int
    finished: bool
    metrics: dict[str, float]


@define
class Loop:
    """One run from `done` steps on. `skipped`, `evaluated` and `observed` are those of a checkpoint's position.

    `stages` is the train loader at each of its stages, of which `curriculum` chooses where there are several.
    """

    experiment: Experiment
    plan: Plan
    trainer: TrainStep
    passes: list[Pass]
    views: Views
    generation: Generation
    samples: Path
    tensors: Tensors
    done: int
    skipped: int
    evaluated: list[str]
    keeper: Keeper
    events: EventStream
    status: Status
    progress: Progress
    signals: Signals
    stages: Sequence[OpenLoader]
    report: Callable[[Diagnostic], None]
    curriculum: Curriculum | None = None
    observed: dict[str, float] = field(factory=dict)
    _metrics: dict[str, float] = field(factory=dict, init=False)
    _pace: Pace = field(factory=Pace, init=False)
    _refusal: tuple[int, Refusal] | None = field(default=None, init=False)

    def run(self) -> Outcome:
        """Trains to the end of the plan or to a signal. `E-NUM-001` when too many steps in a row are refused, or
        every step of a whole run, `E-CKPT-005` when the last checkpoint cannot be written.
        """
        self._evaluate()
        self._checkpoint()
        while self.done < self.plan.stop and not self.signals.stopped():
            self._train()
            self._generate("step")
            self._evaluate()
            self._checkpoint()
        self.progress.finish()
        at_end = self.done >= self.plan.stop
        if (at_end or self.signals.stopped()) and self.keeper.last != self.done and not self._commit():
            raise error("E-CKPT-005", f"the last checkpoint, of step {self.done}, could not be written")
        if at_end and self.skipped == self.done > 0:
            steps = "the only step" if self.done == 1 else f"none of the {self.done} steps"
            raise self._not_finite(f"{steps} was {'not ' if self.done == 1 else ''}finite: nothing was trained")
        return Outcome(self.done, at_end and not self._pending(), self._metrics)

    def _train(self) -> None:
        started = time.perf_counter()
        step = self.done
        self.views.forget()
        self.trainer.team.order(do="step", step=step, stage=self.trainer.feed.stage)
        result = self.trainer.run(step, self.tensors)
        seconds = time.perf_counter() - started
        self._pace.add(seconds)
        self._tell_refusals(step)
        self._tell_stacking(step)
        self.done += 1
        self.evaluated.clear()
        self.observed.clear()
        self.skipped = self.skipped + 1 if result.refusal else 0
        if self._logged(step) or result.refusal:
            self._tell(step, result, seconds)
        if result.refusal:
            self._refuse(step, result.refusal)

    def _logged(self, step: int) -> bool:
        return step % self.experiment.run.log_every == 0 or step == self.plan.stop - 1

    def _tell(self, step: int, result: StepResult, seconds: float) -> None:
        rates = {name: count / seconds for name, count in result.counters.items()}
        arrays = self.trainer.calls.arrays
        captured = arrays.captured()
        runtime = {
            "runtime/step_seconds": seconds,
            "runtime/records_per_second": result.records / seconds,
            **{f"runtime/{name}_per_second": rate for name, rate in rates.items()},
            "runtime/peak_bytes": arrays.peak_bytes() + (captured.peak if captured is not None else 0),
            "runtime/held_bytes": arrays.held_bytes() + (captured.held if captured is not None else 0),
        }
        self._metrics |= result.metrics
        self.events.write(
            "step",
            step,
            epoch=self.plan.epochs_before(step),
            metrics=result.metrics | runtime,
            counters=result.counters,
            refused=result.refusal is not None,
        )
        eta = self._pace.remaining(self.plan.stop - self.done)
        pace = rates or {"records": result.records / seconds}
        self.progress.step(self.done, result.loss, pace, eta)
        facts = {"step": self.done, "loss": result.loss, "metrics": self._metrics}
        facts |= {"rate": pace, "step_seconds": self._pace.step_seconds, "eta": eta}
        self.status.update("running", facts)

    def _tell_refusals(self, step: int) -> None:
        """What libraries refused, or were found to be faster at, and the memory that the device refused."""
        arrays = self.trainer.calls.arrays
        for line in arrays.library_news():
            self.events.write("annotation", step, name="library", data={"text": line})
            self.progress.say(f"library: {line}")
        for nbytes in arrays.refusals():
            self.events.write("annotation", step, name="memory", data={"refused": nbytes, "free": arrays.free_bytes()})
            self.progress.say(f"memory: allocation failed, {binary_size(nbytes)} at step {step}; caches were let go")

    def _tell_stacking(self, step: int) -> None:
        """The degree that this step measured."""
        stacking = self.trainer.team.stacking
        if (line := stacking.news()) is not None:
            self.events.write("annotation", step, name="stacking", data=stacking.facts())
            self.progress.say(line)

    def _refuse(self, step: int, refusal: Refusal) -> None:
        """Reports a refused step; the last one that is allowed ends the run, its last good state
        committed.
        """
        self._refusal = (step, refusal)
        span, what = self._place_of(refusal.tensor), _guilty(refusal)
        where = "" if refusal.microbatch is None else f", microbatch {refusal.microbatch}"
        message = f"step {step}{where}: {what} is not finite; nothing of the step is kept"
        notes = [] if refusal.origin is None else _origin_notes(*refusal.origin)
        records = refusal.records[:_RECORDS_TOLD]
        self.events.write(
            "warning",
            step,
            code="W-NUM-001",
            message=message,
            tensor=refusal.tensor,
            microbatch=refusal.microbatch,
            records=records,
            at=str(span) if span else None,
            origin=_shown(refusal.origin),
        )
        self.report(evolve(warning("W-NUM-001", message, span), notes=tuple(notes)))
        if self.skipped >= self.experiment.run.max_skipped:
            self._commit()
            raise self._not_finite(f"{self.skipped} steps in a row were not finite")

    def _not_finite(self, message: str) -> SxError:
        """`E-NUM-001`, with what the last refused step of this process knows of the reason."""
        expected = "a finite loss, gradient norm and update"
        if self._refusal is None:
            return error("E-NUM-001", message, expected=expected)
        step, refusal = self._refusal
        notes = [] if refusal.origin is None else _origin_notes(*refusal.origin)
        return error(
            "E-NUM-001",
            message,
            self._place_of(refusal.tensor),
            expected=expected,
            actual=f"{_guilty(refusal)} is not, at step {step}",
            notes=[*notes, Note(f"records {shown(refusal.records)}")],
            help="the newest checkpoint has the last good state; try a lower rate or `:clip-norm`",
        )

    def _place_of(self, tensor: str | None) -> Span | None:
        if tensor == "loss":
            outputs = self.experiment.graphs[self.experiment.train_graph].outputs
            return next((output.span for output in outputs if output.role == "loss"), None)
        return next((p.span for p in self.experiment.parameters if p.path == tensor), None)

    def _pending(self) -> list[tuple[Pass, int]]:
        """The passes that have their turn now and did not have it yet, each with its count of evaluations."""
        turns = ((each, each.turns.index_at(self.done, self.plan.stop)) for each in self.passes)
        return [(p, index) for p, index in turns if index is not None and p.evaluation.name not in self.evaluated]

    def _generate(self, at: str) -> None:
        """What generators make of the tensors as they are."""
        for generator in self.generation.due(at, self.done):
            self.status.update("evaluating", {"step": self.done})
            samples = self.generation.run(generator, self.done, self.tensors, self.signals.stopped, lambda trip: None)
            if samples is not None:
                self._show(samples, generator.name)

    def _show(self, samples: Sequence[Sample], source: str) -> None:
        tell(samples, self.samples / f"step-{self.done:08}", self.samples.parent, self.events, self.done, source)
        for sample in samples:
            for text in sample.texts[:_TEXTS_SHOWN]:
                self.progress.say(f"step {self.done}  {sample.name}: {text[:_TEXT_SHOWN]!r}")

    def _evaluate(self) -> None:
        pending = self._pending()
        for each, index in pending:
            name = each.evaluation.name
            self.status.update("evaluating", {"step": self.done})
            started = time.perf_counter()
            report = each.run(self.done, index, self.tensors, self.signals.stopped, self.trainer.feed.stage)
            if report is None:
                return
            self.evaluated.append(name)
            self._metrics |= report.metrics
            self.observed |= report.metrics
            self.events.write(
                "eval",
                self.done,
                name=name,
                index=index,
                batches=report.batches,
                records=report.records,
                seconds=round(time.perf_counter() - started, 6),
                metrics=report.metrics,
            )
            figures = "  ".join(f"{key} {value:.4f}" for key, value in report.metrics.items())
            self.progress.say(f"step {self.done}  {figures}")
            self._show(report.samples, name)
        if pending:
            self._choose_stage()
        if pending and not self.signals.stopped():
            self._generate("eval")

    def _choose_stage(self) -> None:
        """The stage of the next steps, where all that the curriculum looks at has been evaluated."""
        planned = [p.evaluation.name for p in self.passes if p.turns.planned(self.done)]
        if self.curriculum is None or not self.curriculum.due(planned):
            return
        stage = self.curriculum.choose(self.done, self.trainer.feed.stage, self.observed)
        if stage != self.trainer.feed.stage:
            name = self.experiment.train_loader.stages[stage].name
            self.events.write("annotation", self.done, name="stage", data={"stage": stage, "name": name})
            self.progress.say(f"step {self.done}  stage {name}")
            self.use_stage(stage)

    def use_stage(self, stage: int) -> None:
        """What reads the train loader reads that stage from now on."""
        self.trainer.feed.stage = self.generation.stage = stage
        self.trainer.feed.loader = self.generation.loader = self.stages[stage]

    def _checkpoint(self) -> None:
        asked = self.signals.take_checkpoint_request()
        if self.done > 0 and (asked or self.keeper.due(self.done)):
            self._commit()

    def _commit(self) -> bool:
        """Whether a checkpoint was written. `E-DP-004` where the ranks of the run do not hold the same."""
        self.trainer.team.order(do="compare")
        require_agreement(self.done, self.trainer.team, self.tensors, self.experiment)
        position = Position(
            self.done,
            self.skipped,
            tuple(self.evaluated),
            0,
            stage=self.trainer.feed.stage,
            observed=dict(self.observed),
            stacking=self.trainer.team.stacking.known,
        )
        errors = rounding.gathered(self.trainer.team, self.experiment)
        return self.keeper.commit(position, self.tensors, errors)


def _guilty(refusal: Refusal) -> str:
    """What of a refused step was not finite."""
    made = "update" if refusal.updating else "gradient"
    return {None: "the gradient norm", "loss": "the loss"}.get(refusal.tensor, f"the {made} of {refusal.tensor}")


def _origin_notes(what: str, span: Span | None) -> list[Note]:
    note = Note(f"not finite first: {what}", span)
    return [note, inside_note(span.inside)] if isinstance(span, CallSite) else [note]


def _shown(origin: tuple[str, Span | None] | None) -> dict[str, str | None] | None:
    """The `origin` of the event."""
    if origin is None:
        return None
    what, span = origin
    return {"what": what, "at": str(span) if span else None}
