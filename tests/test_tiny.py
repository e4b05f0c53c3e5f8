"""The shortest truth: every example compiles, and its smallest selection trains a few steps."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FILES = sorted(EXAMPLES.glob("*.sx"))
ELSEWHERE = ("mnist", "mnist-bn", "mnist-conv", "ddpm")  # MNIST is not in the tree; test_examples.py makes it up
TRAINED = [file for file in FILES if file.stem not in ELSEWHERE]
WARNED = {"ddpm": ["W-NAME-001"]}  # it defines an `ema` of its own, to show how


def sexpgpu(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sexpgpu", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def losses(out: Path) -> list[float]:
    events = [json.loads(line) for line in (out / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    return [e["metrics"]["train/loss"] for e in events if e["event"] == "step"]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_an_example_compiles(file: Path) -> None:
    done = sexpgpu("check", str(file))
    assert done.returncode == 0, done.stderr
    assert re.findall(r"[EW]-[A-Z]+-[0-9]{3}", done.stderr) == WARNED.get(file.stem, [])


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_an_example_stays_short(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) < 120


@pytest.mark.parametrize("file", TRAINED, ids=lambda f: f.stem)
def test_an_example_trains(file: Path, tmp_path: Path) -> None:
    done = sexpgpu("run", str(file), "--variant", "smoke", "--steps", "3", "--quiet", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert len(losses(tmp_path)) == 3
    assert all(math.isfinite(loss) for loss in losses(tmp_path))


def test_mnist_trains_on_data_from_elsewhere(shared: Path, tmp_path: Path) -> None:
    chosen = ("--variant", "smoke", "--steps", "3", "--set", f"data={shared / 'data'}")
    done = sexpgpu("run", str(EXAMPLES / "mnist.sx"), *chosen, "--quiet", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert len(losses(tmp_path)) == 3
