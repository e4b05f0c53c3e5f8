"""`sexpgpu new`: a run file from a template or from another run file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sexpgpu.cli import report

if TYPE_CHECKING:
    from sexpgpu.lang.selection import Selection

TEMPLATES = ("gpt", "mnist", "mlp", "rnn")


@click.command()
@report.file_argument
@click.option("--template", type=click.Choice(TEMPLATES), help="Start from a template.")
@click.option("--from", "origin", type=click.Path(path_type=Path), metavar="G", help="Start from the run file G.")
@click.option("--data", metavar="PATH", help="The value of the knob `data`, a path from here.")
@report.selection_options
@report.json_option
def command(
    file: Path,
    template: str | None,
    origin: Path | None,
    data: str | None,
    selected: Selection,
    as_json: bool,
) -> int:
    """Write the run file FILE, which must not exist; `-` prints it. Selected values become the defaults of its knobs.

    \b
    sexpgpu new mine.sx --template gpt --data examples/data/tinyshakespeare.txt
    sexpgpu new wider.sx --from examples/shakespeare.sx --set width=256

    Comments stay, relative paths are rewritten to mean the same files. A template says at its top which data it reads;
    it compiles without them.
    """
    if (template is None) == (origin is None):
        raise click.UsageError("give one of --template and --from")
    from sexpgpu.diag import Diagnostics, SxError
    from sexpgpu.driver.derive import TEMPLATES as FOLDER
    from sexpgpu.driver.derive import derive
    from sexpgpu.driver.entry import STANDARD_INPUT, require_new, write_whole
    from sexpgpu.lang.limits import run_deep

    source = FOLDER / f"{template}.sx" if origin is None else origin

    shown = str(file) == STANDARD_INPUT

    def write_it() -> int:
        diagnostics = Diagnostics()
        sources: dict[str, str] = {}
        values: dict[str, str] = {}
        text: str | None = None
        try:
            if not shown:
                require_new(file)
            made, session = derive(source, selected, file, diagnostics, data=data, moved=origin is not None)
            sources = session.sources
            if made is not None:
                values, text = made.values, made.text
                if not shown:
                    write_whole(file, text, new=True)
        except SxError as fault:
            diagnostics.report(fault.diagnostic)
        code = report.failure_code(diagnostics) if diagnostics.errors else 0
        if as_json:
            told = report.diagnostics_json(diagnostics, sources)
            report.print_json(
                {
                    "verb": "new",
                    "file": str(file),
                    "ok": code == 0,
                    "from": template if origin is None else str(origin),
                    "values": values,
                    "text": text if shown else None,
                    "diagnostics": told,
                }
            )
            return code
        report.print_diagnostics(diagnostics, sources)
        if shown and text is not None:
            click.echo(text, nl=False)
        elif code == 0:
            changed = ", ".join(f"{knob} {value}" for knob, value in values.items())
            click.echo(f"{file}: written{f', with {changed}' if changed else ''}")
        return code

    return run_deep(write_it)
