"""`sexpgpu ir`: the experiment document, or the module at a stage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sexpgpu import knobs
from sexpgpu.cli import report
from sexpgpu.diag import error

if TYPE_CHECKING:
    from sexpgpu.lang.selection import Selection

PLAN = "plan"
"""What comes after the last pass: no module, but what the device executes."""


@click.command()
@report.file_argument
@report.selection_options
@report.skip_option
@click.option("--mlir", "as_mlir", is_flag=True, help="Print the MLIR module instead of the document.")
@click.option(
    "--stage", metavar="NAME", help="The module at a stage: traced, a pass by name or number, 06-autodiff; or `plan`."
)
@report.device_option("The device whose stages and plans these are; SEXPGPU_DEVICE otherwise.")
@report.target_option
@click.option("--graph", metavar="NAME", help="Only one graph of the module.")
@click.option("--locations", is_flag=True, help="With the source place of every operation.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file.")
@report.json_option
def command(
    file: Path,
    selected: Selection,
    skipped: tuple[str, ...],
    as_mlir: bool,
    stage: str | None,
    device: str | None,
    target: str | None,
    graph: str | None,
    locations: bool,
    output: Path | None,
    as_json: bool,
) -> int:
    """Print the experiment document of FILE as JSON, or its module with --mlir, --stage or --graph.

    \b
    sexpgpu ir examples/moons.sx
    sexpgpu ir examples/moons.sx --stage traced --graph train
    sexpgpu ir examples/moons.sx --stage 06-autodiff --skip simplify
    sexpgpu ir examples/moons.sx --stage plan --graph train
    sexpgpu ir examples/moons.sx --stage to-gpu --device cuda --target sm_90

    `sexpgpu passes` lists the stages. No device has to be there.
    """
    from sexpgpu.driver.compile import compiling
    from sexpgpu.driver.document import document_text, module_text
    from sexpgpu.driver.pipeline import Passes, skipping, stage_number, whole_for
    from sexpgpu.driver.plan_text import plans_text
    from sexpgpu.driver.planning import plans_of
    from sexpgpu.lang.limits import run_deep

    report.require_gpu(target, knobs.DEVICE.get(device))
    wants_module = as_mlir or stage is not None or graph is not None or locations
    if wants_module and as_json:
        raise click.UsageError("--json prints the document; --mlir, --stage, --graph and --locations the module")

    def print_it() -> int:
        pipeline = whole_for(device, target)
        until = None if stage is None or stage == PLAN else stage_number(stage, pipeline)
        with compiling(
            file, selected, pipeline=pipeline, passes=Passes(skipping(skipped, device), until=until)
        ) as done:
            report.print_diagnostics(done.diagnostics, done.session.sources)
            if done.diagnostics.errors:
                return report.failure_code(done.diagnostics)
            if stage == PLAN:
                text = plans_text(plans_of(done.module, done.context), graph)
            else:
                text = module_text(done, graph, locations) if wants_module else document_text(done)
            if output is None:
                click.echo(text)
            else:
                try:
                    output.write_text(text + "\n", "utf-8")
                except OSError as fault:
                    raise error("E-IO-106", f"{output} cannot be written", actual=str(fault.strerror)) from None
            return 0

    return run_deep(print_it)
