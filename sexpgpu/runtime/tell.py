"""What a run says of itself: the events and lines of its beginning and its end, the error that ends it."""

from __future__ import annotations

from sexpgpu.diag import Diagnostic
from sexpgpu.experiment import Experiment
from sexpgpu.runtime.arrays import Arrays
from sexpgpu.runtime.directory import RunDirectory, versions
from sexpgpu.runtime.engine import Engine
from sexpgpu.runtime.events import EventStream
from sexpgpu.runtime.loop import Outcome
from sexpgpu.runtime.manifest import manifest_json
from sexpgpu.runtime.plan import Plan, evaluation_steps
from sexpgpu.runtime.planned import peak_facts, peak_line, plan_line
from sexpgpu.runtime.progress import Progress
from sexpgpu.runtime.signals import Signals
from sexpgpu.runtime.stacking import Stacking
from sexpgpu.runtime.start import Start
from sexpgpu.runtime.status import Status


def tell_start(events: EventStream, directory: RunDirectory, engine: Engine, plan: Plan, start: Start) -> None:
    """The first events: the checkpoint that the run goes on from, who runs, what it will do."""
    experiment = engine.experiment
    position = start.position
    if start.own and start.checkpoint is not None:
        # Its own event lies behind the point where the stream was cut.
        events.write(
            "checkpoint",
            position.step,
            path=f"{directory.checkpoints.name}/{start.checkpoint.name}",
            nonce=start.nonce,
            bytes=start.bytes,
            seconds=0.0,
        )
    events.write(
        "open",
        position.step,
        run=directory.run_id,
        manifest=manifest_json(experiment.manifest),
        device=engine.device,
        versions=versions(experiment.manifest),
        resumed=str(start.checkpoint) if start.checkpoint else None,
        changed=[str(change) for change in start.changes],
    )
    events.write("annotation", position.step, name="plan", data=_plan_facts(experiment, plan))


def _plan_facts(experiment: Experiment, plan: Plan) -> dict[str, object]:
    """The plan in whole numbers: steps, batches, and the steps at which each pass has its turn."""
    return {
        "steps": plan.steps,
        "stop": plan.stop,
        "microbatches": plan.microbatches,
        "batch": experiment.train_loader.batch,
        "batches": plan.batches,
        "epoch_batches": plan.epoch_batches,
        "evaluations": {e.name: len(evaluation_steps(e, plan)) for e in experiment.evaluations},
        "checkpoint_every": experiment.run.checkpoint_every,
    }


def tell_lowering(text: str, events: EventStream, progress: Progress, step: int) -> None:
    """The lowering report, of a device that lowers anything."""
    if text:
        events.write("annotation", step, name="lowering", data={"text": text})
        progress.say(text)


def tell_plan(arrays: Arrays, free: int | None, events: EventStream, progress: Progress, step: int) -> None:
    """What the run will hold at once, of what the device had to give when it began."""
    if arrays.planned is not None:
        events.write("annotation", step, name="memory", data=arrays.planned.facts(free))
        progress.say(plan_line(arrays.planned, free))


def tell_stacking(stacking: Stacking, events: EventStream, progress: Progress, step: int) -> None:
    """How many microbatches a call runs, of a device that chooses."""
    if stacking.why:
        events.write("annotation", step, name="stacking", data=stacking.facts())
        progress.say(stacking.row())


def tell_peak(arrays: Arrays, events: EventStream, progress: Progress, step: int) -> None:
    """The peak that was reached, against the plan."""
    if arrays.planned is not None:
        told = (arrays.peak_bytes(), arrays.planned.total, arrays.captured())
        events.write("annotation", step, name="memory", data=peak_facts(*told))
        progress.say(peak_line(*told))


def tell_error(error: Diagnostic, step: int, events: EventStream | None, status: Status) -> None:
    """The last event and the last status of a run that an error ends."""
    if events is not None:
        at = str(error.span) if error.span else None
        events.write("error", step, code=error.code, message=error.message, at=at)
    status.update("failed", {"step": step}, error)


def tell_end(outcome: Outcome, events: EventStream, status: Status, signals: Signals, seconds: float) -> int:
    """The last event, the final status, the exit code; `E-IO-004` where events are missing from the file."""
    state = "finished" if outcome.finished else "stopped"
    events.write("close", outcome.step, state=state, seconds=round(seconds, 3), metrics=outcome.metrics)
    events.sync()
    lost = events.lost()
    if lost is not None:
        raise lost
    summary = {"step": outcome.step, "metrics": outcome.metrics, "seconds": round(seconds, 3)}
    status.update("finished" if outcome.finished else "stopped", summary)
    return 0 if outcome.finished or signals.number is None else 128 + signals.number
