"""Where a run begins: at step 0 with drawn or given weights, or where a checkpoint left off."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from attrs import evolve, frozen

from sexpgpu.diag import Diagnostic, error, warning
from sexpgpu.runtime import checkpoint, events
from sexpgpu.runtime.calls import Calls, Contexts, Tensors
from sexpgpu.runtime.checkpoint import Position
from sexpgpu.runtime.directory import RunDirectory, holds_a_run
from sexpgpu.runtime.manifest import Change, manifest_json, require_same
from sexpgpu.runtime.restore import newest_good, read_index, restore
from sexpgpu.runtime.weights import initial_tensors, read_weights


@frozen
class Start:
    """The tensors and the position a run begins with.

    `own`: the checkpoint is of this run's directory, whose history goes on; else a new history begins.
    """

    tensors: Tensors
    position: Position
    checkpoint: Path | None = None
    own: bool = False
    nonce: str = ""
    bytes: int = 0
    changes: tuple[Change, ...] = ()


def find_start(
    directory: RunDirectory,
    calls: Calls,
    contexts: Contexts,
    *,
    resume: str | None,
    init: Path | None,
    allow_changed: bool,
    stop: int,
    report: Callable[[Diagnostic], None],
) -> Start:
    """Loads the checkpoint that `resume` names or makes the first tensors; sets aside what will be run again.

    `E-RUN-102` for a checkpoint past `stop`, the step at which the run is to end.
    Nothing in the directory changes before all that could be refused has been accepted.
    """
    chosen = newest_good(directory.checkpoints, report) if resume == "latest" else resume and Path(resume)
    if not chosen:
        if resume == "latest":
            report(_nothing_to_resume(directory, calls.engine.experiment.name))
        given = {} if init is None else read_weights(init, calls.engine.experiment)
        tensors = initial_tensors(calls, contexts, given)
        _set_aside(directory, 0, 0)
        return Start(tensors, Position(0, 0, (), 0))
    return _resumed(directory, chosen, calls, allow_changed, stop, report)


def _nothing_to_resume(directory: RunDirectory, name: str) -> Diagnostic:
    # A changed file or knob gives a run another directory: its author may have meant one of these.
    others = [path for path in directory.path.parent.glob(f"{name}-*") if path != directory.path and holds_a_run(path)]
    return warning(
        "W-CKPT-003",
        f"{directory.path} has no checkpoint; the run starts at step 0",
        help=f"other runs of this file: {', '.join(map(str, sorted(others)))}" if others else None,
    )


def _resumed(
    directory: RunDirectory,
    path: Path,
    calls: Calls,
    allow_changed: bool,
    stop: int,
    report: Callable[[Diagnostic], None],
) -> Start:
    experiment = calls.engine.experiment
    index = read_index(path)
    changes = require_same(index["manifest"], manifest_json(experiment.manifest), allow_changed, path)
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
        if holds_a_run(directory.path):
            raise error(
                "E-IO-002",
                f"{directory.path} holds another run than the checkpoint {path}",
                help="`--out` with a new directory begins a new history from it",
            )
        start = evolve(position, events=0, waiting=(), lost=0)
        return Start(restored.tensors, start, path, False, index["nonce"], total, tuple(changes))
    length = _set_aside(directory, position.events, position.step)
    if length < position.events:
        lost = position.events - length
        report(warning("W-CKPT-005", f"{directory.events} has lost its last {lost} bytes before the checkpoint"))
        position = evolve(position, events=length)
    if position.lost:
        message = f"{position.lost} events before {path} were never written; only running those steps again gives them"
        report(warning("W-CKPT-005", message))
    return Start(restored.tensors, position, path, True, index["nonce"], total, tuple(changes))


def _set_aside(directory: RunDirectory, offset: int, step: int) -> int:
    """Moves events and checkpoints behind the start out of the way; gives the length of the event stream."""
    checkpoint.set_aside(directory.checkpoints, step, secrets.token_hex(4))
    return events.set_aside(directory.events, offset)
