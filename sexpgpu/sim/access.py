"""Where a memory instruction touches memory: bounds and alignment, the spaces, gathers and scatters.

Every access goes through `locate`, which proves it inside what exists and aligned, so the gathers behind it need no
checks of their own; what else watches memory (shadows of initialised bytes, races, traffic) is told from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from attrs import frozen

from sexpgpu.sim import watch
from sexpgpu.sim.decode import WINDOW_SHIFT
from sexpgpu.sim.lanes import Lanes, Mask
from sexpgpu.sim.memory import BASE
from sexpgpu.sim.source import Instr
from sexpgpu.sim.types import Array

Kind = Literal["read", "write", "atomic", "issue", "arrival"]  # the last two: of an asynchronous copy to shared memory
OFFSET = (1 << WINDOW_SHIFT) - 1
SPACES = {0: "global", 1: "shared", 2: "local", 3: "param"}


@frozen(eq=False)
class Touch:
    """An access that is in order: `index` are the first bytes in the space's flat array, one a lane of `lanes`.

    `index` has one element where all lanes touch the same place. `lanes` are the numbers of the active lanes.
    """

    space: str
    index: Array
    width: int
    lanes: Array
    ins: Instr
    kind: Kind


def locate(st: Lanes, m: Mask, ins: Instr, space: str, address: Array, width: int, kind: Kind, align: int = 0) -> Touch:
    """Check an access of `width` bytes at `address` (int64, of one or every lane) by the active lanes.

    The address is a multiple of `align`, of the width where that is 0.
    """
    align = align or width
    lanes = st.selected(m)
    a = address if address.shape[0] == 1 or lanes is st.lane else address.take(lanes)
    if np.bitwise_or.reduce(a) & (align - 1):
        _misaligned(st, ins, a, lanes, align)
    if space in ("global", "const"):
        if not st.memory.within(int(a.min()), int(a.max()) + width):
            _outside_global(st, ins, a, lanes, width, kind)
        index = a - BASE
    elif space == "shared":
        if int(a.min()) < 0 or int(a.max()) + width > st.shape.shared:
            _outside(st, ins, a, lanes, width, st.shape.shared, "shared memory of the block", kind)
        base = st.shared_base if lanes is st.lane else st.shared_base.take(lanes)
        index = a + base
    else:
        if int(a.min()) < 0 or int(a.max()) + width > st.shape.local:
            _outside(st, ins, a, lanes, width, st.shape.local, "local memory of the thread", kind)
        index = a + lanes * st.shape.local_stride
    touch = Touch(space, index, width, lanes, ins, kind)
    if st.checks.watching:
        watch.access(st, touch)
    if space == "global":
        if kind != "write":
            st.counters.read += width * len(lanes)
        if kind != "read":
            st.counters.written += width * len(lanes)
    return touch


def _lane(lanes: Array, at: int) -> int:
    return int(lanes[at if at < len(lanes) else 0])


def _misaligned(st: Lanes, ins: Instr, a: Array, lanes: Array, width: int) -> None:
    at = int(np.flatnonzero(a & (width - 1))[0])
    st.fail(
        "E-SIM-022",
        "a misaligned access",
        ins,
        _lane(lanes, at),
        expected=f"an address that {width} divides",
        actual=f"{int(a[at]):#x}",
    )


def _outside_global(st: Lanes, ins: Instr, a: Array, lanes: Array, width: int, kind: Kind) -> None:
    """Report the first lane outside every allocation; several allocations in one access are in order."""
    starts = np.array([x.start for x in st.memory.allocations] or [0], np.int64)
    ends = np.array([x.end for x in st.memory.allocations] or [0], np.int64)
    at = np.searchsorted(starts, a, side="right") - 1
    bad = (at < 0) | (a + width > ends[at])
    if not bad.any():
        return
    first = int(np.flatnonzero(bad)[0])
    address = int(a[first])
    found = st.memory.find(address)
    st.fail(
        "E-SIM-020",
        f"a {_noun(kind)} of {width} bytes outside every allocation",
        ins,
        _lane(lanes, first),
        expected=f"all {width} bytes inside {found.name}" if found else None,
        actual=st.memory.describe(address),
    )


def _noun(kind: Kind) -> str:
    return {"read": "read", "atomic": "read and write"}.get(kind, "write")


def _outside(st: Lanes, ins: Instr, a: Array, lanes: Array, width: int, size: int, what: str, kind: Kind) -> None:
    first = int(np.flatnonzero((a < 0) | (a + width > size))[0])
    st.fail(
        "E-SIM-021",
        f"a {_noun(kind)} of {width} bytes outside the {what}",
        ins,
        _lane(lanes, first),
        expected=f"within {size} bytes",
        actual=f"at byte {int(a[first])}",
    )


def data_of(st: Lanes, space: str) -> dict[int, Array]:
    """The bytes of a space, as elements of each width."""
    if space == "shared":
        return st.shared_views
    return st.local_views if space == "local" else st.memory.views


def fetch(st: Lanes, touch: Touch) -> Array:
    """The elements at a touch; widths above 16 come as rows of 8-byte elements."""
    views = data_of(st, touch.space)
    if touch.width <= 16:
        return views[touch.width].take(touch.index >> _log(touch.width))
    rows = views[8].reshape(-1, touch.width // 8)
    return np.ascontiguousarray(rows.take(touch.index >> _log(touch.width), axis=0))


def put(st: Lanes, touch: Touch, values: Array) -> None:
    """Store elements, or rows of 8-byte elements, at a touch. Of lanes with one place the last wins."""
    views = data_of(st, touch.space)
    if touch.index.shape[0] < values.shape[0]:
        values = values[-1:]
    if touch.width <= 16:
        views[touch.width][touch.index >> _log(touch.width)] = values
    else:
        views[8].reshape(-1, touch.width // 8)[touch.index >> _log(touch.width)] = values


def _log(width: int) -> int:
    return width.bit_length() - 1


def by_space(st: Lanes, m: Mask, address: Array, run: Callable[[Mask, str, Array], None]) -> None:
    """Run a generic access once for each space that its addresses lie in."""
    windows = address >> WINDOW_SHIFT
    lanes = st.selected(m)
    mine = windows if windows.shape[0] == 1 else windows.take(lanes)
    present = {int(mine[0])} if (mine == mine[0]).all() else {int(x) for x in np.unique(mine)}
    for window in sorted(present):
        space = SPACES.get(window, "global")
        offset = address & OFFSET if window in (1, 2, 3) else address
        if len(present) == 1:
            run(m, space, offset)
            continue
        part = np.zeros(st.size, np.bool_)
        part[lanes[mine == window]] = True
        run(part, space, offset)
