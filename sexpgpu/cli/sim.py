"""`sexpgpu-sim`: one kernel of a PTX file on the simulated GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sexpgpu.cli import exit_code, guarded
from sexpgpu.cli.report import json_option, print_diagnostic, print_json
from sexpgpu.diag import SxError

if TYPE_CHECKING:
    from sexpgpu.sim import Report
    from sexpgpu.sim.arguments import Outcome

Dims = tuple[int, int, int]


def _dims(context: click.Context, parameter: click.Parameter, text: str) -> Dims:
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(p.isascii() and p.isdigit() for p in parts):
        raise click.BadParameter(f"{text!r} is not X, X,Y or X,Y,Z")
    x, y, z = [*map(int, parts), 1, 1][:3]
    return x, y, z


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--entry", metavar="NAME", help="The kernel; a file with one needs no name.")
@click.option("--grid", default="1", metavar="X[,Y[,Z]]", callback=_dims, help="Blocks.  [default: 1]")
@click.option("--block", default="32", metavar="X[,Y[,Z]]", callback=_dims, help="Threads of a block.  [default: 32]")
@click.option("--arg", "arguments", multiple=True, metavar="SPEC", help="A parameter, in order; see below.")
@click.option("--shared", type=click.IntRange(min=0), default=0, metavar="BYTES", help="Dynamic shared memory.")
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="The seed of random arguments.")
@click.option("--race", type=click.IntRange(min=0), metavar="N", help="Run the warps in a random order, of this seed.")
@click.option(
    "--visits",
    type=click.IntRange(min=1),
    default=500_000,
    show_default=True,
    metavar="N",
    help="A kernel that comes to more straight pieces of code does not end.",
)
@click.option("--quick", is_flag=True, help="Look only for what is out of bounds or misaligned, and at barriers.")
@json_option
def command(
    file: Path,
    entry: str | None,
    grid: Dims,
    block: Dims,
    arguments: tuple[str, ...],
    shared: int,
    seed: int,
    race: int | None,
    visits: int,
    quick: bool,
    as_json: bool,
) -> int:
    """Run a kernel of the PTX text in FILE (`-` reads standard input) and report what it did.

    Everything that it does wrong is an error: memory out of bounds, misaligned or never written, races, barriers that
    not every thread reaches. What it wrote is printed as a digest and its first values, then instructions, traffic and
    bank conflicts.

    \b
    sexpgpu-sim softmax.ptx --grid 4 --block 128 --arg f32:4096:random --arg f32:4096:empty
    sexpgpu-sim kernels.ptx --entry scale --arg f32:1024:range --arg f32:0.5 --arg i32:1024 --race 3

    \b
    A SPEC is TYPE:VALUE, a number, or TYPE:COUNT:FILL, an array in device memory.
    TYPE: f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64
    FILL: zeros ones range random, or empty for memory that nobody wrote
    """
    from sexpgpu.driver.entry import read_source

    text, _ = read_source(file, ".ptx")
    name = str(file)
    try:
        report, outcomes = _run(text, name, entry, grid, block, arguments, shared, seed, race, visits, quick)
    except SxError as fault:
        print_diagnostic(fault.diagnostic, {name: text})
        return exit_code(fault.diagnostic.code)
    if as_json:
        import attrs

        from sexpgpu.sim import to_json

        print_json({"report": to_json(report), "arrays": [attrs.asdict(x) for x in outcomes]})
        return 0
    from sexpgpu.sim import to_text

    for outcome in outcomes:
        click.echo(_line(outcome))
    click.echo(to_text(report))
    return 0


def _run(
    text: str,
    name: str,
    entry: str | None,
    grid: Dims,
    block: Dims,
    arguments: tuple[str, ...],
    shared: int,
    seed: int,
    race: int | None,
    visits: int,
    quick: bool,
) -> tuple[Report, tuple[Outcome, ...]]:
    from sexpgpu.sim import Checks, Machine
    from sexpgpu.sim.arguments import read_argument, run

    given = [read_argument(argument, seed + number) for number, argument in enumerate(arguments)]
    machine = Machine(Checks(race=race, most_visits=visits) if quick else Checks.every(race, visits))
    module = machine.load(text, name)
    if entry is None:
        if len(module.entries) != 1:
            raise click.UsageError(f"{name} has the kernels {', '.join(module.entries) or 'none'}; name one by --entry")
        entry = module.entries[0]
    return run(machine, module.kernel(entry), grid, block, given, shared)


def _line(outcome: Outcome) -> str:
    first = " ".join(f"{x:.6g}" if isinstance(x, float) else str(x) for x in outcome.first)
    more = " …" if outcome.count > len(outcome.first) else ""
    return f"{outcome.text}  {'written' if outcome.changed else 'as before'}  {outcome.digest}  {first}{more}"


def main() -> None:
    """Run the tool; an exception that gets here is a fault of ours (70)."""
    sys.exit(guarded(command, "sexpgpu-sim"))
