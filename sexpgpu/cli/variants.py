"""`sexpgpu variants`: the knobs, variants and sweeps that a file declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sexpgpu.cli import report

if TYPE_CHECKING:
    from sexpgpu.lang.selection import Selection

MOST_POINTS = 20
"""Points of a sweep that the text shows; `--json` has all."""


@click.command()
@report.file_argument
@report.selection_options
@report.json_option
def command(
    file: Path,
    selected: Selection,
    as_json: bool,
) -> int:
    """List the knobs of FILE with their defaults, what each variant changes, and the points of each sweep.

    \b
    sexpgpu variants examples/digits.sx
    sexpgpu variants examples/shakespeare.sx --variant smoke --json

    With a selection, the values it gives stand beside the defaults.
    """
    from sexpgpu.driver.choices import choices
    from sexpgpu.driver.compile import evaluate
    from sexpgpu.lang.limits import run_deep
    from sexpgpu.lang.selection import Declared

    def list_them() -> int:
        session, diagnostics, values = evaluate(file, selected)
        if diagnostics.errors and not values:  # not even evaluated: there is no such file or selection
            session.declared = Declared()
        found = choices(session)
        code = report.failure_code(diagnostics) if diagnostics.errors else 0
        if as_json:
            told = report.diagnostics_json(diagnostics, session.sources)
            report.print_json({"verb": "variants", "file": str(file), "ok": code == 0, **found, "diagnostics": told})
            return code
        report.print_diagnostics(diagnostics, session.sources)
        for line in _text(found):
            click.echo(line)
        if code == 0 and not any(found.values()):
            click.echo("no knobs, variants or sweeps")
        return code

    return run_deep(list_them)


def _text(found: dict[str, Any]) -> Iterator[str]:
    defaults = {knob["name"]: knob["default"] for knob in found["knobs"]}
    if found["knobs"]:
        yield "knobs:"
        yield from _table([_knob(knob) for knob in found["knobs"]])
    if found["variants"]:
        yield "variants:"
        rows = []
        for variant in found["variants"]:
            changes = [f"{knob} {defaults.get(knob)} -> {value}" for knob, value in variant["changes"].items()]
            rows.append((variant["name"], ", ".join(changes)))
        yield from _table(rows)
    if found["sweeps"]:
        yield "sweeps:"
        for sweep in found["sweeps"]:
            points = sweep["points"]
            yield f"  {sweep['name']}  {len(points)} point{'s' * (len(points) != 1)}"
            for number, point in enumerate(points[:MOST_POINTS]):
                yield f"    {number:<3}" + "  ".join(f"{knob} {value}" for knob, value in point.items())
            if len(points) > MOST_POINTS:
                yield f"    ... {len(points) - MOST_POINTS} more"


def _knob(knob: dict[str, Any]) -> tuple[str, str, str, str]:
    value = knob["default"]
    if knob["source"] != "default":
        value += f" -> {knob['value']} ({knob['source']})"
    kind = " | ".join(knob["choices"]) or knob["type"] or "any"
    return knob["name"], value, kind, knob["doc"] or ""


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
