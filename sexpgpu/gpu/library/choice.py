"""Own kernels or a library's graph: both are timed once on the device, and what was found is kept.

The times of attention and of products do not depend on the numbers, so they are taken on memory of their own, before
the step's own addresses are known.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from attrs import define, field

from sexpgpu import __version__
from sexpgpu.diag import SxError
from sexpgpu.gpu.driver import Call, Command, Driver, Execute, NoMemory
from sexpgpu.plan.arena import aligned
from sexpgpu.plan.library import Library, LibraryTensor
from sexpgpu.plan.records import Launches

REPEATS, CALLS = 5, 4
"""Timings, of which the median counts, and the calls of each."""
Opener = Callable[[Library], Execute | None]
Commands = Callable[[Sequence[int]], Sequence[Command]]
"""The step's own commands, where each of its operands, then results, then temporaries lies at an address."""


@define(eq=False)
class Libraries:
    """The libraries of one device: `name` says which and how new, or why there is none; `open` makes a graph ready.

    `file` keeps choices, by what is computed, the device, the libraries and our version; None keeps them for this run.
    """

    name: str
    open: Opener | None = None
    file: Path | None = None
    chosen: dict[Library, bool] = field(factory=dict, init=False)
    _ready: dict[Library, Execute | None] = field(factory=dict, init=False)

    def choose(self, driver: Driver, how: Launches, sizes: Sequence[int], own: Commands) -> Execute | None:
        """What to call in the stead of a step's kernels; None where they are to run.

        `sizes` are the bytes of the step's operands, then results, then temporaries.
        """
        library = how.library
        if library is None or self.open is None:
            return None
        if library not in self._ready:
            self._ready[library] = self.open(library)
        execute = self._ready[library]
        if execute is None:
            return None
        if library not in self.chosen:
            key = self._key(driver, how)
            kept = self._kept()
            try:
                times = kept.get(key) or _measured(driver, library, execute, sizes, own)
            except SxError:  # where it is the device that failed, the next kernel tells
                self._ready[library] = times = None
            if times is None:
                return None
            if key not in kept:
                self._keep({**kept, key: times})
            self.chosen[library] = times["library"] < times["kernels"]
        return execute if self.chosen[library] else None

    def _key(self, driver: Driver, how: Launches) -> str:
        parts = (__version__, driver.name, self.name, repr(how))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _kept(self) -> dict[str, dict[str, float]]:
        """What other runs found; a file that is damaged is none."""
        try:
            found = json.loads(self.file.read_text("utf-8")) if self.file is not None else {}
            return {key: {name: float(each[name]) for name in ("library", "kernels")} for key, each in found.items()}
        except (OSError, ValueError, TypeError, AttributeError, KeyError):
            return {}

    def _keep(self, found: dict[str, dict[str, float]]) -> None:
        """Write the file in one motion; where that cannot be done the next run measures again."""
        if self.file is None:
            return
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            fresh = self.file.with_suffix(f".{os.getpid()}.part")
            fresh.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
            os.replace(fresh, self.file)


def _measured(
    driver: Driver, library: Library, execute: Execute, sizes: Sequence[int], own: Commands
) -> dict[str, float] | None:
    """Seconds of both, on zeros; None where the device has no memory for that."""
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + aligned(size))
    try:
        base = driver.allocate(max(offsets[-1], 1))
    except NoMemory:
        return None
    driver.fill(base, 0, offsets[-1])
    places = [base + offset for offset in offsets[:-1]]
    call = Call(execute, np.array(addresses_of(library, places), np.uint64))
    try:
        return {"kernels": _seconds(driver, own(places)), "library": _seconds(driver, [call])}
    finally:
        driver.free(base)


def addresses_of(library: Library, places: Sequence[int]) -> list[int]:
    """Where each tensor of a graph begins, from where the step's operands and results do."""
    return [places[each.argument] + behind(each) for each in library.tensors]


def behind(tensor: LibraryTensor) -> int:
    """The bytes from a buffer's first to a tensor's."""
    return tensor.offset * (tensor.type.nbytes // tensor.type.size)


def _seconds(driver: Driver, commands: Sequence[Command]) -> float:
    found = []
    for number in range(REPEATS + 1):
        start = driver.mark()
        for command in list(commands) * CALLS:
            driver.run(command)
        elapsed = driver.elapsed(start, driver.mark())
        if number:  # the first also loads
            found.append(elapsed / CALLS)
    return statistics.median(found)
