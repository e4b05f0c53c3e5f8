"""`sexpgpu generate`: run a generator of a checkpoint."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sexpgpu import knobs
from sexpgpu.cli import exit_code, report
from sexpgpu.diag import SxError

if TYPE_CHECKING:
    from sexpgpu.runtime.samples import Sample


class _Finite(click.FloatRange):
    """A finite number of a range: NaN is within every range for click, and so is infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            above = ">" if self.min_open else ">="
            self.fail(f"{value} is not a finite number x{above}{self.min}.", param, ctx)
        return number


@click.command()
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.argument("name", required=False)
@report.device_option("SEXPGPU_DEVICE otherwise.")
@click.option("--prompt", metavar="TEXT", help="What a text is to go on from.")
@click.option("--temperature", type=_Finite(min=0.0), default=1.0, help="0 takes the likeliest; 1 by default.")
@click.option("--top-k", type=click.IntRange(min=1), help="Draw from the K likeliest alone.")
@click.option("--top-p", type=_Finite(min=0.0, min_open=True, max=1.0), help="Draw from the likeliest, P in all.")
@click.option("--seed", type=click.IntRange(min=0), help="Another draw; the run's seed otherwise.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Where images and arrays go; here by default."
)
@click.option("--force", is_flag=True, help="Write over files that are there.")
@report.json_option
def command(
    run: Path,
    name: str | None,
    device: str | None,
    prompt: str | None,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    seed: int | None,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Run generator NAME of RUN (the only one by default). RUN is a run's directory, or one checkpoint of it.

    \b
    sexpgpu generate runs/shakespeare-1 --prompt "ROMEO:" --temperature 0.8 --top-k 20
    sexpgpu generate runs/ddpm-1/checkpoints/step-00020000 samples --seed 7 --out pictures

    Texts go to standard output; images are PNG files, arrays npy files, whose names are printed; where one is
    there already nothing is sampled or written, unless --force is given. Flags that the generator does not read
    change nothing. Exit code 1 where the run, the prompt or the name is at fault, 3 where the device cannot be had.
    """
    knobs.limit_threads()
    from sexpgpu.driver.generate import Request, generate
    from sexpgpu.lang.limits import run_deep

    folder = out or Path()
    request = Request(run, name, prompt, temperature, top_k, top_p, seed, folder, force, device)
    progress = _Progress(sys.stderr.isatty() and not as_json)
    try:
        answer = run_deep(lambda: generate(request, progress.told, lambda late: report.print_diagnostic(late, {})))
        files = _written(answer.samples, folder)
    except SxError as fault:
        progress.end()
        sources: dict[str, str] = {}
        if as_json:
            report.print_json({"verb": "generate", "run": str(run), "ok": False, **_diagnostic(fault, sources)})
        else:
            report.print_diagnostic(fault.diagnostic, sources)
        return exit_code(fault.diagnostic.code)
    progress.end()
    if as_json:
        rows = [
            {"name": s.name, "form": s.form, "texts": list(s.texts), "file": file}
            for s, file in zip(answer.samples, files, strict=True)
        ]
        report.print_json(
            {"verb": "generate", "run": str(run), "ok": True, "generator": answer.generator, "step": answer.step,
             "checkpoint": str(answer.checkpoint), "samples": rows, "diagnostics": []}
        )  # fmt: skip
        return 0
    for sample, file in zip(answer.samples, files, strict=True):
        for text in sample.texts:
            click.echo((prompt or "") + text if not text.startswith(prompt or "") else text)
        if file is not None:
            click.echo(file)
    return 0


def _diagnostic(fault: SxError, sources: dict[str, str]) -> dict[str, Any]:
    from sexpgpu.diag import to_json

    return {"diagnostics": [to_json(fault.diagnostic, sources)]}


def _written(samples: list[Sample], folder: Path) -> list[str | None]:
    """The file of each sample; E-IO-001 where one cannot be written."""
    from sexpgpu.diag import error
    from sexpgpu.runtime.samples import write_sample

    try:
        return [None if (path := write_sample(sample, folder)) is None else str(path) for sample in samples]
    except OSError as fault:
        raise error("E-IO-001", f"{folder} cannot be written", actual=fault.strerror or str(fault)) from None


class _Progress:
    """A line that counts trips, on a terminal alone."""

    def __init__(self, shown: bool) -> None:
        self.shown = shown

    def told(self, trip: int, trips: int) -> None:
        if self.shown:
            click.echo(f"\rtrip {trip}/{trips}", nl=False, err=True)

    def end(self) -> None:
        if self.shown:
            click.echo("\r\x1b[K", nl=False, err=True)
