"""`sexpgpu watch`: check a file again on every save."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sexpgpu.cli import report
from sexpgpu.diag import to_json
from sexpgpu.diag.strict import json_text

if TYPE_CHECKING:
    from sexpgpu.driver.warm import Answer
    from sexpgpu.lang.selection import Selection


@click.command()
@report.file_argument
@report.selection_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document a line, one for each check.")
def command(
    file: Path,
    selected: Selection,
    as_json: bool,
) -> int:
    """Check FILE now, and again on every save of it or of a file it requires, until SIGINT.

    \b
    sexpgpu watch examples/shakespeare.sx
    sexpgpu watch examples/gpt2.sx --variant smoke --json

    Each check prints its diagnostics on standard error and one line on standard output: whether FILE compiles, and how
    long that took to find out.
    """
    if str(file) == "-":
        raise click.UsageError("watch takes a file, not standard input")
    from sexpgpu.driver.saves import Saves
    from sexpgpu.driver.warm import Checker, Request

    saves = Saves()
    signal.signal(signal.SIGINT, _once)
    checker = Checker()
    try:
        files: set[str | Path] = {file}
        saves.watch(files, {})
        while True:
            saves.note(files)
            started = time.perf_counter()
            answer = checker.check(Request(file, selected))
            _print(answer, file, time.perf_counter() - started, as_json)
            files = {file, *answer.files}
            saves.watch(files, answer.texts)
            saves.wait()
    except KeyboardInterrupt:
        return 130  # this is how watching ends: no word about it
    finally:
        checker.close()
        saves.close()


def _once(number: int, frame: object) -> None:
    """The first SIGINT ends the watching; more of them, as a group may get, do not disturb the ending."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _print(answer: Answer, file: Path, seconds: float, as_json: bool) -> None:
    if as_json:
        click.echo(json_text({"schema": report.SCHEMA, **_document(answer, file, seconds)}, escaped=True))
    else:
        for diagnostic in answer.diagnostics:
            report.print_diagnostic(diagnostic, answer.texts)
        if answer.fault is not None:
            click.echo(f"{answer.fault}\nsexpgpu: this is a fault of sexpgpu, not of your file", err=True)
        click.echo(f"{file}: {_verdict(answer)} ({seconds:.2f} s)")
    sys.stdout.flush()


def _document(answer: Answer, file: Path, seconds: float) -> dict[str, Any]:
    return {
        "verb": "watch",
        "file": str(file),
        "ok": answer.ok,
        "seconds": round(seconds, 3),
        "parameters": answer.parameters,
        "elements": answer.elements,
        "graphs": answer.graphs,
        "diagnostics": [to_json(d, answer.texts) for d in answer.diagnostics],
        "fault": answer.fault,
    }


def _verdict(answer: Answer) -> str:
    if answer.fault is not None:
        return "not checked"
    warnings = f"{answer.warnings} warning{'s' * (answer.warnings != 1)}"
    if answer.errors:
        return f"{answer.errors} error{'s' * (answer.errors != 1)}" + (f", {warnings}" if answer.warnings else "")
    assert answer.graphs is not None
    many = "s" * (answer.parameters != 1)
    counts = f"ok, {answer.parameters} parameter{many}, {answer.elements:,} elements, {len(answer.graphs)} graphs"
    return counts + (f", {warnings}" if answer.warnings else "")
