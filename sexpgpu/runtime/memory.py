"""Memory of this process: arrays that the loop is done with, kept for results of the same shape, so that a step in full
swing asks the system for none, and what is in use."""

from __future__ import annotations

import math
import resource
from collections.abc import Sequence
from pathlib import Path

from attrs import define, field

from sexpgpu.data.arrays import NUMPY_DTYPE
from sexpgpu.experiment import Output, OutputRole
from sexpgpu.runtime.engine import Array


@define
class Spare:
    """Spare arrays by shape and dtype. What is given back must have no other holder."""

    _arrays: dict[tuple[tuple[int, ...], str], list[Array]] = field(factory=dict, init=False)

    def take(self, outputs: Sequence[Output], roles: frozenset[OutputRole]) -> list[Array | None]:
        """Memory for those results of a graph that have one of the roles, where there is some."""
        return [self._one(output) if output.role in roles else None for output in outputs]

    def give(self, array: Array) -> None:
        """Take back an array that nobody reads any more."""
        if array.flags.writeable and array.flags.c_contiguous:
            self._arrays.setdefault((array.shape, array.dtype.str), []).append(array)

    def _one(self, output: Output) -> Array | None:
        stock = self._arrays.get((output.type.shape, NUMPY_DTYPE[output.type.dtype].str))
        return stock.pop() if stock else None


def peak_bytes() -> int:
    """The most memory that this process had at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def held_bytes() -> int:
    """Memory of this process that is in use now, where the system tells."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return math.trunc(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return int(pages) * resource.getpagesize()
