"""Warps that run together, and where their lanes stand."""

from __future__ import annotations

import numpy as np
from attrs import define, field

from sexpgpu.sim.code import LEAVE
from sexpgpu.sim.lanes import Lanes, Mask
from sexpgpu.sim.types import Array


@define(eq=False)
class Crew:
    """Lanes stand at blocks of the code, are held for others of their warp, or wait at `waiting` barriers."""

    st: Lanes
    at: dict[int, Mask] = field(factory=lambda: {0: None})
    held: dict[int, Array] = field(factory=dict)
    waiting: int = 0
    looks: int = 0
    looked: dict[int, int] = field(factory=dict)  # when a block that looks at an mbarrier ran last

    def rank(self, block: int, polls: bool) -> tuple[int, int]:
        """Blocks run in this order: by their numbers, then those that look at mbarriers, the longest ago first."""
        return (1, self.looked.get(block, 0)) if polls else (0, block)

    def move(self, block: int, m: Mask) -> None:
        """Send lanes (all, for None) to a block; those that leave are no longer alive."""
        st = self.st
        if block == LEAVE:
            if m is None:
                st.live = np.zeros(st.size, np.bool_)
            else:
                st.live = ~m if st.live is None else st.live & ~m
        elif m is None:
            self.at[block] = None
        else:
            known = self.at.get(block)
            self.at[block] = m if known is None else known | m
