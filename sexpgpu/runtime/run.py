"""One run from start to end: data, tensors, the directory, the loop, the exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from attrs import field, frozen

from sexpgpu import knobs
from sexpgpu.diag import Diagnostic, SxError
from sexpgpu.experiment import Experiment
from sexpgpu.runtime.arrays import Arrays, HostArrays, NoMemory
from sexpgpu.runtime.calls import Calls, contexts_of
from sexpgpu.runtime.curriculum import Curriculum
from sexpgpu.runtime.directory import RunDirectory, choose_directory
from sexpgpu.runtime.engine import Engine
from sexpgpu.runtime.evaluate import Pass
from sexpgpu.runtime.events import EventStream
from sexpgpu.runtime.faults import internal, told
from sexpgpu.runtime.feed import Feed
from sexpgpu.runtime.follow import follower
from sexpgpu.runtime.generate import Generation
from sexpgpu.runtime.keep import Keeper
from sexpgpu.runtime.loading import Loaders
from sexpgpu.runtime.loop import Loop
from sexpgpu.runtime.machines import meet, part
from sexpgpu.runtime.manifest import manifest_json
from sexpgpu.runtime.meeting import Stopped
from sexpgpu.runtime.plan import Plan, make_plan, turns
from sexpgpu.runtime.progress import Progress
from sexpgpu.runtime.ranks import Team
from sexpgpu.runtime.restore import require_checkpoint
from sexpgpu.runtime.signals import Signals
from sexpgpu.runtime.start import Start, begin, find_start
from sexpgpu.runtime.status import Status
from sexpgpu.runtime.step import TrainStep
from sexpgpu.runtime.tell import tell_end, tell_error, tell_lowering, tell_peak, tell_plan, tell_stacking, tell_start
from sexpgpu.runtime.views import Views

_RETRY = frozenset({"E-CKPT-005", "E-IO-001", "E-IO-004"})  # faults that a retry may mend


def _ignore(diagnostic: Diagnostic) -> None:
    """Warnings stay in the result alone."""


@frozen
class RunOptions:
    """What the command line says of a run.

    `out` is the run's directory; without it one is chosen under `runs`. `steps` ends the run sooner than the
    file does. `resume` is `latest` or a checkpoint's directory; with nothing to resume `latest` starts at
    step 0. `init` gives the first weights and matters only at step 0. `sources` are the texts that the
    experiment was compiled from, by their names in the manifest, and `file` its entry. `report` is called with each
    warning at once. `lowering` says what the device makes of each graph, in lines.
    """

    out: Path | None = None
    runs: Path = Path("runs")
    steps: int | None = None
    resume: str | None = None
    allow_changed: bool = False
    init: Path | None = None
    quiet: bool = False
    sources: Mapping[str, str] = field(factory=dict)
    file: Path | None = None
    lowering: str = ""
    report: Callable[[Diagnostic], None] = _ignore
    stream: TextIO = field(factory=lambda: sys.stderr)

    @property
    def told(self) -> TextIO | None:
        """Who hears of progress."""
        return None if self.quiet else self.stream


@frozen
class RunResult:
    """`code` is the process's exit code; `error` says why it is not 0, unless a signal stopped the run."""

    code: int
    directory: Path | None = None
    step: int = 0
    steps: int = 0
    metrics: dict[str, float] = field(factory=dict)
    error: Diagnostic | None = None
    warnings: tuple[Diagnostic, ...] = ()


@frozen
class _Reports:
    """Warnings so far, passed on as they come."""

    options: RunOptions
    records: list[Diagnostic] = field(factory=list)

    def add(self, diagnostic: Diagnostic) -> None:
        self.records.append(diagnostic)
        self.options.report(diagnostic)


def run(engine: Engine, options: RunOptions, arrays: Arrays | None = None, team: Team | None = None) -> RunResult:
    """Trains the engine's experiment. A user's fault becomes the result's error; any other exception is
    ours.

    `arrays` does the arithmetic on the engine's tensors; without it they are NumPy's. `team` are the ranks that train
    together, where the engine is not alone.
    """
    reports = _Reports(options)
    ranks = team or Team([Calls(engine, arrays if arrays is not None else HostArrays())])
    peers = ranks.peers
    try:
        with Signals() as signals:
            result = _run_with(ranks, options, reports, signals)
    except SxError as fault:
        result = _failed(fault.diagnostic, reports)
    except Exception as fault:
        if peers is not None:
            part(peers, 70, internal(fault))
        raise
    if peers is not None:
        part(peers, result.code, result.error)
    return result


def _run_with(team: Team, options: RunOptions, reports: _Reports, signals: Signals) -> RunResult:
    """The run of machine 0, or what another machine does of it."""
    experiment = team.calls[0].engine.experiment
    if options.resume not in (None, "latest"):
        require_checkpoint(Path(str(options.resume)))
    try:
        if team.peers is not None and not team.peers.leads:
            return _follow(team, options, reports, signals)
        path = choose_directory(experiment, options.runs, options.out, options.resume)
        with RunDirectory(path) as directory:
            accepted = _accept(directory, experiment, options, reports, team)
            meet(team, accepted.plan, accepted.start, accepted.loaders.data, signals, options.told)
            directory.create()
            return _run_in(directory, accepted, team, options, reports, signals)
    except Stopped:
        return RunResult(128 + (signals.number or 0))


def _follow(team: Team, options: RunOptions, reports: _Reports, signals: Signals) -> RunResult:
    """This machine reads what machine 0 reads, and writes nothing."""
    experiment = team.calls[0].engine.experiment
    path = options.out or options.runs
    if options.resume is not None:
        path = choose_directory(experiment, options.runs, options.out, options.resume)
    accepted = _accept(RunDirectory(path), experiment, options, reports, team)
    meet(team, accepted.plan, accepted.start, accepted.loaders.data, signals, options.told)
    try:
        here = follower(team, accepted.loaders, accepted.plan, accepted.start)
        code = here.run()
    except (OSError, MemoryError, NoMemory) as fault:
        raise SxError(told(fault, path)) from None
    return RunResult(code, None, here.done, accepted.plan.stop, here.metrics, warnings=tuple(reports.records))


@frozen
class _Accepted:
    """What a run is going to do: nothing of it could be refused, and no file has been touched."""

    loaders: Loaders
    plan: Plan
    start: Start


def _accept(
    directory: RunDirectory, experiment: Experiment, options: RunOptions, reports: _Reports, team: Team
) -> _Accepted:
    """Opens the data, makes the plan and reads the checkpoint or weights to begin with."""
    loaders = Loaders(experiment.run.microbatches)
    trained = loaders.open(experiment.train_loader)
    for evaluation in experiment.evaluations:
        loaders.open(evaluation.loader)
    for oddity in loaders.warnings(experiment.train_loader):
        reports.add(oddity)
    plan = make_plan(experiment.run, trained.order.epoch_batches, options.steps)
    _require_turns(experiment, loaders, plan)
    start = find_start(
        directory,
        experiment,
        loaders.data,
        resume=options.resume,
        init=options.init,
        allow_changed=options.allow_changed,
        stop=plan.stop,
        team=team,
        report=reports.add,
    )
    team.stacking.go_on(start.position.stacking)
    return _Accepted(loaders, plan, start)


def _failed(
    error: Diagnostic, reports: _Reports, directory: Path | None = None, step: int = 0, steps: int = 0
) -> RunResult:
    code = 4 if error.code in _RETRY else 1
    return RunResult(code, directory, step, steps, error=error, warnings=tuple(reports.records))


def _run_in(
    directory: RunDirectory,
    accepted: _Accepted,
    team: Team,
    options: RunOptions,
    reports: _Reports,
    signals: Signals,
) -> RunResult:
    calls = team.calls[0]
    engine, experiment = calls.engine, calls.engine.experiment
    loaders, plan = accepted.loaders, accepted.plan
    trained = loaders.open(experiment.train_loader)
    status = Status(directory.status, experiment, plan.stop)
    events: EventStream | None = None
    loop: Loop | None = None
    try:
        status.update("compiling", {"step": accepted.start.position.step})
        contexts, free = contexts_of(experiment), calls.arrays.free_bytes()
        start, tensors = begin(accepted.start, directory, team, contexts, reports.add)
        directory.write_manifest(experiment, engine.device, loaders.fitted, options.sources, options.file)
        events = EventStream(directory.events, start.position.events, reports.add)
        events.append(start.position.waiting)
        tell_start(events, directory, engine, plan, start)
        facts = {
            "run": directory.run_id,
            "manifest": manifest_json(experiment.manifest),
            "data": loaders.data,
            "ranks": team.count,
            "nodes": team.machines,
        }
        keeper = Keeper(directory.checkpoints, experiment.run, facts, events, reports.add, arrays=calls.arrays)
        if start.own:
            keeper.resumed_from = keeper.last = start.position.step
        views = Views(experiment, calls, plan, contexts)
        passes = [
            Pass(e, experiment, calls, loaders.open(e.loader), plan, turns(e, plan), contexts, views)
            for e in experiment.evaluations
        ]
        loop = Loop(
            experiment=experiment,
            plan=plan,
            trainer=TrainStep(experiment, Feed(experiment.train_loader, trained, plan, contexts, team)),
            passes=passes,
            views=views,
            generation=Generation(experiment, calls, contexts, plan, views, trained),
            samples=directory.samples,
            tensors=tensors,
            done=start.position.step,
            skipped=start.position.skipped,
            evaluated=list(start.position.evaluated),
            keeper=keeper,
            events=events,
            status=status,
            progress=Progress(options.stream, plan.stop, options.quiet, not knobs.NO_COLOR.get()),
            signals=signals,
            report=reports.add,
            stages=loaders.stages(experiment.train_loader),
            curriculum=Curriculum(experiment, calls, contexts, plan) if experiment.curriculum else None,
            observed=dict(start.position.observed),
        )
        loop.use_stage(start.position.stage)
        tell_lowering(options.lowering, events, loop.progress, start.position.step)
        tell_plan(calls.arrays, free, events, loop.progress, start.position.step)
        tell_stacking(team.stacking, events, loop.progress, start.position.step)
        started = time.perf_counter()
        outcome = loop.run()
        tell_peak(calls.arrays, events, loop.progress, outcome.step)
        code = tell_end(outcome, events, status, signals, time.perf_counter() - started)
        warnings = tuple(reports.records)
        return RunResult(code, directory.path, outcome.step, plan.stop, outcome.metrics, warnings=warnings)
    except (SxError, OSError, MemoryError, NoMemory) as fault:
        error = told(fault, directory.path)
        step = loop.done if loop is not None else accepted.start.position.step
        tell_error(error, step, events, status)
        return _failed(error, reports, directory.path, step, status.steps)
    except Exception as fault:
        # A fault of ours: it goes on to whoever called, but the directory is not to say that the run is under way.
        step = loop.done if loop is not None else accepted.start.position.step
        tell_error(internal(fault), step, events, status)
        raise
    finally:
        if events is not None:
            events.close()


def _require_turns(experiment: Experiment, loaders: Loaders, plan: Plan) -> None:
    """`E-LOAD-012` at the start for by-step fields that would end before the run does."""
    needed = [(experiment.train_loader, plan.stop)]
    needed += [(e.loader, turns(e, plan).count_until(plan.stop)) for e in experiment.evaluations]
    for loader, count in needed:
        for opened in loaders.stages(loader):
            try:
                opened.require_turns(count)
            except SxError as fault:
                raise SxError(fault.diagnostic.at(loader.span)) from None
