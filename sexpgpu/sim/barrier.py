"""The barriers of a block of threads: who has arrived, whom to let go, and who never will."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np
from attrs import define, field

from sexpgpu.diag import Note
from sexpgpu.sim.lanes import WARP, Lanes, Mask, span_of
from sexpgpu.sim.source import Instr
from sexpgpu.sim.types import Array

if TYPE_CHECKING:
    from sexpgpu.sim.code import Code, Wait


@define(eq=False)
class Barrier:
    """One of the sixteen, over the blocks of a batch. `waiting` are lanes by the wait that they stand at."""

    threads: Array  # how many each block of threads waits for
    arrived: Array  # those that have arrived without waiting
    waiting: dict[int, tuple[Wait, Array]] = field(factory=dict)
    values: Array | None = None


def passes(st: Lanes, end: Wait, m: Mask) -> bool:
    """Whether every thread of every block is here, so that nobody has to wait."""
    if m is not None or st.live is not st.real or end.guard is not None or end.reduce or not end.waits:
        return False
    if st.random is not None:
        return False
    number = end.number(st)
    if number.shape[0] > 1 or (end.threads is not None and not _everyone(st, end.threads(st))):
        return False
    st.counters.barriers += len(st.blocks)
    if st.clock is not None:
        st.clock.blocks(st, None)
    return True


def _everyone(st: Lanes, threads: Array) -> bool:
    return threads.shape[0] == 1 and int(threads[0]) == st.shape.padded


def arrive(st: Lanes, barriers: dict[int, Barrier], end: Wait, lanes: Array) -> Array | None:
    """Put lanes at their barrier; the lanes that do not wait there."""
    numbers = st.full(end.number(st))
    n = len(st.blocks)
    for number in np.unique(numbers[lanes]):
        these = lanes & (numbers == number)
        first = int(np.flatnonzero(these)[0])
        if number > 15:
            st.fail("E-SIM-032", "a barrier has a number up to 15", end.ins, first, actual=str(int(number)))
        want = st.shape.padded
        if end.threads is not None:
            want = int(st.full(end.threads(st))[first])
            if want % WARP or not want:
                st.fail("E-SIM-032", "a barrier waits for whole warps", end.ins, first, actual=f"{want} threads")
        known = barriers.get(int(number))
        if known is None:
            known = barriers[int(number)] = Barrier(np.full(n, want), np.zeros(n, np.int64))
        if end.waits:
            _, before = known.waiting.get(id(end), (end, np.zeros(st.size, np.bool_)))
            known.waiting[id(end)] = (end, before | these)
            if end.value is not None:
                given = np.where(these, st.full(end.value(st)), False if known.values is None else known.values)
                known.values = given
        else:
            known.arrived = known.arrived + _threads(st, these)
            if st.clock is not None:
                st.clock.arrives(st, int(number), these)
    return None if end.waits else lanes


def _threads(st: Lanes, lanes: Array) -> Array:
    """How many threads, in whole warps, of each block of threads are among the lanes."""
    return np.asarray(lanes.reshape(len(st.blocks), -1, WARP).any(2).sum(1) * WARP)


def release(st: Lanes, barriers: dict[int, Barrier], at: dict[int, Mask]) -> bool:
    """Let go the lanes of every block of threads that is complete; whether there was one."""
    done = False
    for number in list(barriers):
        known = barriers[number]
        standing = np.zeros(st.size, np.bool_)
        for _, lanes in known.waiting.values():
            standing |= lanes
        complete = (_threads(st, standing) + known.arrived >= known.threads) & (_threads(st, standing) > 0)
        complete &= ~_split(st, standing)
        if not complete.any():
            continue
        done = True
        free = complete[st.block]
        _check(st, known, free & standing)
        st.counters.barriers += int(np.count_nonzero(complete))
        if st.clock is not None:
            st.clock.blocks(st, free & standing, number)
        for key, (end, lanes) in list(known.waiting.items()):
            going = lanes & free
            if not going.any():
                continue
            if end.result is not None and known.values is not None:
                end.result(st, _reduced(st, end, known.values & standing), going)
            before = at.get(end.next)
            if end.next >= 0:
                at[end.next] = going if before is None else before | going
            else:
                st.live = ~going if st.live is None else st.live & ~going
            rest = lanes & ~free
            if rest.any():
                known.waiting[key] = (end, rest)
            else:
                del known.waiting[key]
        known.arrived = np.where(complete, 0, known.arrived)
        if not known.waiting and not known.arrived.any():
            del barriers[number]
    return done


def _split(st: Lanes, standing: Array) -> Array:
    """The blocks of threads that have a warp of which only some living lanes stand at the barrier."""
    live = np.ones(st.size, np.bool_) if st.live is None else st.live
    rows, here = live.reshape(-1, WARP), standing.reshape(-1, WARP)
    torn = here.any(1) & (rows & ~here).any(1)
    return np.asarray(torn.reshape(len(st.blocks), -1).any(1))


def _check(st: Lanes, known: Barrier, standing: Array) -> None:
    """Report lanes of one warp that stand at different instructions, and threads that left before the barrier."""
    if not st.checks.barriers:
        return
    if len(known.waiting) > 1:
        sides = [(end, (lanes & standing).reshape(-1, WARP)) for end, lanes in known.waiting.values()]
        for k, (end, mine) in enumerate(sides):
            for other, theirs in sides[k + 1 :]:
                both = mine.any(1) & theirs.any(1)
                if np.any(both) and (end.aligned or other.aligned):
                    lane = int(np.flatnonzero(mine & np.asarray(both)[:, None])[0])
                    note = Note("others of the warp wait here", span_of(st.shape.file, other.ins))
                    st.fail("E-SIM-031", "lanes of one warp wait at different barriers", end.ins, lane, notes=(note,))
    if st.live is None:
        return
    real = np.ones(st.size, np.bool_) if st.real is None else st.real
    ends = [(end, lanes & standing) for end, lanes in known.waiting.values()]
    rows = standing.reshape(-1, WARP).any(1)
    left = (real & ~st.live).reshape(-1, WARP) & np.asarray(rows)[:, None]
    if left.any():
        gone = int(np.flatnonzero(left)[0])
        end, lanes = next(x for x in ends if x[1].any())
        _, thread = st.coordinates(gone)
        st.fail(
            "E-SIM-030",
            "a thread of a warp that waits at a barrier has already ended",
            end.ins,
            int(np.flatnonzero(lanes)[0]),
            actual=f"thread {thread} has ended",
        )


def _reduced(st: Lanes, end: Wait, values: Array) -> Array:
    """Over the threads of each block: how many hold, whether all, whether any."""
    n = len(st.blocks)
    holds = values.reshape(n, -1).sum(1)
    if end.reduce == "popc":
        return np.repeat(holds.astype(np.uint32), st.shape.padded)
    found = holds > 0 if end.reduce == "or" else holds == st.shape.threads
    return np.repeat(found, st.shape.padded)


def stuck(st: Lanes, code: Code, held: dict[int, Array], barriers: dict[int, Barrier]) -> NoReturn:
    """Report lanes that wait for others who cannot come."""
    waiting = [(end.ins, lanes) for b in barriers.values() for end, lanes in b.waiting.values()]
    gathered = [(code.blocks[number].first, lanes) for number, lanes in held.items()]
    for ins, lanes in gathered:
        assert ins is not None
        lane = int(np.flatnonzero(lanes)[0])
        st.fail(
            "E-SIM-040",
            "a warp-wide instruction waits for lanes that do not come",
            ins,
            lane,
            actual=_elsewhere(st, lane, lanes, True, waiting),
            help="every lane that the mask names runs the same instruction",
        )
    ins, lanes = min(waiting, key=lambda x: int(np.flatnonzero(x[1])[0]))
    lane = int(np.flatnonzero(lanes)[0])
    st.fail(
        "E-SIM-030",
        "a barrier waits for threads that do not come",
        ins,
        lane,
        actual=_elsewhere(st, lane, lanes, False, waiting),
        help="every thread of the block reaches the same barrier, or none does",
    )


def _elsewhere(st: Lanes, lane: int, here: Array, warp: bool, waiting: list[tuple[Instr, Array]]) -> str:
    """Where one of the missing threads is: ended, or at another barrier."""
    same = st.block == st.block[lane]
    if warp:
        same &= st.lane // WARP == lane // WARP
    real = np.ones(st.size, np.bool_) if st.real is None else st.real
    missing = same & real & ~here
    if not missing.any():
        return "more threads than the block has"
    other = int(np.flatnonzero(missing)[0])
    _, thread = st.coordinates(other)
    if st.live is not None and not st.live[other]:
        return f"thread {thread} has ended"
    for ins, lanes in waiting:
        if lanes[other]:
            return f"thread {thread} waits at line {ins.line}: {ins.text}"
    return f"thread {thread} is held at another instruction of its warp"
