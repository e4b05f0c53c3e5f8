"""Several simulated GPUs train what one does: the same steps, bit for bit where sums have the same order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.gpu.test_engine import MODEL, sexpgpu, steps, tensors
from tests.trace.experiments import write


def trained(file: Path, ranks: int, *flags: object) -> Path:
    out = file.parent / f"ranks-{ranks}"
    names = ",".join(map(str, range(ranks)))
    done = sexpgpu("run", file, "--device", "sim", "--out", out, "--quiet", *flags, SEXPGPU_DEVICES=names)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.parametrize(("ranks", "deterministic"), [(4, ""), (2, ":deterministic t")])
def test_the_same_bits_as_one_device(tmp_path: Path, ranks: int, deterministic: str) -> None:
    """The buffer is averaged over all microbatches; a batch of an epoch's end is shorter than the others."""
    run = f"(defrun :steps 2 :microbatches 4 :clip-norm 0.05 :seed 1 {deterministic})"
    file = write(tmp_path, model=MODEL, run=run, optimizer="(def optimizer (adam :lr 0.1))")
    one, several = trained(file, 1), trained(file, ranks)
    assert steps(several) == steps(one)
    wanted, found = tensors(one), tensors(several)
    assert all(np.array_equal(found[key], array) for key, array in wanted.items())


def test_sums_by_ranks_differ_by_rounding(tmp_path: Path) -> None:
    file = write(tmp_path, run="(defrun :steps 2 :microbatches 4 :seed 1)")
    one, two = trained(file, 1), trained(file, 2)
    for wanted, found in zip(steps(one), steps(two), strict=True):
        assert list(found.values()) == pytest.approx(list(wanted.values()), rel=1e-6)


def test_another_number_of_ranks_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, run="(defrun :steps 2 :microbatches 2 :seed 1)")
    out = trained(file, 2, "--steps", 1)
    done = sexpgpu("run", file, "--device", "sim", "--out", out, "--resume", "latest")
    assert done.returncode == 1
    assert "E-DP-002" in done.stderr
