"""What `run` does once its flags are read: compile, load the engine, train, answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from sexpgpu import knobs
from sexpgpu.cli import report
from sexpgpu.diag import Diagnostic, to_json

if TYPE_CHECKING:
    from sexpgpu.driver.devices import Device
    from sexpgpu.lang.selection import Selection
    from sexpgpu.runtime.ranks import Team
    from sexpgpu.runtime.run import RunResult


@frozen
class RunFlags:
    """What `run` was told beside the file and its selection."""

    out: Path | None
    steps: int | None
    resume: str | None
    allow_changed: bool
    init: Path | None
    skipped: tuple[str, ...]
    start: Path | None
    deterministic: bool
    quiet: bool
    as_json: bool


def train(file: Path, selected: Selection, device: str | None, flags: RunFlags) -> int:
    """Compile `file` and train it on a device, SEXPGPU_DEVICE's by default; the exit code."""
    knobs.limit_threads()
    from sexpgpu.cli import exit_code
    from sexpgpu.diag import SxError
    from sexpgpu.driver.devices import opened

    kind = knobs.DEVICE.get(device)
    try:
        with opened(kind, several=True, told=lambda late: report.print_diagnostic(late, {})) as where:
            return _train(file, selected, where, flags)
    except SxError as fault:
        if flags.as_json:
            report.print_json(_failed(file, [to_json(fault.diagnostic, {})]))
        else:
            report.print_diagnostic(fault.diagnostic, {})
        return exit_code(fault.diagnostic.code)


def _train(file: Path, selected: Selection, where: Device, flags: RunFlags) -> int:
    from sexpgpu.dialects.context import open_context
    from sexpgpu.driver.compile import compile_in, sources_of
    from sexpgpu.driver.pipeline import Passes, skipping
    from sexpgpu.driver.prepared import admitted, lowering_text, prepare_for, team_of
    from sexpgpu.lang.limits import run_deep
    from sexpgpu.runtime.run import RunOptions, run

    as_json = flags.as_json
    told = (lambda late: report.print_diagnostic(late, {})) if flags.start is not None else None
    passes = Passes(skipping(flags.skipped, where.kind), flags.start, told=told)
    with open_context() as context:
        done = run_deep(
            lambda: compile_in(context, file, selected, pipeline=None, passes=passes, deterministic=flags.deterministic)
        )
        kernels = prepare_for(done, where)
        if refused := admitted(done, where, kernels):
            done.diagnostics.report(refused)
        sources = done.session.sources
        if not as_json:
            report.print_diagnostics(done.diagnostics, sources)
        if not done.ok:
            if where.peers is not None:
                where.peers.leave(done.diagnostics.errors[0])
            if as_json:
                report.print_json(_failed(file, report.diagnostics_json(done.diagnostics, sources)))
            return report.failure_code(done.diagnostics)

        def show(warning: Diagnostic) -> None:
            report.print_diagnostic(warning, sources)

        options = RunOptions(
            out=flags.out,
            steps=flags.steps,
            resume=flags.resume,
            allow_changed=flags.allow_changed,
            init=flags.init,
            quiet=flags.quiet or as_json,
            sources=sources_of(done.session, file),
            file=file,
            lowering=lowering_text(done, where, kernels),
            report=show,
            stream=sys.stderr,
        )
        team = team_of(done, where, kernels)
        result = run(team.calls[0].engine, options, team=team)
        if as_json:
            report.print_json(_document(file, result, sources))
        else:
            if result.error is not None:
                report.print_diagnostic(result.error, sources)
            else:
                click.echo(_summary(result, team))
        return result.code


def _failed(file: Path, diagnostics: list[dict[str, Any]]) -> dict[str, Any]:
    return {"verb": "run", "file": str(file), "ok": False, "diagnostics": diagnostics}


def _document(file: Path, result: RunResult, sources: Any) -> dict[str, Any]:
    told = [*result.warnings, *([result.error] if result.error else [])]
    return {
        "verb": "run",
        "file": str(file),
        "ok": result.code == 0,
        "directory": str(result.directory) if result.directory else None,
        "step": result.step,
        "steps": result.steps,
        "metrics": result.metrics,
        "diagnostics": [to_json(d, sources) for d in told],
    }


def _summary(result: RunResult, team: Team) -> str:
    state = "finished" if result.code == 0 else "stopped"
    metrics = "".join(f"  {name} {_short(value)}" for name, value in sorted(result.metrics.items()) if "/" in name)
    where = result.directory if result.directory is not None else f"machine {team.machine} of {team.machines}"
    return f"{where}: {state} at step {result.step} of {result.steps}{metrics}"


def _short(value: float) -> str:
    """Four decimals, or four figures of what these would show as nothing: a learning rate, often."""
    return f"{value:.4f}" if value == 0 or abs(value) >= 1e-3 else f"{value:.4g}"
