"""What accesses cost the memory system: sectors of global memory, wavefronts of shared memory.

A request is one instruction of one warp. Global memory moves in sectors of 32 bytes: the fewest are those that the
different bytes of the request fill. Shared memory has 32 banks of 4 bytes: a wavefront takes one word from each, so
lanes with different words of one bank wait for each other. Requests of 8 and 16 bytes a lane go by halves and quarters
of the warp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sexpgpu.sim.lanes import WARP, Lanes
from sexpgpu.sim.types import Array

if TYPE_CHECKING:
    from sexpgpu.sim.access import Touch

SECTOR = 32
BANKS = 32
WORD = 4
NOBODY = -1


def access(st: Lanes, touch: Touch) -> None:
    """Count an access; what the copy engine and the tensor cores move does not go lane by lane."""
    if touch.ins.op == "wgmma" or "bulk" in touch.ins.parts:
        return
    if touch.space == "global":
        _sectors(st, touch)
    elif touch.space == "shared" and touch.kind != "arrival":
        _wavefronts(st, touch)


def by_warp(st: Lanes, touch: Touch) -> Array:
    """The first byte of each lane's access in rows of warps with somebody active; NOBODY for the others."""
    full = np.full(st.size, NOBODY, np.int64)
    full[touch.lanes] = touch.index
    rows = full.reshape(-1, WARP)
    some: Array = rows[(rows != NOBODY).any(1)]
    return some


def _distinct(x: Array) -> Array:
    """Along rows, True at the first of equal values; `x` is sorted; NOBODY never counts."""
    first = np.ones(x.shape, np.bool_)
    first[:, 1:] = x[:, 1:] != x[:, :-1]
    found: Array = first & (x != NOBODY)
    return found


def _sectors(st: Lanes, touch: Touch) -> None:
    rows = np.sort(by_warp(st, touch), axis=1)
    different = _distinct(rows).sum(1)
    fewest = -(-different * touch.width // SECTOR)
    n = max(touch.width // SECTOR, 1)
    sectors = np.where(rows == NOBODY, NOBODY, rows // SECTOR)
    taken = _distinct(np.sort(sectors, axis=1)).sum(1) * n
    _add(st.counters.sectors, touch, len(rows), int(taken.sum()), int(fewest.sum()))


def _wavefronts(st: Lanes, touch: Touch) -> None:
    rows = by_warp(st, touch)
    words = max(touch.width // WORD, 1)
    groups = rows.reshape(-1, WARP // min(words, 4))
    first = np.where(groups == NOBODY, NOBODY, groups // WORD)
    each = np.where(first[:, :, None] == NOBODY, NOBODY, first[:, :, None] + np.arange(words))
    table = np.sort(each.reshape(len(groups), -1), axis=1)
    new = _distinct(table)
    group = np.broadcast_to(np.arange(len(table))[:, None], table.shape)
    counts = np.bincount((group * BANKS + table % BANKS)[new], minlength=len(table) * BANKS).reshape(-1, BANKS)
    taken = int(counts.max(1).sum())
    fewest = int((-(-new.sum(1) // BANKS)).sum())
    _add(st.counters.banks, touch, len(rows), taken, fewest)


def _add(sums: dict[tuple[int, str], list[int]], touch: Touch, requests: int, taken: int, fewest: int) -> None:
    known = sums.setdefault((touch.ins.line, touch.ins.text), [0, 0, 0])
    known[0] += requests
    known[1] += taken
    known[2] += fewest
