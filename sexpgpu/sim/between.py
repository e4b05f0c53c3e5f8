"""Accesses of one launch to the same global memory in no order: of different blocks, or of threads of one block.

Blocks run in any order, so a byte that one wrote is no other's to touch, unless both order themselves by atomic
updates: a fence and an update in the one behind its write, an update in the other before its access (the pattern by
which the last block of a reduction knows that it is the last).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from attrs import define, field

from sexpgpu.diag import Note
from sexpgpu.sim.clock import Clock
from sexpgpu.sim.lanes import WARP, Lanes, span_of, unravel
from sexpgpu.sim.memory import BASE, Allocation
from sexpgpu.sim.source import Instr
from sexpgpu.sim.types import Array

if TYPE_CHECKING:
    from sexpgpu.sim.access import Touch

MANY_BLOCKS = -1
MANY_THREADS = -2  # and below: −2 − block


@define(eq=False)
class Side:
    """The last accesses of one kind to the granules of an allocation: who, at which clocks, by which instruction."""

    who: Array  # thread of the launch, from 1; 0 is nobody; negative: several
    clock: Array  # of the warp
    met: Array  # barriers of the whole block before it
    tick: Array  # of the launch
    place: Array

    @classmethod
    def of(cls, n: int) -> Side:
        return cls(np.zeros(n, np.int64), *(np.zeros(n, np.int32) for _ in range(4)))


@define(eq=False)
class Releases:
    """When a block made its writes known: up to which tick, and at which."""

    upto: list[int] = field(factory=list)
    at: list[int] = field(factory=list)


@define(eq=False)
class GlobalTrace:
    """Who touched global memory last, for the allocations that a launch touches."""

    granule: int
    writes: dict[int, Side] = field(factory=dict)
    updates: dict[int, Array] = field(factory=dict)  # whether the last write was an atomic one
    reads: dict[int, Side] = field(factory=dict)
    tick: int = 0
    fenced: dict[int, int] = field(factory=dict)  # by block: the tick of its last fence
    released: dict[int, Releases] = field(factory=dict)
    acquired: dict[int, int] = field(factory=dict)
    instructions: list[Instr] = field(factory=list)
    numbers: dict[int, int] = field(factory=dict)

    def number(self, ins: Instr) -> int:
        found = self.numbers.get(id(ins))
        if found is None:
            self.instructions.append(ins)
            found = self.numbers[id(ins)] = len(self.instructions)
        return found

    def sides(self, allocation: Allocation) -> tuple[Side, Side, Array]:
        key = allocation.start
        if key not in self.writes:
            n = -(-allocation.size // self.granule)
            self.writes[key], self.reads[key] = Side.of(n), Side.of(n)
            self.updates[key] = np.zeros(n, np.bool_)
        return self.writes[key], self.reads[key], self.updates[key]

    def fence(self, blocks: Array) -> None:
        """Threads of these blocks have come to a fence of the device."""
        self.tick += 1
        for block in blocks:
            self.fenced[int(block)] = self.tick

    def update(self, blocks: Array) -> None:
        """Threads of these blocks have updated something atomically: they publish what is behind a fence, and see."""
        self.tick += 1
        for block in [int(b) for b in blocks]:
            fence = self.fenced.get(block, 0)
            if fence:
                known = self.released.setdefault(block, Releases())
                if not known.upto or known.upto[-1] < fence:
                    known.upto.append(fence)
                    known.at.append(self.tick)
            self.acquired[block] = self.tick

    def ordered(self, earlier: int, tick: int, later: int) -> bool:
        """Whether block `later` has seen what block `earlier` did at `tick`."""
        seen = self.acquired.get(later, 0)
        known = self.released.get(earlier)
        return known is not None and any(tick < u and at <= seen for u, at in zip(known.upto, known.at, strict=True))


@define(eq=False)
class _Now:
    """The granules of an access and the lane, thread, block, clocks of each."""

    at: Array
    lane: Array
    thread: Array  # of the launch, from 1
    local: Array  # block within the batch
    block: Array
    warp: Array
    clock: Array
    met: Array


def access(st: Lanes, clock: Clock, touch: Touch) -> None:
    """Check an access to global memory against those before it in the launch, and remember it."""
    trace = st.launch
    if trace is None:
        return
    starts = touch.index if touch.index.shape[0] > 1 else np.broadcast_to(touch.index, touch.lanes.shape)
    low = st.memory.find(int(starts.min()) + BASE)
    if low is not None and int(starts.max()) + BASE < low.end:
        _inside(st, clock, trace, touch, low, starts, touch.lanes)
        return
    for allocation in st.memory.allocations:
        inside = (starts + BASE >= allocation.start) & (starts + BASE < allocation.end)
        if inside.any():
            _inside(st, clock, trace, touch, allocation, starts[inside], touch.lanes[inside])


def _inside(
    st: Lanes, clock: Clock, trace: GlobalTrace, touch: Touch, allocation: Allocation, starts: Array, lanes: Array
) -> None:
    granule = trace.granule
    n = max(touch.width // granule, 1)
    first = (starts - (allocation.start - BASE)) // granule
    at = (first[:, None] + np.arange(n)).reshape(-1) if n > 1 else first
    lane = np.repeat(lanes, n) if n > 1 else lanes
    local, inner = st.block.take(lane), st.thread.take(lane)
    block, warp = st.blocks.take(local), inner // WARP
    thread = block * st.shape.threads + inner + 1
    now = _Now(at, lane, thread, local, block, warp, clock.now[local, warp], clock.met[local])
    writes, reads, updates = trace.sides(allocation)
    _against(st, clock, trace, touch, allocation, now, writes, "wrote", updates if touch.kind == "atomic" else None)
    if touch.kind == "read":
        _note_read(trace, reads, now, touch, st.shape.threads)
        return
    _against(st, clock, trace, touch, allocation, now, reads, "read", None)
    _note(trace, writes, now, touch, now.thread)
    updates[at] = touch.kind == "atomic"
    if touch.kind == "write":
        _same_place(st, touch, allocation, now, trace)
    else:
        trace.update(np.unique(block))


def _against(
    st: Lanes,
    clock: Clock,
    trace: GlobalTrace,
    touch: Touch,
    allocation: Allocation,
    now: _Now,
    side: Side,
    did: str,
    excused: Array | None,
) -> None:
    """Report an earlier access that this one is not ordered behind."""
    who = side.who[now.at]
    open_ = (who != 0) & (who != now.thread)
    if excused is not None:
        open_ &= ~excused[now.at]
    if not open_.any():
        return
    threads = st.shape.threads
    block = np.where(who > 0, (who - 1) // threads, MANY_THREADS - who)
    own = (who != MANY_BLOCKS) & (block == now.block)
    warp = (who - 1) % threads // WARP
    when = side.clock[now.at]
    seen = clock.known[now.local, now.warp, np.where(own & (who > 0), warp, 0)]
    alone = np.where(warp == now.warp, when < now.clock, when <= seen)
    fine = own & np.where(who > 0, alone, side.met[now.at] < now.met)
    for i in np.flatnonzero(open_ & ~fine):
        k = int(i)
        other = -1 if who[k] == MANY_BLOCKS else int(block[k])
        if not own[k] and other >= 0 and trace.ordered(other, int(side.tick[now.at[k]]), int(now.block[k])):
            continue
        if other < 0 and _all_ordered(trace, int(side.tick[now.at[k]]), int(now.block[k])):
            continue
        before = trace.instructions[int(side.place[now.at[k]]) - 1]
        thread = int((who[k] - 1) % threads) if who[k] > 0 else None
        _race(st, touch, allocation, trace.granule, now, k, other, did, before, thread)


def _all_ordered(trace: GlobalTrace, tick: int, block: int) -> bool:
    """Whether every block that published anything did so behind `tick` and before `block` looked."""
    others = [b for b in trace.released if b != block]
    return bool(others) and all(trace.ordered(b, tick, block) for b in others)


def _note(trace: GlobalTrace, side: Side, now: _Now, touch: Touch, who: Array) -> None:
    trace.tick += 1
    side.who[now.at] = who
    side.clock[now.at] = now.clock
    side.met[now.at] = now.met
    side.tick[now.at] = trace.tick
    side.place[now.at] = trace.number(touch.ins)


def _note_read(trace: GlobalTrace, side: Side, now: _Now, touch: Touch, threads: int) -> None:
    """Remember readers: a thread, several of a block, or several blocks."""
    old = side.who[now.at]
    _note(trace, side, now, touch, now.thread)
    mine = side.who[now.at]  # of several lanes at one place the last
    former = np.where(old > 0, (old - 1) // threads, np.where(old < MANY_BLOCKS, MANY_THREADS - old, -1))
    latest = (mine - 1) // threads
    blocks = (old == MANY_BLOCKS) | ((old != 0) & (former != now.block)) | (latest != now.block)
    several = ((old != 0) & (old != now.thread)) | (mine != now.thread)
    side.who[now.at[several]] = MANY_THREADS - now.block[several]
    side.who[now.at[blocks]] = MANY_BLOCKS


def _same_place(st: Lanes, touch: Touch, allocation: Allocation, now: _Now, trace: GlobalTrace) -> None:
    """Two warps that write one place by one instruction."""
    order = np.argsort(now.at, kind="stable")
    a, b = order[1:], order[:-1]
    other = (now.warp[a] != now.warp[b]) | (now.block[a] != now.block[b])
    same = (now.at[a] == now.at[b]) & other
    if same.any():
        k = int(np.flatnonzero(same)[0])
        former = int(b[k])
        thread = int(now.thread[former] - 1) % st.shape.threads
        at = int(a[k])
        _race(st, touch, allocation, trace.granule, now, at, int(now.block[former]), "wrote", touch.ins, thread)


def _race(
    st: Lanes,
    touch: Touch,
    allocation: Allocation,
    granule: int,
    now: _Now,
    k: int,
    other: int,
    did: str,
    before: Instr,
    thread: int | None,
) -> None:
    verb = {"read": "reads", "atomic": "updates"}.get(touch.kind, "writes")
    own = other == int(now.block[k])
    whose = "another thread of its block" if own else "another block"
    at = f"byte {int(now.at[k]) * granule} of {allocation.name}"
    who = "which several blocks" if other < 0 else f"which block {unravel(other, st.shape.grid)}"
    if thread is not None:
        who += f", thread {unravel(thread, st.shape.block)},"
    st.fail(
        "E-SIM-024",
        f"a race: a thread {verb} global memory that {whose} {did} in the same launch",
        touch.ins,
        int(now.lane[k]),
        actual=f"{at}, {who} {did} at line {before.line}",
        help="a barrier between the two puts them in an order" if own else "blocks run in any order: use two launches",
        notes=(Note(f"the other access: {before.text}", span_of(st.shape.file, before)),),
    )
