"""`sexpgpu eval`: the value of every top-level form, or where a name is defined."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sexpgpu.cli import report

if TYPE_CHECKING:
    from sexpgpu.diag import Diagnostics
    from sexpgpu.driver.where import Definition
    from sexpgpu.lang.selection import Selection
    from sexpgpu.lang.toplevel import FormResult


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@report.selection_options
@click.option("--where", "name", metavar="NAME", help="Show where NAME is defined; without FILE, in the library.")
@report.json_option
def command(
    file: Path | None,
    selected: Selection,
    name: str | None,
    as_json: bool,
) -> int:
    """Evaluate FILE and print the value of each top-level form, one a line; a definition prints `name = value`.

    Text that a form prints comes before its value.

    \b
    sexpgpu eval examples/shakespeare.sx
    sexpgpu eval scratch.sx --set width=64 --json
    sexpgpu eval --where layer-norm
    """
    from sexpgpu.lang.limits import run_deep

    if name is not None:
        return run_deep(lambda: _where(name, file, selected, as_json))
    if file is None:
        raise click.UsageError("eval takes a FILE, or --where NAME")
    return run_deep(lambda: _values(file, selected, as_json))


def _values(file: Path, selected: Selection, as_json: bool) -> int:
    from sexpgpu.driver.compile import evaluate

    session, diagnostics, results = evaluate(file, selected)
    lines = [_line(result, diagnostics) for result in results]
    code = report.failure_code(diagnostics) if diagnostics.errors else 0
    if as_json:
        report.print_json(
            {
                "verb": "eval",
                "file": str(file),
                "ok": code == 0,
                "values": [line for line in lines if line is not None],
                "output": session.output.text(),
                "diagnostics": report.diagnostics_json(diagnostics, session.sources),
            }
        )
        return code
    for result, line in zip(results, lines, strict=True):
        _echo_printed(result.output)
        if line is not None:
            click.echo(line)
    _echo_printed(session.output.text()[sum(len(result.output) for result in results) :])
    report.print_diagnostics(diagnostics, session.sources)
    return code


def _line(result: FormResult, diagnostics: Diagnostics) -> str | None:
    """A form's value as it prints; None where it cannot, which is reported."""
    from sexpgpu.diag import SxError

    try:
        return result.line
    except SxError as wrong:
        diagnostics.report(wrong.diagnostic)
        return None


def _echo_printed(text: str) -> None:
    """What a form printed, in lines of its own before its value."""
    if text.strip("\n"):
        click.echo(text.strip("\n"))


def _where(name: str, file: Path | None, selected: Selection, as_json: bool) -> int:
    """Print each definition of a name."""
    from sexpgpu.driver.where import where_is

    found = where_is(name, file, selected)
    code = 0 if found.definitions else report.failure_code(found.diagnostics)
    if as_json:
        report.print_json(
            {
                "verb": "eval",
                "file": str(file) if file is not None else None,
                "where": name,
                "ok": code == 0,
                "definitions": [_document(definition) for definition in found.definitions],
                "diagnostics": report.diagnostics_json(found.diagnostics, found.sources),
            }
        )
        return code
    if found.definitions:
        click.echo("\n\n".join(map(_text, found.definitions)))
    report.print_diagnostics(found.diagnostics, found.sources)
    return code


def _text(found: Definition) -> str:
    """`file:line:col: what it is`, how it is called, its documentation, the text that defines it."""
    if found.span is not None:
        place = f"{_shown(found.span.file)}:{found.span.line}:{found.span.col}: "
    else:
        place = "built in: "
    title = f"{place}{found.kind} `{found.name}`" + (f", of {found.module}" if found.module else "")
    lines = [title + (f", written by {found.written_by}" if found.written_by else "")]
    if found.call:
        lines.append(found.call)
    if found.doc:
        lines.append(found.doc.strip())
    if found.operation is not None:
        op = found.operation
        lines.append(f"traces to {op.name}, {op.doc}: {_shown(op.file)}:{op.line}")
    if found.python is not None:
        lines.append(f"written in Python: {_shown(found.python[0])}:{found.python[1]}")
    return "\n".join([*lines, "", found.text] if found.text else lines)


def _document(found: Definition) -> dict[str, Any]:
    from attrs import asdict

    document = asdict(found)
    span, python = document.pop("span"), document.pop("python")
    return document | {
        "place": {**span, "file": os.path.abspath(span["file"])} if span else None,
        "python": {"file": python[0], "line": python[1]} if python else None,
    }


def _shown(file: str) -> str:
    """A path as it is shortest to write from here, where it is below."""
    path = Path(os.path.abspath(file))
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
