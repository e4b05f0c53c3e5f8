"""`sexpgpu run`: train."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sexpgpu.cli import report

if TYPE_CHECKING:
    from sexpgpu.lang.selection import Selection


def _directory(context: click.Context, parameter: click.Parameter, given: str | None) -> Path | None:
    """The path, which an empty text is not: it would mean the working directory."""
    if given == "":
        raise click.BadParameter("a directory has a name", context, parameter)
    return None if given is None else Path(given)


@click.command()
@report.file_argument
@report.selection_options
@click.option("--steps", type=click.IntRange(min=1), help="Stop after so many steps instead of the file's.")
@report.device_option("SEXPGPU_DEVICE otherwise.")
@click.option("--out", callback=_directory, metavar="DIR", help="The run's directory, instead of runs/<slug>.")
@click.option("--resume", metavar="latest|PATH", help="Go on from the newest good checkpoint, or from one.")
@click.option("--allow-changed", is_flag=True, help="Resume although the experiment differs from the checkpoint's.")
@click.option(
    "--init",
    type=click.Path(path_type=Path),
    metavar="FILE.safetensors",
    help="Start from given weights, by parameter path.",
)
@report.skip_option
@click.option(
    "--from",
    "start",
    type=click.Path(path_type=Path),
    metavar="NN-PASS.mlir",
    help="Go on from a module that SEXPGPU_DUMP or `passes --dump` wrote, edited or not.",
)
@click.option("--deterministic", is_flag=True, help="As if the file's defrun had `:deterministic t`.")
@click.option("--quiet", is_flag=True, help="No progress.")
@report.json_option
def command(
    file: Path,
    selected: Selection,
    steps: int | None,
    device: str | None,
    out: Path | None,
    resume: str | None,
    allow_changed: bool,
    init: Path | None,
    skipped: tuple[str, ...],
    start: Path | None,
    deterministic: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Train FILE. Progress and diagnostics go to standard error, the summary to standard output.

    \b
    sexpgpu run examples/shakespeare.sx
    sexpgpu run examples/shakespeare.sx --variant smoke --out runs/try --quiet
    sexpgpu run examples/shakespeare.sx --resume latest
    sexpgpu run examples/shakespeare.sx --deterministic

    Exit code 0 when the planned steps are done, 1 when the file or the run is at fault, 4 when the last checkpoint
    or events could not be written, 130 or 143 when a signal stopped it after a checkpoint.
    """
    if resume is not None and init is not None:
        raise click.UsageError("--init starts a run, --resume goes on with one: give one of them")
    from sexpgpu.cli.training import RunFlags, train

    flags = RunFlags(out, steps, resume, allow_changed, init, skipped, start, deterministic, quiet, as_json)
    return train(file, selected, device, flags)
