"""Narrow parameters: a run that keeps them is, bit for bit, the run whose graphs cast for themselves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.gpu.test_device_memory import WIDE, memory
from tests.gpu.test_engine import evaluated, sexpgpu, steps, tensors, trained
from tests.gpu.test_generators import FILE, samples
from tests.trace.experiments import write

RUN = "(defrun :steps 4 :microbatches 2 :precision :bf16 :clip-norm 0.5 :seed 1)"


def same_bits(file: Path, **environment: str) -> None:
    """The run with and without narrow parameters."""
    _, kept = trained(file, "sim", **environment)
    other = file.parent / "casting"
    flags = ("--skip", "parameter-results", "--quiet")
    done = sexpgpu("run", file, "--device", "sim", "--out", other, *flags, **environment)
    assert done.returncode == 0, done.stderr
    assert steps(kept) == steps(other)
    assert evaluated(kept) == evaluated(other)
    wanted, found = tensors(other), tensors(kept)
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(found[key], array) for key, array in wanted.items())


OPTIMIZERS = '(def optimizer (optimizer-groups (ema 0.5 (adam :lr 0.05)) (group "*.bias" (sgd :lr 0.2))))'


def test_several_microbatches_a_view_and_batches_of_another_size(tmp_path: Path) -> None:
    same_bits(write(tmp_path, run=RUN, optimizer=OPTIMIZERS))


def test_the_trained_parameters_are_evaluated(tmp_path: Path) -> None:
    same_bits(write(tmp_path, run=RUN, optimizer="(def optimizer (adam :lr 0.05))"))


def test_a_resumed_run_is_the_run_that_never_stopped(tmp_path: Path) -> None:
    file = write(tmp_path, run=RUN, optimizer=OPTIMIZERS)
    _, whole = trained(file, "sim")
    for flags in (("--steps", 2), ("--resume", "latest")):
        done = sexpgpu("run", file, "--device", "sim", "--out", tmp_path / "two", "--quiet", *flags)
        assert done.returncode == 0, done.stderr
    resumed = tensors(tmp_path / "two")
    assert all(np.array_equal(resumed[key], array) for key, array in tensors(whole).items())


def test_a_refused_step_leaves_the_narrow_parameters(tmp_path: Path) -> None:
    file = write(tmp_path, run=RUN, optimizer=OPTIMIZERS)
    records = np.load(tmp_path / "x.npy")
    records[5] = np.inf
    np.save(tmp_path / "x.npy", records)
    same_bits(file)


def test_parameters_that_nothing_changes(tmp_path: Path) -> None:
    """One is frozen, and another of its type is trained."""
    model = """(defmodel net ()
  (defparam first (3 3) :init (normal 0.5) :frozen t)
  (defparam second (3 3) :init (normal 0.5))
  (defsub out (linear 3 2))
  (forward (x) (out (tanh (matmul (tanh (matmul x first)) second)))))"""
    same_bits(write(tmp_path, run=RUN, model=model))


def test_every_rank_has_its_own(tmp_path: Path) -> None:
    same_bits(write(tmp_path, run=RUN, optimizer=OPTIMIZERS), SEXPGPU_DEVICES="0,1")


def test_generators_read_them(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("abcd efgh ijkl. " * 40, "utf-8")
    file = tmp_path / "story.sx"
    file.write_text(FILE.replace("(defrun :steps 4", "(defrun :steps 4 :precision :bf16"), "utf-8")
    same_bits(file)
    assert samples(tmp_path / "out-sim") == samples(tmp_path / "casting") != []


def test_what_does_not_fit_is_dropped(tmp_path: Path) -> None:
    """With less memory the graphs cast for themselves, and the report says so; with less still nothing runs."""
    run = "(defrun :steps 3 :precision :bf16 :seed 1)"  # more microbatches would first be stacked no more
    file = write(tmp_path, run=run, model=WIDE, optimizer="(def optimizer (adam :lr 0.05))")
    _, whole = trained(file, "sim")
    (kept, _), cache = memory(whole), str(tmp_path / "cache")
    narrow = kept["parts"]["narrow parameters"]
    assert narrow >= 2 * 3 * 300 + 2 * 300 * 2
    for name in ("made", "found"):
        done = sexpgpu(
            "run", file, "--device", "sim", "--out", tmp_path / name,
            SEXPGPU_MEMORY=str(kept["planned"] - 1), SEXPGPU_CACHE=cache,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert re.search(r"^  parameter results {9}dropped, with [\d.]+ KiB for [\d.]+ KiB the run", done.stderr, re.M)
        dropped, *_ = memory(tmp_path / name)
        assert dropped["planned"] < kept["planned"]
        assert dropped["parts"]["narrow parameters"] == dropped["parts"]["new narrow parameters"] == 0
        wanted, found = tensors(whole), tensors(tmp_path / name)
        assert all(np.array_equal(found[key], array) for key, array in wanted.items())
    limit = str(dropped["planned"] - 1)
    done = sexpgpu("run", file, "--device", "sim", "--out", tmp_path / "none", SEXPGPU_MEMORY=limit)
    assert done.returncode == 1
    assert "error[E-MEM-001]" in done.stderr


def test_parameters_of_a_type_have_one_narrow_type(tmp_path: Path) -> None:
    """What another graph casts to another type it casts for itself; products widened to f32 are widened to f64 then."""
    model = (
        "(defmodel net () (defparam w (3 2) :init (normal 0.5) :dtype :f64) (forward (x)"
        " (if (training-p) (matmul x (cast w :f32)) (cast (matmul (cast x :bf16) (cast w :bf16)) :f32))))"
    )
    file = write(tmp_path, model=model, run="(defrun :steps 2 :seed 1)")
    losses = []
    for device in ("cpu", "sim"):
        done = sexpgpu("run", file, "--device", device, "--json", "--out", tmp_path / device, SEXPGPU_CHECK="1")
        assert done.returncode == 0, done.stderr
        losses.append(json.loads(done.stdout)["metrics"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
