"""Who has seen whose writes: a clock for each warp and what each warp knows of the others' (vector clocks).

A warp's clock counts the points where it synchronised. An access is ordered behind an earlier one of another warp when
a barrier between them carried that warp's clock over (Lamport, 1978; Mattern, 1989).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define, field

from sexpgpu.sim.lanes import WARP, Lanes, Mask
from sexpgpu.sim.types import Array


@define(eq=False)
class Clock:
    """`now[b, w]` is the clock of warp `w` of block `b`; `known[b, w, v]` the latest of `v` that `w` has seen."""

    now: Array
    known: Array
    met: Array  # by block: barriers of all its warps
    heard: dict[int, Array] = field(factory=dict)  # by mbarrier: what those who arrived knew
    left: dict[int, Array] = field(factory=dict)  # by barrier: what those who arrived without waiting knew

    @classmethod
    def of(cls, blocks: int, warps: int) -> Clock:
        return cls(
            np.ones((blocks, warps), np.int32), np.zeros((blocks, warps, warps), np.int32), np.zeros(blocks, np.int32)
        )

    def _rows(self, st: Lanes, lanes: Array) -> Array:
        """The warps that have one of the lanes, [block, warp]."""
        rows = np.zeros(self.now.shape, np.bool_)
        here = np.asarray(lanes.reshape(len(rows), -1, WARP).any(2))
        np.put_along_axis(rows, st.layout.warps, here, axis=1)
        return rows

    def _told(self) -> Array:
        """What each warp can tell: what it knows, and its own clock."""
        told = self.known.copy()
        each = np.arange(self.now.shape[1])
        told[:, each, each] = self.now
        return told

    def all_meet(self) -> None:
        """All warps of all blocks have met at a barrier of their block."""
        self.known[:] = self.now[:, None, :]
        self.now += 1
        self.met += 1

    def meet(self, parts: Sequence[tuple[Lanes, Array]], number: int) -> None:
        """The warps of some lanes have met at barrier `number` of their block."""
        rows = np.zeros(self.now.shape, np.bool_)
        for st, lanes in parts:
            rows |= self._rows(st, lanes)
        met = np.where(rows[:, :, None], self._told(), 0).max(1)
        if number in self.left:
            here = np.asarray(rows.any(1))[:, None]
            met = np.maximum(met, np.where(here, self.left[number], 0))
            self.left[number] = np.where(here, 0, self.left[number])
        self.known = np.where(rows[:, :, None], met[:, None, :], self.known)
        self.now += rows
        self.met += rows.all(1)

    def arrive(self, st: Lanes, number: int, lanes: Array) -> None:
        """The warps of some lanes have arrived at a barrier without waiting."""
        rows = self._rows(st, lanes)
        told = np.where(rows[:, :, None], self._told(), 0).max(1)
        self.left[number] = np.maximum(self.left.get(number, np.zeros_like(told)), told)
        self.now += rows

    def tell(self, st: Lanes, lanes: Array, index: Array) -> None:
        """Lanes arrive at the mbarriers at bytes `index`: who hears of one sees what they have written."""
        for block, warp, at in _each(st, lanes, index):
            told = self.known[block, warp].copy()
            told[warp] = self.now[block, warp]
            self.heard[at] = np.maximum(self.heard.get(at, np.zeros_like(told)), told)
            self.now[block, warp] += 1

    def hear(self, st: Lanes, lanes: Array, index: Array) -> None:
        """Lanes have seen a phase of the mbarriers at bytes `index` end."""
        for block, warp, at in _each(st, lanes, index):
            if at in self.heard:
                self.known[block, warp] = np.maximum(self.known[block, warp], self.heard[at])

    def warps(self, st: Lanes, m: Mask) -> None:
        """Lanes have met within their warps."""
        active = st.active(m)
        self.now += self._rows(st, np.ones(st.size, np.bool_) if active is None else active)


def _each(st: Lanes, lanes: Array, index: Array) -> list[tuple[int, int, int]]:
    """Block, warp and mbarrier of every lane, each once."""
    block, warp = st.block.take(lanes), st.thread.take(lanes) // WARP
    places = np.broadcast_to(index, lanes.shape)
    return sorted({(int(b), int(w), int(i)) for b, w, i in zip(block, warp, places, strict=True)})
