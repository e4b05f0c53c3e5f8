"""The special registers: who a thread is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sexpgpu.diag import SxError
from sexpgpu.sim.lanes import WARP, Lanes
from sexpgpu.sim.types import Array, Scalar

AXES = {"x": 0, "y": 1, "z": 2}


def _axis(values: Array, axis: int, dims: tuple[int, int, int]) -> Array:
    if axis == 0:
        return values % dims[0]
    return values // dims[0] % dims[1] if axis == 1 else values // (dims[0] * dims[1])


def _compute(name: str, st: Lanes) -> Array:
    word, _, axis = name[1:].partition(".")
    shape = st.shape
    lane = st.thread % WARP
    if axis:
        n = AXES[axis]
        if word in ("ntid", "nctaid"):
            return np.array([(shape.block if word == "ntid" else shape.grid)[n]], np.int64)
        dims = shape.block if word == "tid" else shape.grid
        if dims[n] == 1:
            return np.zeros(1, np.int64)
        if word == "tid":
            return _axis(st.thread, n, dims)
        return np.repeat(_axis(st.blocks, n, dims), st.size // len(st.blocks))
    one = np.int64(1)
    by_name: dict[str, Callable[[], Array]] = {
        "laneid": lambda: lane,
        "warpid": lambda: st.thread // WARP,
        "nwarpid": lambda: np.array([shape.padded // WARP], np.int64),
        "lanemask_eq": lambda: one << lane,
        "lanemask_lt": lambda: (one << lane) - 1,
        "lanemask_le": lambda: (one << (lane + 1)) - 1,
        "lanemask_gt": lambda: 0xFFFFFFFF ^ ((one << (lane + 1)) - 1),
        "lanemask_ge": lambda: 0xFFFFFFFF ^ ((one << lane) - 1),
        "dynamic_smem_size": lambda: np.array([shape.dynamic], np.int64),
        "total_smem_size": lambda: np.array([shape.shared], np.int64),
        "smid": lambda: np.zeros(1, np.int64),
        "nsmid": lambda: np.ones(1, np.int64),
        "gridid": lambda: np.zeros(1, np.int64),
        "cluster_ctarank": lambda: np.zeros(1, np.int64),
        "cluster_nctarank": lambda: np.ones(1, np.int64),
    }
    return by_name[word]()


TICKING = ("%clock", "%clock64", "%globaltimer")


def special(name: str, kind: Scalar, unknown: SxError) -> Callable[[Lanes], Array]:
    """How a special register is read; computed once for a batch of blocks, or for all of its size."""
    if name in TICKING or name.startswith("%envreg"):
        raise unknown
    key = f"{name}:{kind.bits}"
    of_batch = name.startswith("%ctaid")

    def read(st: Lanes) -> Array:
        cached = st.cached if of_batch else st.layout.cached
        found = cached.get(key)
        if found is None:
            found = cached[key] = _compute(name, st).astype(kind.storage)
        return found.view(kind.dtype)

    return read
