"""Own kernels or a library's graph: both are timed once on the device, and what was found is kept.

The times of attention and of products do not depend on the numbers, so they are taken on memory of their own, before
the step's own addresses are known.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import numpy as np
from attrs import define, field

from sexpgpu import __version__
from sexpgpu.diag import SxError
from sexpgpu.gpu.choices import Choices, key_of
from sexpgpu.gpu.driver import Call, Command, Driver, Execute, NoMemory
from sexpgpu.plan.arena import aligned
from sexpgpu.plan.library import Library, LibraryTensor
from sexpgpu.plan.records import Launches

REPEATS, CALLS = 5, 4
"""Timings, of which the median counts, and the calls of each."""
WAYS = ("library", "kernels")
Opener = Callable[[Library], Execute | None]
Commands = Callable[[Sequence[int]], Sequence[Command]]
"""The step's own commands, where each of its operands, then results, then temporaries lies at an address."""


@define(eq=False)
class Libraries:
    """The libraries of one device: `name` says which and how new, or why there is none; `open` makes a graph ready.

    `choices` keeps what was measured, by what is computed, the device, the libraries and our version.
    """

    name: str
    open: Opener | None = None
    choices: Choices = field(factory=Choices)
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
            key = key_of(__version__, driver.name, self.name, repr(how))
            times = self.choices.find(key, WAYS)
            if times is None:
                try:
                    times = _measured(driver, library, execute, sizes, own)
                except SxError:  # where it is the device that failed, the next kernel tells
                    self._ready[library] = None
                if times is None:
                    return None
                self.choices.keep(key, times)
            self.chosen[library] = times["library"] < times["kernels"]
        return execute if self.chosen[library] else None


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
