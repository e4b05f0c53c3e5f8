"""`sexpgpu fmt`: the one layout of `.sx` files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sexpgpu.cli import report


@click.command()
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@report.json_option
def command(files: tuple[Path, ...], only_check: bool, as_json: bool) -> int:
    """Lay out FILES in the one way: indentation, blanks, trailing comments. Each file that changes is named.

    \b
    sexpgpu fmt examples/moons.sx
    sexpgpu fmt examples/*.sx --check

    `-` is standard input, laid out on standard output. Line breaks are yours, save where a line is longer than 120
    columns; comments and the spelling of every datum stay. A file that does not read is left as it is (exit code 1).
    """
    from sexpgpu.lang.limits import run_deep

    return run_deep(lambda: _format(files, only_check, as_json))


def _format(files: tuple[Path, ...], only_check: bool, as_json: bool) -> int:
    told = [_format_one(file, only_check, as_json) for file in files]
    code = max((code for _, code in told), default=0)
    if as_json:
        report.print_json({"verb": "fmt", "ok": code == 0, "files": [record for record, _ in told]})
    return code


def _format_one(file: Path, only_check: bool, as_json: bool) -> tuple[dict[str, Any], int]:
    """What `--json` says of a file, and the exit code it asks for."""
    from sexpgpu.diag import Diagnostics, SxError
    from sexpgpu.driver.entry import STANDARD_INPUT, read_source, write_whole
    from sexpgpu.lang.layout import checked_layout

    diagnostics = Diagnostics()
    sources: dict[str, str] = {}
    line: int | None = None
    formatted: str | None = None
    try:
        written, text = read_source(file)
        sources[str(file)] = text
        formatted = checked_layout(str(file), text, diagnostics)
        if formatted is not None and formatted != written:
            line = _first_difference(written, formatted)
            if not (only_check or str(file) == STANDARD_INPUT):
                write_whole(file, formatted)
    except SxError as fault:
        diagnostics.report(fault.diagnostic)
    if not as_json:
        report.print_diagnostics(diagnostics, sources)
        if str(file) == STANDARD_INPUT and formatted is not None and not only_check:
            click.echo(formatted, nl=False)
        elif line is not None and not diagnostics.errors:
            click.echo(f"{file}:{line}: not in the layout" if only_check else f"{file}: laid out")
    record = {
        "file": str(file),
        "changed": line is not None,
        "first_line": line,
        "text": formatted if str(file) == STANDARD_INPUT else None,
        "diagnostics": report.diagnostics_json(diagnostics, sources),
    }
    if diagnostics.errors:
        return record, report.failure_code(diagnostics)
    return record, 1 if only_check and line is not None else 0


def _first_difference(before: str, after: str) -> int:
    """The number of the first line that differs."""
    old, new = before.split("\n"), after.split("\n")
    return next((n for n, (a, b) in enumerate(zip(old, new, strict=False), 1) if a != b), min(len(old), len(new)))
