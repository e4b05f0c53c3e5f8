"""What a run was said to hold on a device against what it held, and runs that are refused before they begin."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.test_engine import sexpgpu
from tests.trace.experiments import write

WIDE = "(defmodel net () (defsub in (linear 3 300)) (defsub out (linear 300 2)) (forward (x) (out (tanh (in x)))))"
ADAM = "(def optimizer (adam :lr 0.01))"


def memory(out: Path) -> list[dict[str, Any]]:
    """The annotations of a run about memory."""
    lines = [json.loads(line) for line in (out / "events.jsonl").read_text("utf-8").splitlines()]
    return [line["data"] for line in lines if line.get("name") == "memory"]


@pytest.mark.parametrize(
    ("optimizer", "run"),
    [
        ("(def optimizer (sgd :lr 0.1))", "(defrun :steps 2 :seed 1)"),
        (ADAM, "(defrun :steps 2 :clip-norm 0.01 :seed 1)"),
        (ADAM, "(defrun :steps 2 :microbatches 4 :seed 1)"),
        ("(def optimizer (ema 0.9 (adam :lr 0.01)))", "(defrun :steps 2 :microbatches 4 :deterministic t :seed 1)"),
        (ADAM, "(defrun :steps 2 :precision :bf16 :seed 1)"),
        ("(def optimizer (ema 0.9 (adam :lr 0.01)))", "(defrun :steps 3 :microbatches 2 :precision :bf16 :seed 1)"),
    ],
)
def test_a_run_holds_what_was_planned(optimizer: str, run: str, tmp_path: Path) -> None:
    file = write(tmp_path, model=WIDE, optimizer=optimizer, run=run)
    done = sexpgpu("run", file, "--device", "sim", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    first, last = memory(tmp_path / "out")
    assert first["planned"] == last["planned"] == sum(first["parts"].values())
    assert 0.85 * last["planned"] <= last["peak"] <= last["planned"]
    assert re.search(r"^  memory {20}[\d.]+ KiB of 64.0 GiB free$", done.stderr, re.MULTILINE)
    reached = r"memory: peak [\d.]+ KiB of [\d.]+ KiB planned \([+-]\d+\.\d%\)"
    captured = r"captured launches [\d.]+ K?i?B of 256.0 MiB reserved"
    assert re.search(f"^{reached}; {captured}$", done.stderr, re.MULTILINE)
    assert first["peak"]["phase"] in {"microbatches", "updates"}


def test_a_run_says_what_was_lowered(tmp_path: Path) -> None:
    """Before its first step, and in an event: the same whether the plans are made or kept from before."""
    file, cache = write(tmp_path, model=WIDE), str(tmp_path / "cache")
    said, events = [], []
    for name in ("made", "kept"):
        out = tmp_path / name
        done = sexpgpu("run", file, "--device", "sim", "--out", out, SEXPGPU_CACHE=cache)
        assert done.returncode == 0, done.stderr
        said.append("lowering: " + done.stderr.partition("lowering: ")[2].partition("\n  memory  ")[0])
        lines = map(json.loads, (out / "events.jsonl").read_text("utf-8").splitlines())
        events.append([e["data"]["text"] for e in lines if e.get("name") == "lowering"])
    assert said[0] == said[1] == events[0][0] == events[1][0]
    assert said[0].startswith("lowering: sim sm_80, PTX interpreter, patterns on\n  train  ")
    told = sexpgpu("explain", file, "--device", "cuda", "--target", "sm_80").stdout.partition("lowering: ")[2]
    below, _, stacking = told.partition("\n  stacking  ")
    assert below.splitlines()[1:] == said[0].splitlines()[1:]
    assert stacking.splitlines()[0].strip() == "1: a step has one microbatch"
    done = sexpgpu("run", file, "--device", "sim", "--out", tmp_path / "plain", "--skip", "raise")
    assert "PTX interpreter, patterns off\n" in done.stderr


def test_a_run_that_does_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    file = write(tmp_path, model=WIDE)
    done = sexpgpu("run", file, "--device", "sim", "--out", tmp_path / "out", SEXPGPU_MEMORY="66KiB")
    assert done.returncode == 1
    assert "error[E-MEM-001]" in done.stderr
    assert "66.0 KiB at most, by SEXPGPU_MEMORY" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_plan_is_enough(tmp_path: Path) -> None:
    """With no byte more than was planned the run is the same: blocks that wait go back when others are asked for."""
    file = write(tmp_path, model=WIDE, optimizer=ADAM, run="(defrun :steps 3 :microbatches 2 :seed 1)")
    whole = sexpgpu("run", file, "--device", "sim", "--out", tmp_path / "whole", "--json")
    (first, _) = memory(tmp_path / "whole")
    limited = str(first["planned"])
    narrow = sexpgpu("run", file, "--device", "sim", "--out", tmp_path / "narrow", "--json", SEXPGPU_MEMORY=limited)
    assert narrow.returncode == 0, narrow.stdout + narrow.stderr
    assert json.loads(narrow.stdout)["metrics"] == json.loads(whole.stdout)["metrics"]
