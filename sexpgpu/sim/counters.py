"""What is counted while a kernel runs."""

from __future__ import annotations

from attrs import define, field


@define
class Counters:
    """Sums over a launch. Instructions are counted a warp: one for each warp with a lane that takes part."""

    warp_visits: list[int] = field(factory=list)  # of each basic block
    lane_visits: list[int] = field(factory=list)
    divergent_branches: int = 0
    barriers: int = 0
    read: int = 0  # bytes of global memory
    written: int = 0
    atomics: int = 0
    sectors: dict[tuple[int, str], list[int]] = field(
        factory=dict
    )  # by line and text: requests, sectors, sectors at best
    banks: dict[tuple[int, str], list[int]] = field(
        factory=dict
    )  # by line and text: requests, wavefronts, wavefronts at best
