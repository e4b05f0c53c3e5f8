"""What a run was said to hold of a device, and what it came to hold: records, and the lines that tell of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import asdict, frozen

from sexpgpu.tensortype import binary_size


@frozen
class Planned:
    """Bytes by what holds them at the fullest moment of a run.

    `peak` says when that is: the phase of the loop, the graph whose arena is the largest and the place in the file
    where most of that is alive. `generation` are those of the largest generator's phase, which is among the parts only
    where it is the fullest.
    """

    parts: Mapping[str, int]
    peak: Mapping[str, str]
    generation: int = 0

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    def facts(self, free: int | None) -> dict[str, Any]:
        """The data of the annotation before the first step."""
        told = {"planned": self.total, "free": free, "parts": dict(self.parts), "peak": dict(self.peak)}
        return told | ({"generation": self.generation} if self.generation else {})


@frozen
class Captured:
    """Bytes of a device beside the pool that captured launches take now, took at most, and may take."""

    held: int
    peak: int
    reserved: int


def plan_line(planned: Planned, free: int | None) -> str:
    """`  memory   2.7 GiB of 78.8 GiB free, generation 0.4 GiB`, the last row of the lowering report."""
    room = f" of {binary_size(free)} free" if free is not None else ""
    generation = f", generation {binary_size(planned.generation)}" if planned.generation else ""
    return f"  {'memory':25} {binary_size(planned.total)}{room}{generation}"


def peak_line(peak: int, planned: int, captured: Captured | None) -> str:
    """`memory: peak 2.8 GiB of 2.7 GiB planned (+1.8%)`, and what captured launches took of their reservation."""
    line = f"memory: peak {binary_size(peak)} of {binary_size(planned)} planned ({peak / planned - 1:+.1%})"
    if captured is None:
        return line
    return f"{line}; captured launches {binary_size(captured.peak)} of {binary_size(captured.reserved)} reserved"


def peak_facts(peak: int, planned: int, captured: Captured | None) -> dict[str, Any]:
    """The data of the annotation behind the last step."""
    told: dict[str, Any] = {"peak": peak, "planned": planned}
    return told | ({"captured": asdict(captured)} if captured is not None else {})
