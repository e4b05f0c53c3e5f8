"""`sexpgpu diff`: what two experiments, or two of their stages, differ in."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve

from sexpgpu import knobs
from sexpgpu.cli import report

if TYPE_CHECKING:
    from sexpgpu.driver.diff import Facts
    from sexpgpu.driver.diff_stages import GraphText
    from sexpgpu.driver.pipeline import Passes
    from sexpgpu.lang.selection import Selection

Told = list[dict[str, Any]]
"""Diagnostics as `--json` has them."""


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="A [B]", type=click.Path(path_type=Path))
@report.selection_options
@report.skip_option
@click.option(
    "--stage",
    "stages",
    multiple=True,
    metavar="STAGE",
    help="Compare the modules of A and B at a stage; given twice, two stages of A.",
)
@report.device_option("The device whose stages these are; SEXPGPU_DEVICE otherwise.")
@report.target_option
@click.option("--exit-code", is_flag=True, help="Exit with 1 where there is a difference.")
@report.json_option
def command(
    files: tuple[Path, ...],
    selected: Selection,
    skipped: tuple[str, ...],
    stages: tuple[str, ...],
    device: str | None,
    target: str | None,
    exit_code: bool,
    as_json: bool,
) -> int:
    """Compare the experiments A and B and print only what differs. The selection flags and --skip are for B.

    \b
    sexpgpu diff mine.sx theirs.sx
    sexpgpu diff examples/moons.sx examples/moons.sx --set lr=0.25
    sexpgpu diff examples/moons.sx --stage traced --stage 03-simplify
    sexpgpu diff examples/moons.sx examples/moons.sx --variant smoke --stage to-gpu --device cuda

    With two stages, compare the module of the one file A as they leave it; with one, the modules of A and B at that
    stage, and with --device cuda or sim their kernels.

    Exit code 0 whether there is a difference or not (with --exit-code 1 where there is), 1 where a file has an error.
    """
    if len(files) > 2 or (not stages and len(files) != 2):
        raise click.UsageError("diff takes two files; name one twice to compare it with another selection of itself")
    if stages and len(files) + len(stages) != 3:
        raise click.UsageError(
            "--stage compares two stages of one file, or one stage of two: give it "
            f"{_times(3 - len(files))} with {_counted(len(files))}, not {_times(len(stages))}"
        )
    if len(stages) == 2 and skipped:
        raise click.UsageError("a skipped pass leaves no stage: give --skip or --stage")
    if not stages and (device is not None or target is not None):
        raise click.UsageError("--device and --target say whose stages are compared: give --stage")
    report.require_gpu(target, knobs.DEVICE.get(device))
    from sexpgpu.lang.limits import run_deep

    if stages:
        return run_deep(lambda: _stages(files, selected, skipped, stages, device, target, exit_code, as_json))
    return run_deep(lambda: _experiments(files[0], files[1], selected, skipped, exit_code, as_json))


def _times(count: int) -> str:
    return ("never", "once", "twice")[count] if count < 3 else f"{count} times"


def _counted(files: int) -> str:
    return "one file" if files == 1 else f"{files} files"


def _experiments(
    a: Path, b: Path, selected: Selection, skipped: tuple[str, ...], exit_code: bool, as_json: bool
) -> int:
    from sexpgpu.driver.diff import difference
    from sexpgpu.driver.diff_text import text_of
    from sexpgpu.driver.pipeline import EVERY, Passes, skipping
    from sexpgpu.lang.selection import Selection

    passes = Passes(skipping(skipped))
    of_a, told_a, code_a = _compiled(a, Selection(), EVERY, None if as_json else [])
    of_b, told_b, code_b = _compiled(b, selected, passes, None if as_json else told_a)
    without = "".join(f" --skip {name}" for name in skipped)
    sides = {"a": _words(a, Selection()), "b": _words(b, selected) + without}
    told = {"diagnostics": {"a": told_a, "b": told_b}}
    if of_a is None or of_b is None:
        if as_json:
            report.print_json({"verb": "diff", "ok": False, **sides, **told})
        return max(code_a, code_b)
    found = difference(of_a, of_b)
    if as_json:
        sections = {
            section: [{"key": row.key, "a": row.a, "b": row.b} for row in rows] for section, rows in found.items()
        }
        report.print_json({"verb": "diff", "ok": True, **sides, "identical": not found, "sections": sections, **told})
    else:
        click.echo(text_of(sides["a"], sides["b"], found))
    return int(exit_code and bool(found))


def _compiled(file: Path, selected: Selection, passes: Passes, known: Told | None) -> tuple[Facts | None, Told, int]:
    """The facts of a file, None where it has errors; its diagnostics; the exit code that they ask for.

    Errors are printed unless they are `known`, as those of a file compared with itself; none at all where that is None.
    """
    from sexpgpu.driver.compile import compiling
    from sexpgpu.driver.diff import facts

    with compiling(file, selected, passes=passes) as done:
        told = report.diagnostics_json(done.diagnostics, done.session.sources)
        if done.ok:
            return facts(done), told, 0
        if known is not None and told != known:
            report.print_diagnostics(done.diagnostics, done.session.sources)
        return None, told, report.failure_code(done.diagnostics)


def _stages(
    files: tuple[Path, ...],
    selected: Selection,
    skipped: tuple[str, ...],
    stages: tuple[str, ...],
    device: str | None,
    target: str | None,
    exit_code: bool,
    as_json: bool,
) -> int:
    from sexpgpu.driver.diff_stages import changes, text_of
    from sexpgpu.driver.pipeline import Passes, skipping, stage_number, whole_for
    from sexpgpu.lang.selection import Selection

    pipeline = whole_for(device, target)
    numbers = [stage_number(stage, pipeline) for stage in stages]
    until = Passes(skipping(skipped, device), until=max(numbers))
    on = "".join(f" --{flag} {value}" for flag, value in (("device", device), ("target", target)) if value is not None)
    if len(files) == 1:
        a, b = (f"{_words(files[0], selected)} --stage {shlex.quote(stage)}{on}" for stage in stages)
        found_a, told, code = _reached(files[0], selected, pipeline, until, numbers, None if as_json else [])
        found_b = found_a
        diagnostics: Any = told
    else:
        stage = f" --stage {shlex.quote(stages[0])}{on}"
        a = _words(files[0], Selection()) + stage
        b = _words(files[1], selected) + stage + "".join(f" --skip {name}" for name in skipped)
        whole = Passes(until=max(numbers))
        found_a, told_a, code_a = _reached(files[0], Selection(), pipeline, whole, numbers, None if as_json else [])
        found_b, told_b, code_b = _reached(files[1], selected, pipeline, until, numbers, None if as_json else told_a)
        code, diagnostics = max(code_a, code_b), {"a": told_a, "b": told_b}
    if found_a is None or found_b is None:
        if as_json:
            report.print_json({"verb": "diff", "ok": False, "a": a, "b": b, "diagnostics": diagnostics})
        return code
    found = changes(found_a[numbers[0]], found_b[numbers[-1]])
    if as_json:
        graphs = [{"graph": c.graph, "before": c.before, "after": c.after, "lines": c.lines} for c in found]
        document = {"a": a, "b": b, "identical": not found, "graphs": graphs, "diagnostics": diagnostics}
        report.print_json({"verb": "diff", "ok": True, **document})
    else:
        click.echo(text_of(a, b, found))
    return int(exit_code and bool(found))


def _reached(
    file: Path, selected: Selection, pipeline: str, passes: Passes, numbers: list[int], known: Told | None
) -> tuple[dict[int, dict[str, GraphText]] | None, Told, int]:
    """The texts of a file's module at each stage, None where it has errors; the rest as `_compiled` gives it."""
    from sexpgpu.driver.compile import compiling
    from sexpgpu.driver.diff_stages import texts

    found: dict[int, dict[str, GraphText]] = {}

    def observe(number: int, name: str, module: Any, timing: Any) -> None:
        if number in numbers:
            found[number] = texts(module)

    with compiling(file, selected, pipeline=pipeline, passes=evolve(passes, observer=observe)) as done:
        told = report.diagnostics_json(done.diagnostics, done.session.sources)
        if not done.diagnostics.errors:
            return found, told, 0
        if known is not None and told != known:
            report.print_diagnostics(done.diagnostics, done.session.sources)
        return None, told, report.failure_code(done.diagnostics)


def _words(file: Path, selected: Selection) -> str:
    """A side as the words of the command line that select it: `my-run.sx --set lr=0.25`."""
    words = [str(file)]
    for flag, value in (("--variant", selected.variant), ("--sweep", selected.sweep), ("--point", selected.point)):
        words += [flag, str(value)] if value is not None else []
    words += [word for text in selected.sets for word in ("--set", text)]
    return shlex.join(words)
