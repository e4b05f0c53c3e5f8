"""`sexpgpu doctor`: whether a run can start on this machine."""

from __future__ import annotations

import click

from sexpgpu import knobs
from sexpgpu.cli import report


@click.command()
@click.option("--env", "environment", is_flag=True, help="List every variable with its value and source.")
@report.json_option
def command(environment: bool, as_json: bool) -> int:
    """Check what a run needs; each line says ok, missing, warn or absent, and how to mend what is not ok.

    Parts of CUDA are absent where they are not there and SEXPGPU_DEVICE does not ask for them.

    \b
    sexpgpu doctor
    sexpgpu doctor --env --json

    Exit code 0 when a run can start, 3 when something needed is missing.
    """
    if environment:
        return _environment(as_json)
    from sexpgpu.driver.doctor import examine

    findings = examine()
    missing = any(f.state == "missing" for f in findings)
    if as_json:
        rows = [{"what": f.what, "state": f.state, "detail": f.detail, "mend": f.mend} for f in findings]
        report.print_json({"verb": "doctor", "ok": not missing, "findings": rows})
    else:
        width = max(len(f.what) for f in findings)
        for f in findings:
            click.echo(f"{f.state:8} {f.what:{width}}  {f.detail}")
            if f.mend and f.state != "ok":
                click.echo(f"{'':8} {'':{width}}  {f.mend}")
    return 3 if missing else 0


def _environment(as_json: bool) -> int:
    rows = []
    for knob in knobs.KNOBS:
        setting = knob.read()
        rows.append({"name": knob.name, "value": setting.value, "source": setting.source, "help": knob.help})
    strange = [{"name": name, "meant": meant} for name, meant in knobs.unknown()]
    if as_json:
        report.print_json({"verb": "doctor", "environment": rows, "unknown": strange})
    else:
        width = max(len(str(row["name"])) for row in rows)
        for row in rows:
            click.echo(f"{row['name']:{width}} {_shown(row['value']):10} {row['source']:12} {row['help']}")
        for item in strange:
            hint = f"; did you mean {item['meant']}?" if item["meant"] else ""
            click.echo(f"{item['name']:{width}} is read by nothing{hint}")
    return 0


def _shown(value: object) -> str:
    """A value as the environment would have it."""
    return "-" if value is None else str(int(value)) if isinstance(value, bool) else str(value)
