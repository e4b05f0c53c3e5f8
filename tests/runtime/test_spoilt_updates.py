"""An optimizer that makes NaN or infinities of finite gradients changes nothing: the step is refused."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from sexpgpu.dialects.context import open_context
from sexpgpu.driver.compile import compile_in
from sexpgpu.driver.engine import CpuEngine
from sexpgpu.driver.planning import prepare
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.runtime.restore import newest_good, restore
from sexpgpu.runtime.run import RunOptions, RunResult, run
from tests.trace.experiments import write


def trained(
    folder: Path, optimizer: str
) -> tuple[RunResult, dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]]:
    """What the run says, and the parameters of its newest checkpoint."""
    file = write(folder, optimizer=f"(def optimizer {optimizer})", eval="")
    with open_context() as context:
        done = run_deep(lambda: compile_in(context, file, Selection(), pipeline=None))
        prepare(done)
        assert done.experiment is not None
        result = run(CpuEngine(done), RunOptions(out=folder / "run", quiet=True, stream=io.StringIO()))
        newest = newest_good(folder / "run" / "checkpoints", lambda warning: None)
        assert newest is not None
        return result, restore(newest, done.experiment).tensors.params


def test_a_first_rate_that_is_infinite_costs_one_step(tmp_path: Path) -> None:
    result, params = trained(tmp_path, "(sgd :lr (lambda (step) (/ 0.1 step)))")
    assert (result.code, result.step) == (0, 4)
    (warning,) = result.warnings
    assert warning.code == "W-NUM-001"
    assert "step 0: the update of model.out.weight is not finite" in warning.message
    assert all(np.isfinite(p).all() for p in params.values())


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_rule_that_is_never_finite_ends_the_run_with_good_weights(optimizer: str, tmp_path: Path) -> None:
    result, params = trained(tmp_path, f"({optimizer} :lr (lambda (step) (/ step 0.0)))")
    assert result.error is not None
    assert result.error.code == "E-NUM-001"
    assert all(np.isfinite(p).all() for p in params.values())
