"""Several GPUs of one machine beside one of them: the same step, its microbatches shared out, sums made by NCCL."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.curves.product import Events, run
from bench.gpu.cases import HERE, Setting, Stepped, Trained
from bench.gpu.rows import Row
from bench.gpu.steps import STEPS, write_data
from bench.gpu.train import compared
from sexpgpu.gpu.ranks import SIMULATED

MOST = 8
APART = 1e-2
"""How far losses may be apart, relative: bf16 products of other shapes round otherwise."""


def rows(setting: Setting, case: Stepped) -> Iterator[Row]:
    """Whether losses agree, and milliseconds of a step of all GPUs and of one."""
    count = min(visible(setting), MOST, 2 if setting.toy else MOST)
    if count < 2:
        yield Row("", case.name, note="fewer than two GPUs are visible")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        several = _trained(setting, case, folder, count, ",".join(map(str, range(count))))
        one = _trained(setting, case, folder, count, "0")
    yield compared(Trained(f"{case.name}, {count} ranks", HERE, (), APART, APART), several, one, "one GPU")
    ours, alone = (1e3 * _median(events, STEPS[setting.sizes][0]) for events in (several, one))
    note = f"one GPU {alone:.4g} ms, {alone / ours:.2f}x"
    yield Row("", f"{case.name}, {count} ranks, a step", ours, None, "ms", None, note)


def visible(setting: Setting) -> int:
    if setting.device == "sim":
        return SIMULATED
    from sexpgpu.gpu.cuda import visible_gpus
    from sexpgpu.gpu.probe import require_bindings

    return visible_gpus(require_bindings())


def _trained(setting: Setting, case: Stepped, folder: Path, microbatches: int, devices: str) -> Events:
    """A run of the same step on some devices: a microbatch for each rank there may be."""
    file = folder / "ranks.sx"
    text = (HERE / f"{case.file}.sx").read_text(encoding="utf-8")
    file.write_text(text.replace("(defrun ", f"(defrun :microbatches {microbatches} "), encoding="utf-8")
    if not (folder / "vectors.npy").exists():
        write_data(folder, 16 * case.knobs["batch"])
    chosen = {**case.knobs, "steps": sum(STEPS[setting.sizes]), "data": folder}
    sets = [part for key, value in chosen.items() for part in ("--set", f"{key}={value}")]
    return run(file, folder / f"run-{devices}", "--device", setting.device, *sets, devices=devices)


def _median(events: Events, warm: int) -> float:
    seconds = events.series("step", "runtime/step_seconds")
    return statistics.median(value for step, value in seconds.items() if step >= warm)
