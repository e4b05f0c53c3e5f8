"""`sexpgpu explain`: what the compiler made of a file."""

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
@report.skip_option
@report.device_option("End with the device's lowering report.")
@report.target_option
@report.json_option
def command(
    file: Path,
    selected: Selection,
    skipped: tuple[str, ...],
    device: str | None,
    target: str | None,
    as_json: bool,
) -> int:
    """Say what the compiler made of FILE: knobs, parameters, optimizer groups, graphs, one training step.

    \b
    sexpgpu explain examples/shakespeare.sx
    sexpgpu explain examples/gpt2.sx --variant smoke --json
    sexpgpu explain examples/shakespeare.sx --device cpu
    sexpgpu explain examples/gpt2.sx --device cuda --target sm_90

    Reads no data and trains nothing.
    """
    from attrs import asdict

    from sexpgpu.driver.compile import compiling
    from sexpgpu.driver.explain import explain
    from sexpgpu.driver.explain_text import text_of
    from sexpgpu.driver.lowered_device import lowering_for
    from sexpgpu.driver.lowering_text import text_of as lowering_text
    from sexpgpu.driver.pipeline import Passes, shared_for, skipping
    from sexpgpu.lang.limits import run_deep

    report.require_gpu(target, device)

    def explain_it() -> int:
        with compiling(file, selected, pipeline=shared_for(device), passes=Passes(skipping(skipped, device))) as done:
            told = report.diagnostics_json(done.diagnostics, done.session.sources)
            if not done.ok:
                if as_json:
                    report.print_json({"verb": "explain", "ok": False, "diagnostics": told})
                else:
                    report.print_diagnostics(done.diagnostics, done.session.sources)
                return report.failure_code(done.diagnostics)
            found = explain(done)
            lowering = None
            if device is not None:
                lowering = lowering_for(done, device, target)
                found["device"] = asdict(lowering)
            if as_json:
                report.print_json({"verb": "explain", "ok": True, **found, "diagnostics": told})
            else:
                report.print_diagnostics(done.diagnostics, done.session.sources)
                click.echo(text_of(found))
                if lowering is not None:
                    click.echo(lowering_text(lowering))
            return 0

    return run_deep(explain_it)
