"""Several microbatches in one call train what calls of one do, and what the CPU does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.gpu.stacked import trained
from tests.gpu.test_engine import MODEL, sexpgpu, steps, tensors
from tests.trace.experiments import write, write_data
from tests.trace.test_streams import FILE as STREAMS

WIDE = "(defsub in (linear 3 8)) (defsub out (linear 8 2))"
DROPOUT = f"(defmodel net () {WIDE} (forward (x) (out (dropout (tanh (in x)) 0.4))))"
DEEP = f"(defmodel net () {WIDE} (forward (x) (out (gelu (in x)))))"
MASKED = "(defun objective (logits labels) (cross-entropy logits labels :ignore-index 1))"
CASES = {
    "plain": {},
    "dropout": {"model": DROPOUT},
    "averaged buffer": {"model": MODEL},
    "clipped": {"model": DEEP, "optimizer": "(def optimizer (adam :lr 0.1))"},
    "totals of a step": {"objective": MASKED},
}
"""What differs from the plain experiment."""


def same(some: Path, others: Path, tolerance: float) -> None:
    for wanted, found in zip(steps(some), steps(others), strict=True):
        assert found.keys() == wanted.keys()
        assert list(found.values()) == pytest.approx(list(wanted.values()), rel=tolerance, abs=tolerance)
    wanted_tensors, found_tensors = tensors(some), tensors(others)
    assert found_tensors.keys() == wanted_tensors.keys()
    for key, array in wanted_tensors.items():
        np.testing.assert_allclose(found_tensors[key], array, rtol=tolerance, atol=tolerance, err_msg=key)


@pytest.mark.parametrize("case", CASES)
def test_stacked_calls_train_what_calls_of_one_microbatch_do(case: str, tmp_path: Path) -> None:
    """Of nine batches the last is shorter: the third step has it, and runs a microbatch at a time."""
    file = write(tmp_path, run="(defrun :steps 3 :microbatches 4 :clip-norm 0.5 :seed 1)", **CASES[case])
    write_data(tmp_path, 34)
    for degree in (1, 2, 4):
        assert trained(file, tmp_path / str(degree), (degree,)) == [degree] * (8 // degree) * (degree > 1)
    same(tmp_path / "1", tmp_path / "2", 1e-6)
    assert steps(tmp_path / "4") == steps(tmp_path / "1"), "summed in the order of calls"
    one, four = tensors(tmp_path / "1"), tensors(tmp_path / "4")
    assert all(np.array_equal(four[key], array) for key, array in one.items())
    done = sexpgpu("run", file, "--device", "cpu", "--out", tmp_path / "cpu", "--quiet")
    assert done.returncode == 0, done.stderr
    same(tmp_path / "cpu", tmp_path / "4", 1e-5)
