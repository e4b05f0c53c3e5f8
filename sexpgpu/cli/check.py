"""`sexpgpu check`: compile all of a file, with no data and no device."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sexpgpu import __version__
from sexpgpu.cli import report
from sexpgpu.diag.strict import json_text

if TYPE_CHECKING:
    from sexpgpu.lang.selection import Selection


@click.command()
@report.file_argument
@report.selection_options
@report.skip_option
@report.json_option
@click.option("--sarif", "as_sarif", is_flag=True, help="Print a SARIF 2.1.0 log, for code hosts and editors.")
def command(
    file: Path,
    selected: Selection,
    skipped: tuple[str, ...],
    as_json: bool,
    as_sarif: bool,
) -> int:
    """Compile FILE whole: every graph traced, every shape checked, every mistake reported.

    \b
    sexpgpu check examples/shakespeare.sx
    sexpgpu check examples/gpt2.sx --variant smoke --set lr=3e-4 --json

    Exit code 0 when the file compiles, 1 when it has errors (on standard error, with places and fixes).
    """
    if as_json and as_sarif:
        raise click.UsageError("give one of --json and --sarif")
    gc.disable()  # the process ends before a collection could pay
    from sexpgpu.driver.preload import preload

    preload()
    from sexpgpu.driver.compile import Compilation, compiling
    from sexpgpu.driver.pipeline import Passes, skipping
    from sexpgpu.lang.limits import run_deep

    def compile_it() -> int:
        passes = Passes(skipping(skipped))
        with compiling(file, selected, pipeline="check", passes=passes) as done:
            return _answer(done, file, as_json)

    def _answer(done: Compilation, file: Path, as_json: bool) -> int:
        experiment = done.experiment
        code = 0 if done.ok else report.failure_code(done.diagnostics)
        if as_json:
            report.print_json(
                {
                    "verb": "check",
                    "file": str(file),
                    "ok": code == 0,
                    "parameters": len(experiment.parameters) if experiment else None,
                    "elements": sum(p.type.size for p in experiment.parameters) if experiment else None,
                    "graphs": sorted(experiment.graphs) if experiment else None,
                    "diagnostics": report.diagnostics_json(done.diagnostics, done.session.sources),
                }
            )
            return code
        if as_sarif:
            from sexpgpu.diag.sarif import sarif_log

            click.echo(json_text(sarif_log(done.diagnostics, str(file), __version__), indent=2, escaped=True))
            return code
        report.print_diagnostics(done.diagnostics, done.session.sources)
        if experiment is not None and code == 0:
            elements = sum(p.type.size for p in experiment.parameters)
            many = "s" * (len(experiment.parameters) != 1)
            click.echo(
                f"{file}: ok, {len(experiment.parameters)} parameter{many}, {elements:,} elements, "
                f"{len(experiment.graphs)} graphs"
            )
        return code

    return run_deep(compile_it)
