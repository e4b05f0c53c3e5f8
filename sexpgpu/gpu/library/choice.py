"""Own kernels or a library's graph: all ways are timed once on the device, and what was found is kept.

The times of attention and of products do not depend on the numbers, so they are taken on memory of their own, before
the step's own addresses are known.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field, frozen

from sexpgpu import __version__
from sexpgpu.diag import SxError
from sexpgpu.gpu.choices import Choices, key_of
from sexpgpu.gpu.driver import Call, Command, Driver, Execute, NoMemory
from sexpgpu.plan.arena import aligned
from sexpgpu.plan.library import AttentionGraph, ConvolutionGraph, Library, LibraryTensor, ProductGraph
from sexpgpu.plan.records import Launches

REPEATS, CALLS = 5, 4
"""Timings, of which the median counts, and the calls of each."""
KERNELS = "kernels"
"""The way that is not a library's."""
Ways = Mapping[str, Execute]
"""How a library can compute a graph, by names that mean the same in every run of its version."""
Commands = Callable[[Sequence[int]], Sequence[Command]]
"""The step's own commands, where each of its operands, then results, then temporaries lies at an address."""


@frozen(eq=False)
class Source:
    """A library that is open: its name and version; `ways` gives those to compute a graph, or why there is none."""

    name: str
    ways: Callable[[Any], Ways | str]


@define(eq=False)
class Libraries:
    """The libraries of one device by the kinds of graphs that they compute, or in words why one is not there.

    `choices` keeps what was measured, by what is computed, the device, the library and our version. `chosen` is the way
    of each graph that was measured, `refused` says why a library does not compute one.
    """

    sources: Mapping[type[Library], Source | str]
    choices: Choices = field(factory=Choices)
    chosen: dict[Library, str] = field(factory=dict, init=False)
    refused: dict[Library, str] = field(factory=dict, init=False)
    _ready: dict[Library, Ways] = field(factory=dict, init=False)
    _news: list[str] = field(factory=list, init=False)
    _counted: dict[str, int] = field(factory=dict, init=False)

    def absent(self) -> list[str]:
        """Why libraries are not there, one line each."""
        return list(dict.fromkeys(source for source in self.sources.values() if isinstance(source, str)))

    def news(self) -> list[str]:
        """What was refused and chosen since this was asked last, a line each."""
        told, self._news = self._news, []
        for source in dict.fromkeys(self.sources.values()):
            mine = [way for graph, way in self.chosen.items() if self.sources.get(type(graph)) is source]
            if not isinstance(source, str) and len(mine) > self._counted.get(source.name, 0):
                self._counted[source.name] = len(mine)
                taken = sum(way != KERNELS for way in mine)
                told.append(f"{source.name} computes {taken} of {len(mine)} kinds of steps that were measured")
        return told

    def choose(self, driver: Driver, how: Launches, sizes: Sequence[int], own: Commands) -> Execute | None:
        """What to call in the stead of a step's kernels; None where they are to run.

        `sizes` are the bytes of the step's operands, then results, then temporaries.
        """
        library = how.library
        source = self.sources.get(type(library)) if library is not None else None
        if library is None or source is None or isinstance(source, str):
            return None
        driver.enter()
        ways = self._ways(library, source)
        if ways and library not in self.chosen:
            key = key_of(__version__, driver.name, source.name, repr(how))
            times = self.choices.find(key, (KERNELS, *ways))
            if times is None:
                times = self._measured(driver, library, source, sizes, own)
                if times is None:
                    return None
                self.choices.keep(key, times)
            self.chosen[library] = min(times, key=times.__getitem__)
        return ways.get(self.chosen.get(library, KERNELS))

    def _ways(self, library: Library, source: Source) -> Ways:
        if library not in self._ready:
            found = source.ways(library)
            if isinstance(found, str):
                self._refuse(library, source, found)
            self._ready[library] = {} if isinstance(found, str) else found
        return self._ready[library]

    def _refuse(self, library: Library, source: Source, reason: str) -> None:
        self.refused[library] = reason
        self._news.append(f"{source.name} does not compute {shown(library)}: {reason}; own kernels")

    def _measured(
        self, driver: Driver, library: Library, source: Source, sizes: Sequence[int], own: Commands
    ) -> dict[str, float] | None:
        """Seconds of each way, on zeros; None where the device has no memory for that, or fails at the kernels."""
        offsets = [0]
        for size in sizes:
            offsets.append(offsets[-1] + aligned(size))
        try:
            base = driver.allocate(max(offsets[-1], 1))
        except NoMemory:
            return None
        driver.fill(base, 0, offsets[-1])
        places = [base + offset for offset in offsets[:-1]]
        arguments = np.array(addresses_of(library, places), np.uint64)
        times, good = {}, dict(self._ready[library])
        try:
            for name, execute in self._ready[library].items():
                try:
                    times[name] = _seconds(driver, [Call(execute, arguments)])
                except SxError as fault:
                    self._refuse(library, source, fault.diagnostic.actual or fault.diagnostic.message)
                    del good[name]
            self._ready[library] = good
            times[KERNELS] = _seconds(driver, own(places))
        except SxError:  # it is the device that failed, which the next kernel tells
            return None
        finally:
            driver.free(base)
        return times


def shown(library: Library) -> str:
    """A graph in a few words, for people."""
    kinds = {AttentionGraph: "attention", ProductGraph: "a product", ConvolutionGraph: "a convolution"}
    return f"{kinds[type(library)]} of {' and '.join(str(each.type) for each in library.tensors[:2])}"


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
