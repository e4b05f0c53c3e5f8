"""Several microbatches in one call train what calls of one do, and what the CPU does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.gpu.stacked import trained
from tests.gpu.test_device_memory import memory
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
        first, last = memory(tmp_path / str(degree))
        # The graph of the shorter batch, which is compiled when it comes, has constants of its own.
        assert 0.85 * first["planned"] <= last["peak"] <= first["planned"] + 1024, degree
    same(tmp_path / "1", tmp_path / "2", 1e-6)
    assert steps(tmp_path / "4") == steps(tmp_path / "1"), "summed in the order of calls"
    one, four = tensors(tmp_path / "1"), tensors(tmp_path / "4")
    assert all(np.array_equal(four[key], array) for key, array in one.items())
    done = sexpgpu("run", file, "--device", "cpu", "--out", tmp_path / "cpu", "--quiet")
    assert done.returncode == 0, done.stderr
    same(tmp_path / "cpu", tmp_path / "4", 1e-5)


def test_streams_carry_their_own_state(tmp_path: Path) -> None:
    """Each microbatch has its own row of a buffer, which a stacked call reads and proposes anew."""
    batch, parts, seq = 1, 4, 4
    items = seq * (batch * parts * 5 + 3) + 1
    file = tmp_path / "streams.sx"
    file.write_text(STREAMS.format(batch=batch, parts=parts, items=items, window=seq + 1, seq=seq, steps=7), "utf-8")
    for degree in (1, 2, 4):
        assert trained(file, tmp_path / str(degree), (degree,)) == [degree] * (7 * 4 // degree) * (degree > 1)
        gaps = [step["train/gap"] for step in steps(tmp_path / str(degree))]
        assert [number for number, gap in enumerate(gaps) if gap] == [0, 5], "the seams of the streams"
    same(tmp_path / "1", tmp_path / "2", 1e-6)
    same(tmp_path / "1", tmp_path / "4", 1e-6)


def test_ranks_stack_their_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, model=DROPOUT, run="(defrun :steps 3 :microbatches 4 :clip-norm 0.5 :seed 1)")
    write_data(tmp_path, 34)
    monkeypatch.setenv("SEXPGPU_DEVICES", "0,1")
    for degree in (1, 2):
        assert trained(file, tmp_path / str(degree), (degree,)) == [2] * 4 * (degree > 1), "two ranks, two steps"
    same(tmp_path / "1", tmp_path / "2", 0)
    monkeypatch.delenv("SEXPGPU_DEVICES")
    trained(file, tmp_path / "one", (4,))
    same(tmp_path / "one", tmp_path / "2", 1e-6)
    done = sexpgpu("run", file, "--device", "sim", "--out", tmp_path / "told", SEXPGPU_DEVICES="0,1,2,3")
    assert "  stacking                  1: a step has one microbatch on each device\n" in done.stderr


def test_a_microbatch_that_is_not_finite_is_named(tmp_path: Path) -> None:
    """Of a stacked call as well: its losses are told apart, and the one that is guilty runs once more on the host."""
    model = "(defmodel net () (defsub out (linear width 2)) (forward (x) (out (log x))))"
    file = write(tmp_path, model=model, run="(defrun :steps 1 :microbatches 4 :max-skipped 3 :seed 1)", eval="")
    xs = np.ones((16, 3), np.float32)
    xs[9] = 0
    np.save(tmp_path / "x.npy", xs)
    np.save(tmp_path / "y.npy", np.zeros(16, np.int64))
    done = sexpgpu("run", file, "--device", "sim", "--out", tmp_path / "out")
    assert "  stacking                  4: predicted" in done.stderr
    assert "step 0, microbatch 2: the loss is not finite" in done.stderr
    assert "not finite first: the result of log" in done.stderr


def test_products_in_bf16(tmp_path: Path) -> None:
    file = write(tmp_path, model=DEEP, run="(defrun :steps 3 :microbatches 4 :precision :bf16 :seed 1)")
    write_data(tmp_path, 34)
    for degree in (1, 2):
        trained(file, tmp_path / str(degree), (degree,))
    same(tmp_path / "1", tmp_path / "2", 2e-2)
