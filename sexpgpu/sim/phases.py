"""The 64 bits of an mbarrier: arrivals that the phase waits for, those of a whole phase, bytes to come, parity."""

from __future__ import annotations

import numpy as np

from sexpgpu.sim.lanes import Lanes
from sexpgpu.sim.types import Array

MOST = (1 << 20) - 1
WHOLE, BYTES, PHASE = 20, 40, 63
HALF = 1 << 22  # the bytes to come are held with this added


def packed(count: Array, whole: Array, size: Array, phase: Array) -> Array:
    """The fields (int64) as the 64 bits of the object."""
    low = count | whole << WHOLE | (size + HALF) << BYTES
    bits: Array = low.astype(np.uint64) | phase.astype(np.uint64) << np.uint64(PHASE)
    return bits


def fields(bits: Array) -> tuple[Array, Array, Array, Array]:
    """Arrivals to come, arrivals of a phase, bytes to come, parity; as int64."""
    low = (bits & np.uint64((1 << PHASE) - 1)).astype(np.int64)
    size = (low >> BYTES) - HALF
    return low & MOST, low >> WHOLE & MOST, size, (bits >> np.uint64(PHASE)).astype(np.int64)


def change(st: Lanes, index: Array, arrivals: Array, size: Array) -> Array:
    """Take arrivals away from the objects at `index` (bytes) and add bytes to come; one of them ran below nothing."""
    data = st.shared_views[8]
    at, which = np.unique(index >> 3, return_inverse=True)
    count, whole, left, phase = fields(data[at])
    taken, more = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    np.add.at(taken, which, arrivals)
    np.add.at(more, which, size)
    count, left = count - taken, left + more
    wrong: Array = (count < 0)[which]
    done = (count == 0) & (left == 0)
    data[at] = packed(np.where(done, whole, np.maximum(count, 0)), whole, left, np.where(done, 1 - phase, phase))
    return wrong
