"""Every example trains at smoke size, ends with a finite loss, and stays within its length."""

from __future__ import annotations

import gzip
import io
import json
import math
import struct
from pathlib import Path

import numpy as np
import pytest

from sexpgpu.dialects.context import open_context
from sexpgpu.driver.compile import compile_in
from sexpgpu.driver.engine import CpuEngine
from sexpgpu.driver.planning import prepare
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.runtime.run import RunOptions, RunResult, run

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.sx"))
LONGEST = 120
STEPS = {"ddpm": 1, "gpt2": 1}
"""Fewer steps than three where one takes long."""
NOT_EVALUATED = {"ddpm", "mnist-bn", "mnist", "mnist-conv", "gpt2"}
"""Their evaluations read thousands of records: the tests of evaluation have smaller ones."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples beside the data they name, MNIST's made up."""
    folder = tmp_path_factory.mktemp("examples")
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
    return folder


def write_idx(path: Path, array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes(), 1))


def trained(file: Path, out: Path) -> tuple[RunResult, str]:
    """Its result and its events, in the variant `smoke`."""
    text = file.read_text("utf-8")
    if file.stem in NOT_EVALUATED:
        text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("(defeval"))
    copy = out.parent / file.name
    copy.write_text(text, "utf-8")
    with open_context() as context:
        done = run_deep(lambda: compile_in(context, copy, Selection("smoke"), pipeline=None))
        prepare(done)
        assert not done.diagnostics.errors, done.diagnostics.errors
        options = RunOptions(out=out, steps=STEPS.get(file.stem, 3), quiet=True, stream=io.StringIO())
        result = run(CpuEngine(done), options)
    return result, (out / "events.jsonl").read_text("utf-8")


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_an_example_trains_at_smoke_size(file: Path, folder: Path) -> None:
    result, events = trained(file, folder / f"run-{file.stem}")
    assert result.error is None, result.error
    losses = [
        event["metrics"]["train/loss"] for line in events.splitlines() if (event := json.loads(line))["event"] == "step"
    ]
    assert result.step == STEPS.get(file.stem, 3)
    assert losses
    assert all(isinstance(loss, float) and math.isfinite(loss) for loss in losses)


@pytest.mark.parametrize("file", [*EXAMPLES, *(ROOT / "examples" / "lib").glob("*.sx")], ids=lambda f: f.stem)
def test_an_example_is_short(file: Path) -> None:
    lines = file.read_text("utf-8").splitlines()
    assert len(lines) < LONGEST
    assert "(defvariant smoke" in "\n".join(lines) or file.parent.name == "lib"
