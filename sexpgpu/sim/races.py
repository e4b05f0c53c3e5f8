"""Accesses to the same bytes in no order: between the threads of a block, and between blocks.

Memory is seen in granules, as small as the smallest access of the kernel, so nothing is lost. Of each granule the last
write is kept, and of shared memory the last read by each warp: a new access has to be ordered behind those that it
conflicts with, by the clocks of `clock`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from attrs import define, field

from sexpgpu.diag import Note
from sexpgpu.sim.clock import Clock
from sexpgpu.sim.lanes import WARP, Lanes, span_of
from sexpgpu.sim.source import Instr
from sexpgpu.sim.types import Array

if TYPE_CHECKING:
    from sexpgpu.sim.access import Touch

SEVERAL = 255  # more than one lane of a warp has read
COLLECTIVE = frozenset({"ldmatrix", "stmatrix", "wgmma"})


@define(eq=False)
class SharedTrace:
    """Who touched the shared memory of a batch last, a granule each; threads and instructions count from 1."""

    granule: int
    writer: Array
    clock: Array
    atomic: Array
    place: Array  # the instruction that wrote
    flying: Array  # the thread whose asynchronous copy is not done
    read: Array  # [granule, warp]: the clock of the last read
    reader: Array  # [granule, warp]: the lane, or SEVERAL
    reading: Array  # [granule, warp]: the instruction
    instructions: list[Instr] = field(factory=list)
    numbers: dict[int, int] = field(factory=dict)

    @classmethod
    def of(cls, size: int, granule: int, warps: int) -> SharedTrace:
        n = size // granule
        each = (n, warps)
        return cls(
            granule,
            np.zeros(n, np.int32),
            np.zeros(n, np.int32),
            np.zeros(n, np.bool_),
            np.zeros(n, np.int32),
            np.zeros(n, np.int32),
            np.zeros(each, np.int32),
            np.zeros(each, np.uint8),
            np.zeros(each, np.int32),
        )

    def number(self, ins: Instr) -> int:
        """The number of an instruction, from 1."""
        found = self.numbers.get(id(ins))
        if found is None:
            self.instructions.append(ins)
            found = self.numbers[id(ins)] = len(self.instructions)
        return found


@define(eq=False)
class Access:
    """A touch by granule: `at`, with the lane, block, warp and clock of each; lane −1 is the whole warp."""

    at: Array
    lane: Array
    block: Array
    warp: Array
    within: Array
    now: Array


def _spread(st: Lanes, clock: Clock, touch: Touch, granule: int) -> Access:
    n = max(touch.width // granule, 1)
    first = np.broadcast_to(touch.index // granule, touch.lanes.shape)
    at = (first[:, None] + np.arange(n)).reshape(-1) if n > 1 else first
    lane = np.repeat(touch.lanes, n) if n > 1 else touch.lanes
    block, thread = st.block.take(lane), st.thread.take(lane)
    warp = thread // WARP
    within = np.full_like(thread, -1) if touch.ins.op in COLLECTIVE else thread - warp * WARP
    return Access(at, lane, block, warp, within, clock.now[block, warp])


def shared(st: Lanes, clock: Clock, touch: Touch) -> None:
    """Check an access to shared memory against those before it, and remember it."""
    trace = st.trace
    if trace is None:
        return
    a = _spread(st, clock, touch, trace.granule)
    if touch.kind == "arrival":
        trace.flying[a.at] = 0
        _remember_write(trace, a, touch, st)
        return
    flying = trace.flying[a.at] != 0
    if flying.any():
        i = int(np.flatnonzero(flying)[0])
        _unfinished(st, touch, a, i, int(trace.flying[a.at[i]]) - 1)
    _against_writes(st, clock, trace, touch, a)
    if touch.kind == "read":
        _remember_read(trace, a, touch)
        return
    _against_reads(st, clock, trace, touch, a)
    if touch.kind == "issue":
        trace.flying[a.at] = st.thread.take(a.lane) + 1
        return
    _against_neighbours(st, touch, a)
    _remember_write(trace, a, touch, st)


def _against_writes(st: Lanes, clock: Clock, trace: SharedTrace, touch: Touch, a: Access) -> None:
    writer = trace.writer[a.at]
    if not writer.any():
        return
    thread = writer - 1
    warp, when = thread // WARP, trace.clock[a.at]
    same = warp == a.warp
    seen = clock.known[a.block, a.warp, np.maximum(warp, 0)]
    ordered = np.where(same, (when < a.now) | (thread - warp * WARP == a.within), when <= seen)
    bad = (writer > 0) & ~ordered
    if touch.kind == "atomic":
        bad &= ~trace.atomic[a.at]
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        before = trace.instructions[int(trace.place[a.at[i]]) - 1]
        _race(st, touch, a, i, int(thread[i]), "wrote", before)


def _against_reads(st: Lanes, clock: Clock, trace: SharedTrace, touch: Touch, a: Access) -> None:
    when = trace.read[a.at]
    if not when.any():
        return
    seen = clock.known[a.block, a.warp].copy()
    own = np.arange(len(a.at)), a.warp
    alone = trace.reader[a.at, a.warp] == a.within
    seen[own] = np.where(alone, a.now, a.now - 1)
    bad = when > seen
    if bad.any():
        i, warp = (int(x[0]) for x in np.nonzero(bad))
        lane = int(trace.reader[a.at[i], warp])
        before = trace.instructions[int(trace.reading[a.at[i], warp]) - 1]
        _race(st, touch, a, i, warp * WARP + (0 if lane == SEVERAL else lane), "read", before)


def _against_neighbours(st: Lanes, touch: Touch, a: Access) -> None:
    """Two warps that write the same place by one instruction; within a warp one of the lanes wins, as PTX says."""
    if touch.kind == "atomic" or len(a.at) < 2:
        return
    order = np.argsort(a.at, kind="stable")
    same = (a.at[order[1:]] == a.at[order[:-1]]) & (a.warp[order[1:]] != a.warp[order[:-1]])
    if same.any():
        k = int(np.flatnonzero(same)[0])
        _race(st, touch, a, int(order[k + 1]), int(st.thread[a.lane[order[k]]]), "wrote", touch.ins)


def _remember_write(trace: SharedTrace, a: Access, touch: Touch, st: Lanes) -> None:
    trace.writer[a.at] = st.thread.take(a.lane) + 1
    trace.clock[a.at] = a.now
    trace.atomic[a.at] = touch.kind == "atomic"
    trace.place[a.at] = trace.number(touch.ins)


def _remember_read(trace: SharedTrace, a: Access, touch: Touch) -> None:
    old, who = trace.read[a.at, a.warp], trace.reader[a.at, a.warp]
    mine = np.where(a.within < 0, SEVERAL, a.within).astype(np.uint8)
    several = (old == a.now) & (who != mine)
    trace.read[a.at, a.warp] = a.now
    trace.reader[a.at, a.warp] = mine
    several |= trace.reader[a.at, a.warp] != mine  # two lanes of this instruction
    trace.reader[a.at[several], a.warp[several]] = SEVERAL
    trace.reading[a.at, a.warp] = trace.number(touch.ins)


def _verb(touch: Touch) -> str:
    return {"read": "reads", "atomic": "updates"}.get(touch.kind, "writes")


def _race(st: Lanes, touch: Touch, a: Access, i: int, thread: int, did: str, before: Instr) -> None:
    lane = int(a.lane[i])
    other = _thread_name(st, thread)
    byte = int(a.at[i]) * (st.trace.granule if st.trace else 1) - int(st.shared_base[lane])
    st.fail(
        "E-SIM-024",
        f"a race: a thread {_verb(touch)} shared memory that another {did}, with no barrier between",
        touch.ins,
        lane,
        actual=f"byte {byte}, which thread {other} {did} at line {before.line}",
        help="a barrier between the two accesses puts them in an order",
        notes=(Note(f"the other access: {before.text}", span_of(st.shape.file, before)),),
    )


def _thread_name(st: Lanes, thread: int) -> tuple[int, int, int]:
    x, y, _ = st.shape.block
    return thread % x, thread // x % y, thread // (x * y)


def _unfinished(st: Lanes, touch: Touch, a: Access, i: int, thread: int) -> None:
    lane = int(a.lane[i])
    byte = int(a.at[i]) * (st.trace.granule if st.trace else 1) - int(st.shared_base[lane])
    st.fail(
        "E-SIM-025",
        f"a thread {_verb(touch)} shared memory that an unfinished asynchronous copy is to fill",
        touch.ins,
        lane,
        actual=f"byte {byte}, copied by thread {_thread_name(st, thread)}",
        help="cp.async.wait_group, then a barrier where other threads made the copy",
    )
