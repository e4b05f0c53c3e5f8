"""One run on a machine with a GPU: is every kernel right, does training go as on the CPU, and how fast is it?

Beside our times stand those of PyTorch on the same machine, in the same run: steps against `torch.compile`, products
against cuBLAS, attention against SDPA. Each part is a process with a limit of its own, and what it found before a fault
or its limit stays. The record is a JSON file.

    python -m bench.gpu.run                                    a GPU; PyTorch in the same environment
    python -m bench.gpu.run --torch other/bin/python           PyTorch in another one
    python -m bench.gpu.run --device sim --sizes toy           no GPU: everything once, small, with nothing to compare
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from bench.gpu.cases import PARTS
from bench.gpu.rows import Row, read, record_of, table

ROOT = Path(__file__).resolve().parents[2]
TOTAL = 590.0
"""Seconds after which no part goes on."""
LEAST = 5.0
"""Seconds below which a part is not begun."""


def run_part(name: str, sizes: str, limit: float, options: list[str]) -> Iterator[Row]:
    """The rows of a part; a fault of a case is a row too, and so are the cases for which no time is left."""
    began = time.perf_counter()
    for number, case in enumerate(PARTS[name].cases(sizes)):
        left = limit - (time.perf_counter() - began)
        shown = getattr(case, "name", "all")
        if left < LEAST:
            yield Row(name, shown, ok=False, note="not begun: no time was left")
            continue
        with tempfile.TemporaryDirectory() as folder:
            yield from _run_case(name, number, shown, left, options, Path(folder))
    yield Row(name, "took", time.perf_counter() - began, unit="s")


def _run_case(name: str, number: int, shown: str, limit: float, options: list[str], folder: Path) -> Iterator[Row]:
    out, errors = folder / "rows.jsonl", folder / "errors"
    command = [sys.executable, "-m", "bench.gpu.part", name, str(number), "--out", str(out), *options]
    command += ["--seconds", str(limit)]
    note = ""
    with errors.open("w", encoding="utf-8") as stream:
        child = subprocess.Popen(command, cwd=ROOT, stdout=stream, stderr=stream, start_new_session=True)
        try:
            if code := child.wait(limit):
                note = f"exit code {code}: {_last(errors)}"
        except subprocess.TimeoutExpired:
            note = f"stopped after {limit:.0f} s, which were left"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(
                    child.pid, signal.SIGKILL
                )  # its own session: what it started may be left, compilers of PyTorch
            child.wait()
    yield from read(out)
    if note:
        yield Row(name, shown, ok=False, note=note)


def _last(errors: Path) -> str:
    lines = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def machine(device: str) -> dict[str, Any]:
    """What the figures were measured on."""
    found = {
        "system": platform.platform(),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "device": device,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True, capture_output=True)
    if commit.returncode == 0:
        found["commit"] = commit.stdout.strip()
    return found


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(PARTS)))
@click.option("--device", type=click.Choice(["cuda", "sim"]), default="cuda")
@click.option("--sizes", type=click.Choice(["full", "toy"]), default="full")
@click.option("--torch", default=sys.executable, help="A Python that has PyTorch.")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="The record; otherwise beside this file.")
def main(names: tuple[str, ...], device: str, sizes: str, torch: str, out: Path | None) -> None:
    """Run the parts NAMES (default: all), print a table, write the record. Exit code 1 where a check failed."""
    deadline = time.perf_counter() + TOTAL
    options = ["--device", device, "--sizes", sizes, "--torch", torch]
    rows: list[Row] = []
    for name in names or tuple(PARTS):
        left = deadline - time.perf_counter()
        found = list(run_part(name, sizes, min(PARTS[name].seconds, left), options))
        print(table(found) + "\n", flush=True)
        rows += found
    failed = [row for row in rows if row.ok is False]
    record = {"machine": machine(device), "sizes": sizes, "rows": record_of(rows)}
    target = out or Path(__file__).resolve().parent / "out" / f"{device}-{sizes}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{len(rows)} rows, {len(failed)} failed; {target}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
