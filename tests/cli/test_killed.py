"""A run of the real command killed at ten moments and resumed each time is the run that was never killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.trace.experiments import write

MOMENTS = (3, 9, 10, 17, 24, 30, 37, 44, 51, 60)
"""Events after which the process is killed; they count what the run has written so far."""


def command(file: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "sexpgpu", "run", str(file), "--out", str(out), "--quiet", *more]


def events(out: Path) -> list[dict[str, Any]]:
    path = out / "events.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def kill_at(process: subprocess.Popen[bytes], out: Path, count: int) -> bool:
    """Kill the process once there are `count` events; False when it ended before."""
    while process.poll() is None:
        if len(events(out)) >= count:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return True
        time.sleep(0.001)
    return False


def final_tensors(out: Path) -> dict[str, np.ndarray[Any, Any]]:
    newest = max(p.parent for p in (out / "checkpoints").glob("step-*/checkpoint.json"))
    return {k: v for blob in sorted(newest.glob("*.safetensors")) for k, v in load_file(blob).items()}


@pytest.mark.slow
def test_ten_kills_change_nothing(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        loader="(defloader train-loader (:batch 4 :order :shuffle) (x xs) (y ys))",
        optimizer="(def optimizer (adamw :lr (cosine-schedule 0.1 :warmup 5)))",
        run="(defrun :steps 60 :seed 1 :microbatches 2 :clip-norm 1.0 :checkpoint '(:every 3 :keep 2))",
    )
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(file, whole), check=True)
    kills = 0
    for count in MOMENTS:
        process = subprocess.Popen(command(file, killed, "--resume", "latest"), stderr=subprocess.DEVNULL)
        kills += kill_at(process, killed, count)
    last = subprocess.run(command(file, killed, "--resume", "latest"), check=False, capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    assert kills >= 5  # the machine may be quick, but not that quick

    wanted, got = final_tensors(whole), final_tensors(killed)
    assert wanted.keys() == got.keys()
    for name, tensor in wanted.items():
        assert tensor.tobytes() == got[name].tobytes(), name
    for kind in ("step", "eval"):
        history = [(e["step"], e["metrics"]) for e in events(killed) if e["event"] == kind]
        reference = [(e["step"], e["metrics"]) for e in events(whole) if e["event"] == kind]
        assert _without_times(history) == _without_times(reference)


def _without_times(history: list[tuple[int, dict[str, float]]]) -> list[tuple[int, dict[str, float]]]:
    return [(step, {k: v for k, v in m.items() if not k.startswith("runtime/")}) for step, m in history]
