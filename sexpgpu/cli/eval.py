"""`sexpgpu eval`: the value of every top-level form."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sexpgpu.cli import report

if TYPE_CHECKING:
    from sexpgpu.lang.selection import Selection


@click.command()
@report.file_argument
@report.selection_options
@report.json_option
def command(
    file: Path,
    selected: Selection,
    as_json: bool,
) -> int:
    """Evaluate FILE and print the value of each top-level form, one a line; a definition prints `name = value`.

    Text that a form prints comes before its value.

    \b
    sexpgpu eval examples/shakespeare.sx
    sexpgpu eval scratch.sx --set width=64 --json
    """
    from sexpgpu.driver.compile import evaluate
    from sexpgpu.lang.limits import run_deep

    def evaluate_it() -> int:
        session, diagnostics, results = evaluate(file, selected)
        code = report.failure_code(diagnostics) if diagnostics.errors else 0
        if as_json:
            report.print_json(
                {
                    "verb": "eval",
                    "file": str(file),
                    "ok": code == 0,
                    "values": [result.line for result in results],
                    "output": session.output.text(),
                    "diagnostics": report.diagnostics_json(diagnostics, session.sources),
                }
            )
            return code
        for result in results:
            _echo_printed(result.output)
            click.echo(result.line)
        _echo_printed(session.output.text()[sum(len(result.output) for result in results) :])
        report.print_diagnostics(diagnostics, session.sources)
        return code

    return run_deep(evaluate_it)


def _echo_printed(text: str) -> None:
    """What a form printed, in lines of its own before its value."""
    if text.strip("\n"):
        click.echo(text.strip("\n"))
