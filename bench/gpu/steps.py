"""Whole training steps beside `torch.compile`: the batch from the host, the loss read, gradients clipped, AdamW."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.curves.product import run
from bench.gpu.cases import HERE, Setting, Stepped
from bench.gpu.reference import asked
from bench.gpu.rows import Row

STEPS = {"full": (5, 25), "toy": (1, 1)}
"""Steps that are not counted, and those of which the median is taken."""


def rows(setting: Setting, case: Stepped) -> Iterator[Row]:
    """Milliseconds of a step."""
    warm, steps = STEPS[setting.sizes]
    ours = _ours(setting, case, warm, steps)
    work = {"kind": "step", "model": case.file, "warm": warm, "steps": steps, **case.knobs}
    theirs = asked(setting, [work])
    (other,) = theirs.seconds
    note = f"{1 / ours:.3g} steps/s" + (f"; {theirs.lacking}" if other is None else "")
    yield Row("", case.name, ours * 1e3, None if other is None else other * 1e3, "ms", None, note)


def _ours(setting: Setting, case: Stepped, warm: int, steps: int) -> float:
    """The median seconds of a step, as the run tells them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen: dict[str, object] = {**case.knobs, "steps": warm + steps}
        if case.file != "gpt":
            write_data(folder, 16 * case.knobs["batch"])
            chosen["data"] = folder
        sets = [part for key, value in chosen.items() for part in ("--set", f"{key}={value}")]
        events = run(HERE / f"{case.file}.sx", folder / "run", "--device", setting.device, *sets)
    seconds = events.series("step", "runtime/step_seconds")
    return statistics.median(value for step, value in seconds.items() if step >= warm)


def write_data(folder: Path, records: int) -> None:
    """Random vectors and images of ten classes, as the files `mlp.sx` and `conv.sx` read them."""
    rng = np.random.default_rng(4)
    np.save(folder / "vectors.npy", rng.standard_normal((records, 784), np.float32))
    np.save(folder / "images.npy", rng.standard_normal((records, 3, 32, 32), np.float32))
    np.save(folder / "labels.npy", rng.integers(10, size=records).astype(np.int32))
