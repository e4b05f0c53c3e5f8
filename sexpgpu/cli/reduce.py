"""`sexpgpu reduce`: the smallest file that still fails in the same way."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sexpgpu import knobs
from sexpgpu.cli import report

if TYPE_CHECKING:
    from sexpgpu.driver.reduce import Reduced
    from sexpgpu.lang.selection import Selection


@click.command()
@report.file_argument
@report.selection_options
@report.skip_option
@click.option("--code", metavar="E-...", help="Keep this diagnostic code.")
@click.option("--internal", is_flag=True, help="Keep an internal error of the compiler.")
@click.option("--command", "shell", metavar="CMD", help="Keep that CMD succeeds; {} in it is the file.")
@click.option("--seconds", type=click.FloatRange(min=1), default=120.0, show_default=True, help="Stop after so long.")
@click.option("--each", type=click.FloatRange(min=0.1), default=20.0, show_default=True, help="The bound of one trial.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the file there instead of printing it.")
@click.option("--quiet", is_flag=True, help="No progress.")
@report.json_option
def command(
    file: Path,
    selected: Selection,
    skipped: tuple[str, ...],
    code: str | None,
    internal: bool,
    shell: str | None,
    seconds: float,
    each: float,
    output: Path | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Make FILE as small as it gets while it still fails in the same way.

    \b
    sexpgpu reduce broken.sx --code E-SHAPE-010
    sexpgpu reduce crash.sx --internal -o small.sx
    sexpgpu reduce odd.sx --command 'sexpgpu check {} 2>&1 | grep -q broadcast'

    Drops forms, puts arguments in the place of forms and lowers numbers, in an order that the file alone decides. What
    the file requires stays as it is.
    """
    if (code is not None) + internal + (shell is not None) != 1:
        raise click.UsageError("say what to keep: one of --code, --internal and --command")
    knobs.limit_threads(1)
    from sexpgpu.driver.entry import read_source, write_whole
    from sexpgpu.driver.reduce import reduce_text

    if str(file) == "-":
        raise click.UsageError("reduce takes a file: what it requires is found beside it")
    _, text = read_source(file)
    start = time.monotonic()
    with _tests(file, text, selected, skipped, code, internal, shell, each) as test:
        done = reduce_text(text, test, seconds, _silent if quiet or as_json else _progress)
    took = time.monotonic() - start
    if not (quiet or as_json):
        _conclude(text, done, took)
    if output is not None:
        write_whole(output, done.text)
    if as_json:
        report.print_json(
            {
                "verb": "reduce",
                "file": str(file),
                "ok": True,
                "text": done.text,
                "characters": {"before": len(text), "after": len(done.text)},
                "tried": done.tried,
                "complete": done.complete,
                "seconds": round(took, 1),
            }
        )
    elif output is None:
        click.echo(done.text, nl=not done.text.endswith("\n"))
    return 0


@contextmanager
def _tests(
    file: Path,
    text: str,
    selected: Selection,
    skipped: tuple[str, ...],
    code: str | None,
    internal: bool,
    shell: str | None,
    each: float,
) -> Iterator[Callable[[str], bool]]:
    """The test that a smaller file must pass; a coded error where the file itself does not."""
    from sexpgpu.driver.keeping import command_succeeds, keeping_code, keeping_fault
    from sexpgpu.driver.outcome import trials
    from sexpgpu.driver.pipeline import skipping

    if shell is not None:
        with command_succeeds(file, text, shell, each) as test:
            yield test
        return
    with trials(file, selected, skipping(skipped), each) as compiler:
        yield keeping_fault(compiler, text) if internal else keeping_code(compiler, text, code or "")


def _silent(tried: int, best: str) -> None:
    pass


def _progress(tried: int, best: str) -> None:
    """One line that is written over on a terminal; elsewhere a line every hundred trials."""
    told = f"{tried} tried, {len(best)} characters in {best.count(chr(10))} lines"
    if sys.stderr.isatty():
        click.echo(f"\r{told}\x1b[K", err=True, nl=False)
    elif tried % 100 == 0:
        click.echo(told, err=True)


def _conclude(text: str, done: Reduced, took: float) -> None:
    start = "\r\x1b[K" if sys.stderr.isatty() else ""
    state = "nothing smaller was found" if done.complete else "the time is up: there may be a smaller one"
    click.echo(
        f"{start}{len(text)} -> {len(done.text)} characters, {done.tried} tried in {took:.1f} s; {state}", err=True
    )
