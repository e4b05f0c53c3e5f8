"""Runs the blocks of a kernel over a batch of lanes.

Lanes that stand at the lowest block run first, so those that took a longer way round a branch meet the others behind
it. While all stand at one place there are no masks at all. With a seed, only one random warp of each block of threads
runs at a time, until it waits or a coin says to change: what depends on the order of warps then comes out differently.
"""

from __future__ import annotations

import numpy as np
from attrs import define, field

from sexpgpu.sim import barrier
from sexpgpu.sim.code import LEAVE, Block, Code, Jump, Switch, Wait
from sexpgpu.sim.lanes import WARP, Lanes, Mask
from sexpgpu.sim.source import Instr
from sexpgpu.sim.types import Array

MOST_VISITS = 50_000_000
SWITCH = 0.1  # the chance that another warp goes on after a block, in random order


@define(eq=False)
class Progress:
    """Where the lanes stand: at blocks, held for others of their warp, or waiting at a barrier."""

    at: dict[int, Mask] = field(factory=lambda: {0: None})
    held: dict[int, Array] = field(factory=dict)
    barriers: dict[int, barrier.Barrier] = field(factory=dict)
    focus: Array | None = None

    def go(self, block: int, lanes: Array) -> None:
        known = self.at.get(block)
        self.at[block] = lanes if known is None else known | lanes


def run(code: Code, st: Lanes) -> None:
    """Run a batch to its end. Raises the diagnostics of faults that the kernel commits."""
    progress = Progress()
    visits = 0
    counters = st.counters
    while True:
        found = _next(code, st, progress)
        if found is None:
            return
        number, m = found
        block = code.blocks[number]
        if block.members is not None and (m is not None or st.live is not st.real):
            m, late = _gathered(st, m, block)
            if late is not None:
                progress.held[number] = late
                if m is None:
                    continue
        active = st.active(m)
        if active is None:
            counters.warp_visits[number] += st.warps
            counters.lane_visits[number] += st.size
        else:
            counters.warp_visits[number] += int(np.count_nonzero(active.reshape(-1, WARP).any(1)))
            counters.lane_visits[number] += int(np.count_nonzero(active))
        for step in block.steps:
            step(st, m)
        visits += 1
        if visits > MOST_VISITS:
            st.fail("E-SIM-043", "the kernel does not come to an end", _instruction(block), int(st.selected(m)[0]))
        end = block.end
        if isinstance(end, Jump):
            _jump(st, progress, end, m)
        elif isinstance(end, Wait):
            _wait(st, progress, end, m)
        else:
            _switch(st, progress, end, m)


def _instruction(block: Block) -> Instr:
    found = block.end.ins or block.first
    assert found is not None
    return found


def _next(code: Code, st: Lanes, progress: Progress) -> tuple[int, Mask] | None:
    """The lowest block that lanes stand at, and which; None when no lane is left."""
    at = progress.at
    while not at:
        if st.live is not None and not st.live.any():
            return None
        if not barrier.release(st, progress.barriers, at):
            if not progress.held and not progress.barriers:
                return None
            barrier.stuck(st, code, progress.held, progress.barriers)
    if st.random is not None:
        return _random(st, progress)
    number = min(at) if len(at) > 1 else next(iter(at))
    m = at.pop(number)
    if number in progress.held:
        late = progress.held.pop(number)
        m = late if m is None else m | late
    if not at and not progress.held and not progress.barriers:
        m = None
    return number, m


def _random(st: Lanes, progress: Progress) -> tuple[int, Mask]:
    """The lowest block of one random warp in each block of threads that has one to run."""
    assert st.random is not None
    at = progress.at
    everyone = st.full(np.ones(1, np.bool_)) if st.live is None else st.live
    for number, m in at.items():
        if m is None:
            at[number] = everyone
    focus = progress.focus
    if focus is None or st.random.random() < SWITCH or not any((m & focus).any() for m in at.values() if m is not None):
        focus = progress.focus = _choose(st, at)
    for number in sorted(at):
        m = at[number]
        assert m is not None
        mine = m & focus
        if mine.any():
            rest = m & ~focus
            if rest.any():
                at[number] = rest
            else:
                del at[number]
            if number in progress.held:
                mine = mine | progress.held.pop(number)
            return number, mine
    raise AssertionError("a warp was chosen that has nothing to run")


def _choose(st: Lanes, at: dict[int, Mask]) -> Array:
    """The lanes of one random warp with something to run, of each block of threads."""
    assert st.random is not None
    ready = np.zeros(st.size, np.bool_)
    for m in at.values():
        assert m is not None
        ready |= m
    warps = ready.reshape(len(st.blocks), -1, WARP).any(2)
    draw = st.random.random(warps.shape)
    chosen = np.where(warps, draw, -1.0).argmax(1)
    mask = np.zeros((len(st.blocks), warps.shape[1], WARP), np.bool_)
    mask[np.arange(len(st.blocks)), chosen] = True
    return mask.reshape(-1)


def _gathered(st: Lanes, m: Mask, block: Block) -> tuple[Mask, Array | None]:
    """The lanes whose partners have all come, and those that have to be held."""
    assert block.members is not None
    assert block.first is not None
    active = st.active(m)
    if active is None:
        return m, None
    here = active.reshape(-1, WARP)
    live = np.ones_like(here) if st.live is None else st.live.reshape(-1, WARP)
    names = st.full(block.members(st)).reshape(-1, WARP)
    own = (names >> np.arange(WARP, dtype=np.uint32)) & np.uint32(1)
    outsiders = here & (own == 0)
    if outsiders.any():
        lane = int(np.flatnonzero(outsiders)[0])
        st.fail(
            "E-SIM-042",
            "a lane runs a warp-wide instruction that its mask leaves out",
            block.first,
            lane,
            actual=f"mask {int(names.reshape(-1)[lane]):#010x}",
        )
    wanted = np.bitwise_or.reduce(np.where(here, names, np.uint32(0)), axis=1)
    named = ((wanted[:, None] >> np.arange(WARP, dtype=np.uint32)) & np.uint32(1)).astype(np.bool_)
    missing = (named & live & ~here).any(1)
    if not missing.any():
        return m, None
    late = (here & missing[:, None]).reshape(-1)
    ready = (here & ~missing[:, None]).reshape(-1)
    return (ready if ready.any() else None), late


def _jump(st: Lanes, progress: Progress, end: Jump, m: Mask) -> None:
    if end.guard is None:
        _move(st, progress, end.target, m)
        return
    p = end.guard(st)
    if p.shape[0] == 1:
        _move(st, progress, end.target if p[0] else end.next, m)
        return
    active = st.active(m)
    taken = p if active is None else p & active
    many = int(np.count_nonzero(taken))
    if many == 0:
        _move(st, progress, end.next, m)
    elif many == (st.size if active is None else int(np.count_nonzero(active))):
        _move(st, progress, end.target, m)
    else:
        other = ~p if active is None else active & ~p
        split = taken.reshape(-1, WARP).any(1) & other.reshape(-1, WARP).any(1)
        st.counters.divergent_branches += int(np.count_nonzero(split))
        _move(st, progress, end.target, taken)
        _move(st, progress, end.next, other)


def _move(st: Lanes, progress: Progress, block: int, m: Mask) -> None:
    """Send lanes to a block; those that leave are no longer alive."""
    if block == LEAVE:
        st.live = np.zeros(st.size, np.bool_) if m is None else ~m if st.live is None else st.live & ~m
    elif m is None:
        progress.at[block] = None
    else:
        progress.go(block, m)


def _switch(st: Lanes, progress: Progress, end: Switch, m: Mask) -> None:
    active = st.full(np.ones(1, np.bool_)) if st.active(m) is None else st.active(m)
    assert active is not None
    if end.guard is not None:
        holds = st.full(end.guard(st))
        if (active & ~holds).any():
            _move(st, progress, end.next, active & ~holds)
        active = active & holds
    index = st.full(end.index(st))
    outside = active & (index >= len(end.targets))
    if outside.any():
        lane = int(np.flatnonzero(outside)[0])
        st.fail("E-SIM-045", "a branch index outside its table", end.ins, lane, actual=str(int(index[lane])))
    for number, target in enumerate(end.targets):
        these = active & (index == number)
        if these.any():
            _move(st, progress, target, these)


def _wait(st: Lanes, progress: Progress, end: Wait, m: Mask) -> None:
    if barrier.passes(st, end, m):
        _move(st, progress, end.next, m)
        return
    active = st.full(np.ones(1, np.bool_)) if st.active(m) is None else st.active(m)
    assert active is not None
    if end.guard is not None:
        holds = st.full(end.guard(st))
        if (active & ~holds).any():
            _move(st, progress, end.next, active & ~holds)
        active = active & holds
        if not active.any():
            return
    going = barrier.arrive(st, progress.barriers, end, active)
    if going is not None:
        progress.go(end.next, going)
