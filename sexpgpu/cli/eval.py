"""`sexpgpu eval`: the value of every top-level form."""

from __future__ import annotations

from pathlib import Path

import click

from sexpgpu.cli import report


@click.command()
@report.file_argument
@report.selection_options
@report.json_option
def command(
    file: Path,
    variant: str | None,
    sets: tuple[str, ...],
    sweep: str | None,
    point: int | None,
    as_json: bool,
) -> int:
    """Evaluate FILE and print the value of each top-level form, one a line; a definition prints `name = value`.

    \b
    sexpgpu eval examples/shakespeare.sx
    sexpgpu eval scratch.sx --set width=64 --json
    """
    selected = report.selection(variant, sets, sweep, point)
    from sexpgpu.driver.compile import evaluate
    from sexpgpu.lang.limits import run_deep

    def evaluate_it() -> int:
        session, diagnostics, lines = evaluate(file, selected)
        code = report.failure_code(diagnostics) if diagnostics.errors else 0
        if as_json:
            report.print_json(
                {
                    "verb": "eval",
                    "file": str(file),
                    "ok": code == 0,
                    "values": lines,
                    "diagnostics": report.diagnostics_json(diagnostics, session.sources),
                }
            )
            return code
        for line in lines:
            click.echo(line)
        report.print_diagnostics(diagnostics, session.sources)
        return code

    return run_deep(evaluate_it)
