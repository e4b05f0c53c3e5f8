"""Where a run begins: at step 0 with drawn or given weights, or where a checkpoint left off."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import evolve, field, frozen

from sexpgpu.diag import Diagnostic, error, warning
from sexpgpu.experiment import Experiment
from sexpgpu.runtime import checkpoint, events, rounding
from sexpgpu.runtime.calls import Contexts, Tensors
from sexpgpu.runtime.checkpoint import Position
from sexpgpu.runtime.directory import RunDirectory, holds_a_run
from sexpgpu.runtime.engine import Array
from sexpgpu.runtime.manifest import Change, Data, changes, data_changes, manifest_json, require_none
from sexpgpu.runtime.ranks import Team
from sexpgpu.runtime.restore import newest_good, read_index, restore
from sexpgpu.runtime.weights import initial_tensors, read_weights


@frozen
class Start:
    """The position a run begins at, and its tensors: those of the checkpoint, or None where they are to be drawn.

    `given` are tensors that replace drawn ones. `own`: the checkpoint is of this run's directory, whose history goes
    on; else a new history begins. `rounding` is what the checkpoint has of rounded gradients.
    """

    tensors: Tensors | None
    position: Position
    given: Mapping[str, Array] = field(factory=dict)
    checkpoint: Path | None = None
    own: bool = False
    nonce: str = ""
    bytes: int = 0
    changes: tuple[Change, ...] = ()
    rounding: Mapping[str, Array] = field(factory=dict)


def find_start(
    directory: RunDirectory,
    experiment: Experiment,
    data: Data,
    *,
    resume: str | None,
    init: Path | None,
    allow_changed: bool,
    stop: int,
    team: Team,
    report: Callable[[Diagnostic], None],
) -> Start:
    """Loads the checkpoint that `resume` names, or the weights that a new run is given; changes no file.

    `data` are those that the loaders opened. `E-RUN-102` for a checkpoint past `stop`, the step at which the run is to
    end; `E-DP-002` for one of other ranks or machines than `team`, unless sums do not depend on them.
    """
    chosen = newest_good(directory.checkpoints, report) if resume == "latest" else resume and Path(resume)
    if chosen:
        return _resumed(directory, chosen, experiment, data, allow_changed, stop, team)
    if resume == "latest":
        report(_nothing_to_resume(directory, experiment.name))
    given = {} if init is None else read_weights(init, experiment)
    return Start(None, Position(0, 0, (), 0), given)


def begin(
    start: Start, directory: RunDirectory, team: Team, contexts: Contexts, report: Callable[[Diagnostic], None]
) -> tuple[Start, Tensors]:
    """Sets aside, in the directory, what will be run again; the start as it then is, and the tensors, drawn now where
    no checkpoint has them, where graphs read them.
    """
    calls = team.calls[0]
    host = start.tensors or initial_tensors(calls, contexts, start.given)
    tensors = team.replicate(host, calls.engine.experiment)
    if unused := rounding.take(team, calls.engine.experiment, start.rounding):
        report(unused)
    position = start.position
    length = _set_aside(directory, position.events, position.step)
    if length < position.events:
        lost = position.events - length
        report(warning("W-CKPT-005", f"{directory.events} has lost its last {lost} bytes before the checkpoint"))
        position = evolve(position, events=length)
    if position.lost:
        message = (
            f"{position.lost} events before {start.checkpoint} were never written; only running those steps again "
            "gives them"
        )
        report(warning("W-CKPT-005", message))
    return evolve(start, tensors=tensors, position=position), tensors


def _nothing_to_resume(directory: RunDirectory, name: str) -> Diagnostic:
    # A changed file or knob gives a run another directory: its author may have meant one of these.
    others = [path for path in directory.path.parent.glob(f"{name}-*") if path != directory.path and holds_a_run(path)]
    return warning(
        "W-CKPT-003",
        f"{directory.path} has no checkpoint; the run starts at step 0",
        help=f"other runs of this file: {', '.join(map(str, sorted(others)))}" if others else None,
    )


def _resumed(
    directory: RunDirectory, path: Path, experiment: Experiment, data: Data, allow_changed: bool, stop: int, team: Team
) -> Start:
    index = read_index(path)
    found = changes(index["manifest"], manifest_json(experiment.manifest))
    # Checkpoints of this format were written without the data at first.
    other_data = data_changes(index["data"], data) if "data" in index else []
    if not allow_changed:
        require_none(found, other_data, path)
    # Checkpoints of this format were written without these at first.
    for what, written, now in (
        ("rank", index.get("ranks", 1), team.count),
        ("machine", index.get("nodes", 1), team.machines),
    ):
        if written != now and not experiment.run.deterministic:
            raise error(
                "E-DP-002",
                f"{path} was written by another number of {what}s",
                expected=f"{_counted(written, what)}, as the checkpoint has",
                actual=f"{_counted(now, what)} in this run",
                help="take as many machines and devices; under `:deterministic t` any number goes on",
            )
    restored = restore(path, experiment)
    position = restored.position
    if position.step > stop:
        raise error(
            "E-RUN-102",
            f"{path} is of step {position.step}, and the run is to end at step {stop}",
            expected=f"a checkpoint of step {stop} or before",
            actual=f"step {position.step}",
            help=f"`--steps` of {position.step} or more goes on from it; `--resume PATH` takes an earlier one",
        )
    total = sum(file["bytes"] for file in index["files"].values())
    inside = path.resolve().parent == directory.checkpoints.resolve()
    if inside and not directory.known:
        directory.run_id = index["run"]  # its manifest is gone; the checkpoint has all that it said
    own = inside and index["run"] == directory.run_id
    if not own:
        if directory.history:
            raise error(
                "E-IO-002",
                f"{directory.path} holds another run than the checkpoint {path}",
                help="`--out` with a new directory begins a new history from it",
            )
        position = evolve(position, events=0, waiting=(), lost=0)
    return Start(
        restored.tensors, position, {}, path, own, index["nonce"], total, (*found, *other_data), restored.rounding
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _set_aside(directory: RunDirectory, offset: int, step: int) -> int:
    """Moves events and checkpoints behind the start out of the way; gives the length of the event stream."""
    checkpoint.set_aside(directory.checkpoints, step, secrets.token_hex(4))
    return events.set_aside(directory.events, offset)
