"""Several simulated GPUs train what one does: the same steps, bit for bit where sums have the same order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sexpgpu.driver.retrace import traced_again
from sexpgpu.lang.limits import run_deep
from sexpgpu.runtime.run import RunOptions, RunResult, run
from tests.gpu.stacked import prepared
from tests.gpu.test_engine import MODEL, evaluated, sexpgpu, steps, tensors
from tests.trace.experiments import write
from tests.trace.test_streams import FILE as STREAMS

DETERMINISTIC = "(defrun :steps 3 :microbatches 4 :clip-norm 0.05 :seed 1 :deterministic t)"


@contextmanager
def ranks(count: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEXPGPU_DEVICES", ",".join(map(str, range(count))))
        yield


def trained(file: Path, count: int, **options: Any) -> Path:
    out = file.parent / f"ranks-{count}"

    def work() -> RunResult:
        with ranks(count), prepared(file) as (_, _, team):
            assert team.count == count
            return run(team.calls[0].engine, RunOptions(out=out, quiet=True, **options), team=team)

    result = run_deep(work)
    assert result.error is None, result.error
    return out


def same(one: Path, several: Path) -> None:
    assert steps(several) == steps(one)
    assert evaluated(several) == evaluated(one)
    wanted, found = tensors(one), tensors(several)
    assert all(np.array_equal(found[key], array) for key, array in wanted.items())


DROPOUT = "(defmodel net () (defsub out (linear width 2)) (forward (x) (out (dropout x 0.5))))"
MASKED = "(defun objective (logits labels) (cross-entropy logits labels :ignore-index 0 :z-loss 0.01))"
COUNTED = """(defun objective (logits labels)
  (metric 'seen (step-sum (sum (cast (> labels 0) :float))) :reduce :last)
  (metric 'worst (amax logits) :reduce :max)
  (cross-entropy logits labels))"""


@pytest.mark.parametrize(("count", "deterministic"), [(4, ""), (2, ":deterministic t")])
def test_the_same_bits_as_one_device(tmp_path: Path, count: int, deterministic: str) -> None:
    """The buffer is averaged over all microbatches; a batch of an epoch's end is shorter than the others."""
    run = f"(defrun :steps 2 :microbatches 4 :clip-norm 0.05 :seed 1 {deterministic})"
    file = write(tmp_path, model=MODEL, run=run, optimizer="(def optimizer (adam :lr 0.1))")
    same(trained(file, 1), trained(file, count))


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"model": DROPOUT}, id="dropout"),
        pytest.param({"objective": MASKED}, id="totals of the step that a mask needs"),
        pytest.param({"objective": COUNTED}, id="metrics"),
        pytest.param({"eval": "(defeval val (:loader train-loader :every 1 :batches 2))"}, id="evaluations"),
    ],
)
def test_what_a_step_is_made_of_does_not_depend_on_the_ranks(tmp_path: Path, parts: dict[str, str]) -> None:
    file = write(tmp_path, run=DETERMINISTIC, **parts)
    same(trained(file, 1), trained(file, 2))


def test_buffers_of_each_microbatch_go_to_all_ranks(tmp_path: Path) -> None:
    """Streams with a carried state: a rank reads on where it, or another one, left off; four go on from two."""
    text = STREAMS.format(batch=2, parts=4, items=4 * (2 * 4 * 5 + 3) + 1, window=5, seq=4, steps=4)
    file = tmp_path / "streams.sx"
    file.write_text(text.replace(":microbatches 4", ":microbatches 4 :deterministic t"), encoding="utf-8")
    whole = trained(file, 1)
    out = trained(file, 2, steps=2)
    further = trained(file, 4, steps=3, resume=str(out / "checkpoints" / "step-00000002"))
    assert [*steps(out), *steps(further)] == steps(whole)[:3]
    wanted, found = tensors_of_step(whole, 3), tensors_of_step(further, 3)
    assert all(np.array_equal(found[key], array) for key, array in wanted.items())


def tensors_of_step(out: Path, step: int) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    (shard,) = (out / "checkpoints" / f"step-{step:08d}").glob("*.safetensors")
    return load_file(shard)


def test_a_batch_of_another_size_is_compiled_once_for_all_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, int, str]] = []

    def counted(done: Any, graph: str, rows: int, pipeline: str) -> Any:
        made.append((graph, rows, pipeline))
        return traced_again(done, graph, rows, pipeline)

    monkeypatch.setattr("sexpgpu.driver.device.traced_again", counted)
    file = write(tmp_path, run="(defrun :steps 3 :microbatches 4 :seed 1)", eval="")
    trained(file, 4)
    assert len(made) == len(set(made)) == 1


def test_a_last_step_of_fewer_microbatches_than_ranks(tmp_path: Path) -> None:
    """Ten records are batches of 4, 4 and 2: of the second step only the first rank has any."""
    file = write(tmp_path, run="(defrun :epochs 1 :microbatches 2 :seed 1)")
    same(trained(file, 1), trained(file, 2))


def test_sums_by_ranks_differ_by_rounding(tmp_path: Path) -> None:
    file = write(tmp_path, run="(defrun :steps 2 :microbatches 4 :seed 1)")
    one, two = trained(file, 1), trained(file, 2)
    for wanted, found in zip(steps(one), steps(two), strict=True):
        assert list(found.values()) == pytest.approx(list(wanted.values()), rel=1e-6)


@pytest.mark.parametrize("devices", ["0", "0,1,2,3"])
def test_another_number_of_ranks_is_refused(tmp_path: Path, devices: str) -> None:
    file = write(tmp_path, run="(defrun :steps 2 :microbatches 4 :seed 1)")
    out = trained(file, 2, steps=1)
    done = sexpgpu("run", file, "--device", "sim", "--out", out, "--resume", "latest", SEXPGPU_DEVICES=devices)
    assert done.returncode == 1
    assert "E-DP-002" in done.stderr
    assert "  expected: 2 ranks, as the checkpoint has\n" in done.stderr
    assert f"  actual:   {'1 rank' if devices == '0' else '4 ranks'} in this run\n" in done.stderr
    assert "expected: 2 ranks" in done.stderr
    assert f"actual:   {devices.count(',') + 1}" in done.stderr
