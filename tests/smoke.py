"""The examples at smoke size: their data, MNIST's made up, and the losses of a few steps of training."""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from sexpgpu.dialects.context import open_context
from sexpgpu.driver.compile import compile_in
from sexpgpu.driver.engine import CpuEngine
from sexpgpu.driver.pipeline import EVERY, Passes
from sexpgpu.driver.planning import prepare
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.runtime.run import RunOptions, RunResult, run

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.sx"))
NOT_EVALUATED = {"ddpm", "mnist-bn", "mnist", "mnist-conv", "gpt2"}
"""Their evaluations read thousands of records: the tests of evaluation have smaller ones."""


def link_data(folder: Path) -> None:
    """Put the data that the examples name into `folder`, MNIST's made up."""
    (folder / "data").mkdir()
    for file in (ROOT / "examples" / "data").iterdir():
        if file.is_file():
            (folder / "data" / file.name).symlink_to(file)
    (folder / "lib").symlink_to(ROOT / "examples" / "lib")
    (folder / "data" / "mnist").mkdir()
    for part, count in (("train", 60000), ("t10k", 10000)):
        digits = np.arange(count) % 10
        write_idx(folder / f"data/mnist/{part}-labels-idx1-ubyte.gz", digits.astype(np.uint8))
        images = np.zeros((count, 28, 28), np.uint8)
        images[np.arange(count), 2 * digits + 4] = 200  # a line whose height is the digit
        write_idx(folder / f"data/mnist/{part}-images-idx3-ubyte.gz", images)


def write_idx(path: Path, array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes(), 1))


def smoke_text(file: Path) -> str:
    """An example without an evaluation that would take long."""
    text = file.read_text("utf-8")
    if file.stem in NOT_EVALUATED:
        text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("(defeval"))
    return text


def lasting(text: str, steps: int) -> str:
    """The text with so many steps in its variant `smoke`, by which its schedules go; epochs stay, and last longer."""
    return text.replace("(steps 3)", f"(steps {steps})")


def with_run(text: str, **arguments: str) -> str:
    """The text with other arguments of its `defrun`: `with_run(text, precision=":f64")`."""
    start = text.index("(defrun")
    run_form = text[start:]
    for name, value in arguments.items():
        key = ":" + name.replace("_", "-")
        run_form = re.sub(rf"\s{key}\s+:?[\w-]+", "", run_form)
        run_form = run_form.replace("(defrun", f"(defrun {key} {value}", 1)
    return text[:start] + run_form


def train(text: str, file: Path, steps: int, passes: Passes = EVERY) -> tuple[RunResult, list[dict[str, object]]]:
    """Train `text`, written to `file` beside the data, in the variant `smoke`: the result and the events."""
    file.write_text(text, "utf-8")
    out = file.with_name(f"run-{file.stem}")
    with open_context() as context:
        done = run_deep(lambda: compile_in(context, file, Selection("smoke"), pipeline=None, passes=passes))
        prepare(done)
        assert not done.diagnostics.errors, done.diagnostics.errors
        options = RunOptions(out=out, steps=steps, quiet=True, stream=io.StringIO())
        result = run(CpuEngine(done), options)
    lines = (out / "events.jsonl").read_text("utf-8").splitlines()
    return result, [json.loads(line) for line in lines]


def losses_of(events: Iterable[dict[str, object]]) -> list[float]:
    """The training losses that the events tell of, in order."""
    metrics = [event["metrics"] for event in events if event["event"] == "step"]
    return [each["train/loss"] for each in metrics if isinstance(each, dict)]
