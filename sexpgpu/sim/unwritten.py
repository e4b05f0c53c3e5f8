"""Bytes that nobody has written: a shadow of global, shared and local memory, 1 where a byte has a content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sexpgpu.sim.lanes import Lanes, views_of
from sexpgpu.sim.memory import BASE
from sexpgpu.sim.types import Array

if TYPE_CHECKING:
    from sexpgpu.sim.access import Touch

ONES = {w: np.frombuffer(b"\1" * w, f"u{w}") for w in (1, 2, 4, 8)} | {16: np.frombuffer(b"\1" * 16, np.complex128)}


def access(st: Lanes, touch: Touch) -> None:
    """Report a read of an unwritten byte; note what is written."""
    shadow = _shadow(st, touch.space)
    if shadow is None:
        return
    if touch.kind in ("read", "atomic"):
        _check(st, touch, shadow)
    if touch.kind in ("write", "arrival"):
        _mark(touch, shadow)


def _shadow(st: Lanes, space: str) -> Array | None:
    if space == "shared":
        return st.shared_known
    if space == "local":
        return st.local_known
    return st.memory.known if space == "global" else None


def _log(width: int) -> int:
    return width.bit_length() - 1


def _check(st: Lanes, touch: Touch, shadow: Array) -> None:
    width = touch.width
    if width & (width - 1):  # the tail of an asynchronous copy
        known = shadow[touch.index[:, None] + np.arange(width)].all(1)
    elif width <= 8:
        known = shadow.view(f"u{width}").take(touch.index >> _log(width)) == ONES[width][0]
    else:
        rows = shadow.view(np.uint64).reshape(-1, width // 8).take(touch.index >> _log(width), axis=0)
        known = (rows == ONES[8][0]).all(1)
    if known.all():
        return
    first = int(np.flatnonzero(~known)[0])
    start = int(touch.index[first])
    byte = start + int(np.flatnonzero(shadow[start : start + width] == 0)[0])
    lane = int(touch.lanes[first if first < len(touch.lanes) else 0])
    st.fail(
        "E-SIM-023",
        "a read of memory that nobody has written",
        touch.ins,
        lane,
        actual=_place(st, touch.space, byte, lane),
    )


def _place(st: Lanes, space: str, byte: int, lane: int) -> str:
    if space == "global":
        return st.memory.describe(byte + BASE)
    if space == "shared":
        return f"byte {byte - int(st.shared_base[lane])} of the block's shared memory"
    return f"byte {byte - lane * st.shape.local_stride} of the thread's local memory"


def _mark(touch: Touch, shadow: Array) -> None:
    width = touch.width
    if width <= 16:
        views_of(shadow)[width][touch.index >> _log(width)] = ONES[width][0]
    else:
        shadow.view(np.uint64).reshape(-1, width // 8)[touch.index >> _log(width)] = ONES[8][0]
