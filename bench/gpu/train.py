"""Training on the device beside training on the CPU: the same file, seed and data, so losses differ by rounding."""

from __future__ import annotations

import gzip
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.curves.product import Events, run
from bench.gpu.cases import Setting, Trained
from bench.gpu.rows import Row

EARLY = 10
"""Steps in which rounding has not grown yet."""


def rows(setting: Setting, case: Trained) -> Iterator[Row]:
    """The last losses of the device and the CPU."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        flags = case.flags
        if case.mnist:
            write_mnist(folder / "mnist")
            flags = (*flags, "--set", f"data={folder / 'mnist'}")
        ours, cpu = (run(case.file, folder / device, "--device", device, *flags) for device in (setting.device, "cpu"))
        yield compared(case, ours, cpu, "cpu")


def compared(case: Trained, ours: Events, other: Events, which: str) -> Row:
    """Whether the losses of a run are as near to those of another, on `which`, as the case wants them."""
    mine, theirs = (list(events.series("step", "train/loss").values()) for events in (ours, other))
    if len(mine) != len(theirs) or not mine:
        return Row("", case.name, ok=False, note=f"{len(mine)} losses, on {which} {len(theirs)}")
    early = max(_apart(a, b) for a, b in zip(mine[:EARLY], theirs[:EARLY], strict=True))
    tail = max(1, len(mine) // 10)
    ends = [math.fsum(losses[-tail:]) / tail for losses in (mine, theirs)]
    late = _apart(*ends)
    note = f"against {which}: first {min(EARLY, len(mine))} within {early:.1e}, end {late:.1e}"
    return Row("", case.name, ends[0], ends[1], "loss", early <= case.early and late <= case.late, note)


def _apart(a: float, b: float) -> float:
    """Relative; infinite where one is NaN, which no bound lets pass."""
    found = abs(a - b) / max(abs(b), 1e-30)
    return found if not math.isnan(found) else math.inf


def write_mnist(folder: Path) -> None:
    """Files of MNIST's form and size with made-up digits: a class is a bright square at a place of its own."""
    folder.mkdir()
    rng = np.random.default_rng(9)
    for part, count in (("train", 60_000), ("t10k", 10_000)):
        labels = rng.integers(10, size=count).astype(np.uint8)
        images = np.zeros((count, 28, 28), np.uint8)
        for label in range(10):
            top, left = 4 + 12 * (label // 5), 1 + 5 * (label % 5)
            images[labels == label, top : top + 5, left : left + 5] = 200
        images[:, ::7, ::7] = rng.integers(64, size=(count, 4, 4))
        _write_idx(folder / f"{part}-images-idx3-ubyte.gz", images)
        _write_idx(folder / f"{part}-labels-idx1-ubyte.gz", labels)


def _write_idx(path: Path, array: np.ndarray) -> None:
    """The IDX format: two zeros, the type (8: bytes), the rank, the sizes big-endian, the elements."""
    head = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes()
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(head + array.tobytes())
