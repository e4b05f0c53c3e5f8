"""Data that change while a run reads them, or between a run and its resumption."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sexpgpu.experiment import RunConfig
from sexpgpu.runtime.checkpoint import numbered
from sexpgpu.runtime.restore import verify
from sexpgpu.runtime.run import run
from tests.runtime.line_fit import make_engine, options, train
from tests.runtime.reading import events, status

CONFIG = RunConfig(10, None, 1, precision="f64", checkpoint_every=2)


def test_data_cut_during_a_run_fail_it_and_keep_its_checkpoints(folder: Path) -> None:
    calls = 0

    def cutting(*inputs: Any) -> Sequence[Any]:
        nonlocal calls
        calls += 1
        if calls == 5:
            os.truncate(folder / "x.npy", 0)
        return train(*inputs)

    out = folder / "out"
    engine = make_engine(folder, CONFIG, evaluations=(), functions={"train": cutting})
    result = run(engine, options(out))
    assert result.error is not None
    assert (result.code, result.error.code, result.step) == (1, "E-LOAD-003", 5)
    assert str(folder / "x.npy") in result.error.message
    assert status(out)["state"] == "failed"
    assert events(out)[-1]["code"] == "E-LOAD-003"
    assert [step for step, _ in numbered(out / "checkpoints")] == [2, 4]
    for _, path in numbered(out / "checkpoints"):
        verify(path)
