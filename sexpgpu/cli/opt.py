"""`sexpgpu-opt`: the dialect's own `mlir-opt`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sexpgpu.cli import guarded


@click.command(context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True})
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("passes", nargs=-1, type=click.UNPROCESSED)
@click.option("--pipeline", "pipelines", multiple=True, metavar="NAME", help="A pipeline by name, before the passes.")
@click.option("--pass-pipeline", "upstream", metavar="TEXT", help="An upstream pipeline, run after the passes.")
@click.option("--split-input-file", is_flag=True, help="Each part between `// -----` lines is a module of its own.")
@click.option("--verify-diagnostics", is_flag=True, help="Errors must be exactly those that expected-error says.")
@click.option("--print-ir-after-all", is_flag=True, help="Print the module after every pass, on standard error.")
@click.option("--print-locations", is_flag=True, help="Print the location of every operation.")
@click.option("--ptx", is_flag=True, help="Print the text of the kernels that --sx-to-ptx made, not the module.")
@click.option("--timing", is_flag=True, help="Print a table of what each pass cost, on standard error.")
@click.option("--dump-pass-pipeline", is_flag=True, help="Print the passes as flags of this tool, on standard error.")
def command(
    file: Path,
    passes: tuple[str, ...],
    pipelines: tuple[str, ...],
    upstream: str | None,
    split_input_file: bool,
    verify_diagnostics: bool,
    print_ir_after_all: bool,
    print_locations: bool,
    ptx: bool,
    timing: bool,
    dump_pass_pipeline: bool,
) -> int:
    """Parse FILE (`-` reads standard input), run passes by name in order, and print the module.

    \b
    sexpgpu-opt train.mlir --sx-simplify --sx-autodiff --sx-simplify
    sexpgpu-opt stages/00-traced.mlir --pipeline shared --timing
    sexpgpu-opt stages/09-simplify.mlir --pipeline cuda --ptx
    sexpgpu-opt bad.mlir --sx-verify --split-input-file --verify-diagnostics
    """
    from sexpgpu.driver.entry import read_source
    from sexpgpu.driver.opt import Options, optimize

    options = Options(
        passes,
        pipelines,
        upstream,
        split=split_input_file,
        verify_diagnostics=verify_diagnostics,
        print_after_all=print_ir_after_all,
        locations=print_locations,
        ptx=ptx,
        timing=timing,
        show_pipeline=dump_pass_pipeline,
    )
    text = read_source(file, ".mlir")[1]
    result = optimize(text, str(file), options)
    if result.log:
        click.echo(result.log, err=True)
    if result.output:
        click.echo(result.output)
    return result.code


def main() -> None:
    """Run the tool; an exception that gets here is a fault of ours (70)."""
    sys.exit(guarded(command, "sexpgpu-opt"))
