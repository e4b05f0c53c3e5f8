"""Runs the blocks of a kernel over a batch of lanes.

Lanes that stand at the lowest block run first, so those that took a longer way round a branch meet the others behind
it. While all stand at one place there are no masks at all.

In lock step all warps of the batch are one crew. In random order each crew is one warp of every block of threads, a
crew runs alone until it waits or a coin says to change, and what depends on the order of warps comes out differently.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sexpgpu.sim import barrier
from sexpgpu.sim.code import Block, Code, Jump, Switch, Wait
from sexpgpu.sim.crew import Crew
from sexpgpu.sim.lanes import WARP, Lanes, Mask
from sexpgpu.sim.source import Instr
from sexpgpu.sim.types import Array

CHANGE = 0.1  # the chance that another crew goes on after a block


def run(code: Code, crews: Sequence[Crew], random: np.random.Generator | None, most_visits: int) -> None:
    """Run a batch to its end, coming to blocks `most_visits` times at most. Raises the diagnostics of faults that the
    kernel commits.
    """
    barriers: dict[int, barrier.Barrier] = {}
    visits = 0
    while True:
        ready = [crew for crew in crews if crew.at]
        if not ready:
            if not barrier.release(barriers) and not any(_let_go(code, crew) for crew in crews):
                if any(crew.held for crew in crews) or any(b.standing for b in barriers.values()):
                    barrier.stuck(code, crews, barriers)
                return
            continue
        crew = ready[0] if random is None else ready[int(random.integers(len(ready)))]
        while crew.at:
            visits += 1
            number, m = _next(code, crew)
            if visits > most_visits:
                block = code.blocks[number]
                first = int(crew.st.selected(m)[0])
                crew.st.fail(
                    "E-SIM-043",
                    "the kernel does not come to an end",
                    _instruction(block),
                    first,
                    actual=f"{most_visits:,} visits",
                )
            _visit(code, crew, barriers, number, m)
            if random is not None and random.random() < CHANGE:
                break


def _visit(code: Code, crew: Crew, barriers: dict[int, barrier.Barrier], number: int, m: Mask) -> None:
    st, block = crew.st, code.blocks[number]
    if block.members is not None and (m is not None or st.live is not st.real):
        m, late = _gathered(st, m, block)
        if late is not None:
            crew.held[number] = late
            if m is None:
                return
    counters, active = st.counters, st.active(m)
    if active is None:
        counters.warp_visits[number] += st.warps
        counters.lane_visits[number] += st.size
    else:
        counters.warp_visits[number] += int(np.count_nonzero(active.reshape(-1, WARP).any(1)))
        counters.lane_visits[number] += int(np.count_nonzero(active))
    for step in block.steps:
        step(st, m)
    end = block.end
    if isinstance(end, Jump):
        _jump(crew, end, m)
    elif isinstance(end, Wait):
        _wait(crew, barriers, end, m)
    else:
        _switch(crew, end, m)


def _instruction(block: Block) -> Instr:
    found = block.end.ins or block.first
    assert found is not None
    return found


def _next(code: Code, crew: Crew) -> tuple[int, Mask]:
    """The lowest block that lanes of the crew stand at, and which.

    Those that look at an mbarrier come behind all others, who may be the ones to complete it, and take turns.
    """
    at = crew.at
    number = min(at, key=lambda n: crew.rank(n, code.blocks[n].polls)) if len(at) > 1 else next(iter(at))
    if code.blocks[number].polls:
        crew.looks += 1
        crew.looked[number] = crew.looks
    m = at.pop(number)
    if number in crew.held:
        late = crew.held.pop(number)
        m = late if m is None else m | late
    if not at and not crew.held and not crew.waiting:
        m = None
    return number, m


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


def _let_go(code: Code, crew: Crew) -> bool:
    """Send on held lanes whose missing partners have ended: nobody waits for those. Whether there were such."""
    done = False
    for number, lanes in list(crew.held.items()):
        ready, late = _gathered(crew.st, lanes, code.blocks[number])
        if ready is None:
            continue
        done = True
        crew.move(number, ready)
        if late is None:
            del crew.held[number]
        else:
            crew.held[number] = late
    return done


def _jump(crew: Crew, end: Jump, m: Mask) -> None:
    if end.guard is None:
        crew.move(end.target, m)
        return
    st = crew.st
    p = end.guard(st)
    if p.shape[0] == 1:
        crew.move(end.target if p[0] else end.next, m)
        return
    active = st.active(m)
    taken = p if active is None else p & active
    many = int(np.count_nonzero(taken))
    if many == 0:
        crew.move(end.next, m)
    elif many == (st.size if active is None else int(np.count_nonzero(active))):
        crew.move(end.target, m)
    else:
        other = ~p if active is None else active & ~p
        split = taken.reshape(-1, WARP).any(1) & other.reshape(-1, WARP).any(1)
        st.counters.divergent_branches += int(np.count_nonzero(split))
        crew.move(end.target, taken)
        crew.move(end.next, other)


def _switch(crew: Crew, end: Switch, m: Mask) -> None:
    st = crew.st
    active = _passing(crew, end, m)
    index = st.full(end.index(st))
    outside = active & (index >= len(end.targets))
    if outside.any():
        lane = int(np.flatnonzero(outside)[0])
        st.fail("E-SIM-045", "a branch index outside its table", end.ins, lane, actual=str(int(index[lane])))
    for number, target in enumerate(end.targets):
        these = active & (index == number)
        if these.any():
            crew.move(target, these)


def _wait(crew: Crew, barriers: dict[int, barrier.Barrier], end: Wait, m: Mask) -> None:
    if barrier.passes(crew, end, m):
        crew.move(end.next, m)
        return
    active = _passing(crew, end, m)
    if active.any() and not barrier.arrive(crew, barriers, end, active):
        crew.move(end.next, active)


def _passing(crew: Crew, end: Switch | Wait, m: Mask) -> Array:
    """The active lanes whose guard holds; the others go on behind the instruction."""
    st = crew.st
    active = st.active(m)
    if active is None:
        active = np.ones(st.size, np.bool_)
    if end.guard is None:
        return active
    holds = st.full(end.guard(st))
    other = active & ~holds
    if other.any():
        crew.move(end.next, other)
    return active & holds
