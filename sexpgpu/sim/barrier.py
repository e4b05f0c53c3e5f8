"""The barriers of a block of threads: who has arrived, whom to let go, and who never will."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from attrs import define, field

from sexpgpu.diag import Note
from sexpgpu.sim.lanes import WARP, Lanes, Mask, span_of
from sexpgpu.sim.source import Instr
from sexpgpu.sim.types import Array

if TYPE_CHECKING:
    from sexpgpu.sim.code import Code, Wait
    from sexpgpu.sim.crew import Crew


@define(eq=False)
class Standing:
    """The lanes of a crew that stand at one wait, and what they brought to a reduction."""

    crew: Crew
    end: Wait
    lanes: Array
    values: Array | None = None


@define(eq=False)
class Barrier:
    """One of the sixteen, over the blocks of a batch."""

    number: int
    threads: Array  # how many each block of threads waits for
    arrived: Array  # those that have arrived without waiting
    standing: dict[tuple[int, int], Standing] = field(factory=dict)


def passes(crew: Crew, end: Wait, m: Mask) -> bool:
    """Whether every thread of every block is here, so that nobody has to wait."""
    st = crew.st
    if m is not None or st.live is not st.real or end.guard is not None or end.reduce or not end.waits:
        return False
    if st.layout.warps.shape[1] * WARP < st.shape.padded:
        return False
    number = end.number(st)
    if number.shape[0] > 1 or number[0] > 15 or (end.threads is not None and not _everyone(st, end.threads(st))):
        return False
    st.counters.barriers += len(st.blocks)
    if st.clock is not None:
        st.clock.all_meet()
    return True


def _everyone(st: Lanes, threads: Array) -> bool:
    return threads.shape[0] == 1 and int(threads[0]) == st.shape.padded


def arrive(crew: Crew, barriers: dict[int, Barrier], end: Wait, lanes: Array) -> bool:
    """Put lanes at their barrier; whether they wait there."""
    st = crew.st
    numbers = st.full(end.number(st))
    n = len(st.blocks)
    for number in [int(x) for x in np.unique(numbers[lanes])]:
        these = lanes & (numbers == number)
        first = int(np.flatnonzero(these)[0])
        if number > 15:
            st.fail("E-SIM-032", "a barrier has a number up to 15", end.ins, first, actual=str(number))
        want = st.shape.padded if end.threads is None else int(st.full(end.threads(st))[first])
        if want % WARP or not want:
            st.fail("E-SIM-032", "a barrier waits for whole warps", end.ins, first, actual=f"{want} threads")
        known = barriers.get(number)
        if known is None:
            known = barriers[number] = Barrier(number, np.full(n, want), np.zeros(n, np.int64))
        if end.waits:
            _stand(crew, known, end, these)
        else:
            known.arrived = known.arrived + _threads(st, these)
            if st.clock is not None:
                st.clock.arrive(st, number, these)
    return end.waits


def _stand(crew: Crew, known: Barrier, end: Wait, lanes: Array) -> None:
    st, key = crew.st, (id(crew), id(end))
    place = known.standing.get(key)
    if place is None:
        place = known.standing[key] = Standing(crew, end, np.zeros(st.size, np.bool_))
        crew.waiting += 1
    place.lanes = place.lanes | lanes
    if end.value is not None:
        before = np.zeros(1, np.bool_) if place.values is None else place.values
        place.values = np.where(lanes, st.full(end.value(st)), before)


def _threads(st: Lanes, lanes: Array) -> Array:
    """How many threads, in whole warps, of each block of threads are among the lanes."""
    return np.asarray(lanes.reshape(len(st.blocks), -1, WARP).any(2).sum(1) * WARP)


def release(barriers: dict[int, Barrier]) -> bool:
    """Let go the lanes of every block of threads that is complete; whether there was one."""
    done = False
    for number in list(barriers):
        known = barriers[number]
        complete = _complete(known)
        if complete.any():
            done = True
            _let_go(known, complete)
        if not known.standing and not known.arrived.any():
            del barriers[number]
    return done


def _at(known: Barrier) -> list[tuple[Crew, Array]]:
    """For each crew, its lanes that stand at the barrier."""
    found: dict[int, tuple[Crew, Array]] = {}
    for place in known.standing.values():
        before = found.get(id(place.crew))
        found[id(place.crew)] = (place.crew, place.lanes if before is None else before[1] | place.lanes)
    return list(found.values())


def _complete(known: Barrier) -> Array:
    """The blocks of threads of which enough are there; not those with a warp that is there in part."""
    threads = np.zeros_like(known.arrived)
    torn = np.zeros(len(threads), np.bool_)
    for crew, lanes in _at(known):
        st = crew.st
        threads = threads + _threads(st, lanes)
        live = np.ones(st.size, np.bool_) if st.live is None else st.live
        here, alive = lanes.reshape(-1, WARP), live.reshape(-1, WARP)
        missing = np.asarray(here.any(1) & (alive & ~here).any(1))
        torn |= missing.reshape(len(torn), -1).any(1)
    return np.asarray((threads > 0) & (threads + known.arrived >= known.threads) & ~torn)


def _let_go(known: Barrier, complete: Array) -> None:
    places = list(known.standing.values())
    st = places[0].crew.st
    st.counters.barriers += int(np.count_nonzero(complete))
    totals = np.zeros(len(complete), np.int64)
    going = []
    for place in places:
        free = place.lanes & complete[place.crew.st.block]
        going.append(free)
        if place.values is not None:
            totals += (place.values & free).reshape(len(complete), -1).sum(1)
    if st.checks.barriers:
        _check_sides(places, going)
        for place, free in zip(places, going, strict=True):
            _check_left(place, free)
    if st.clock is not None:
        st.clock.meet([(p.crew.st, free) for p, free in zip(places, going, strict=True)], known.number)
    for (key, place), free in zip(list(known.standing.items()), going, strict=True):
        if not free.any():
            continue
        mine = place.crew.st
        if place.end.result is not None:
            found = _reduced(mine, place.end.reduce, totals)
            place.end.result(mine, np.repeat(found, mine.size // len(complete)), free)
        place.crew.move(place.end.next, free)
        place.lanes = place.lanes & ~free
        if not place.lanes.any():
            place.crew.waiting -= 1
            del known.standing[key]
    known.arrived = np.where(complete, 0, known.arrived)


def _reduced(st: Lanes, how: str, totals: Array) -> Array:
    """Of each block: how many threads hold, whether one does, whether all do."""
    if how == "popc":
        return totals.astype(np.uint32)
    return np.asarray(totals > 0 if how == "or" else totals == st.shape.threads)


def _check_sides(places: Sequence[Standing], going: Sequence[Array]) -> None:
    """Report lanes of one warp that stand at different instructions."""
    for k, (place, free) in enumerate(zip(places, going, strict=True)):
        for other, theirs in zip(places[k + 1 :], going[k + 1 :], strict=True):
            if place.crew is not other.crew or not (place.end.aligned or other.end.aligned):
                continue
            both = free.reshape(-1, WARP).any(1) & theirs.reshape(-1, WARP).any(1)
            if np.any(both):
                st = place.crew.st
                lane = int(np.flatnonzero(free & np.repeat(both, WARP))[0])
                note = Note("others of the warp wait here", span_of(st.shape.file, other.end.ins))
                st.fail("E-SIM-031", "lanes of one warp wait at different barriers", place.end.ins, lane, notes=(note,))


def _check_left(place: Standing, free: Array) -> None:
    """Report a thread that ended while others of its warp go through the barrier."""
    st = place.crew.st
    if st.live is None:
        return
    real = np.ones(st.size, np.bool_) if st.real is None else st.real
    left = real & ~st.live & np.repeat(np.asarray(free.reshape(-1, WARP).any(1)), WARP)
    if left.any():
        _, thread = st.coordinates(int(np.flatnonzero(left)[0]))
        st.fail(
            "E-SIM-030",
            "a thread of a warp that waits at a barrier has already ended",
            place.end.ins,
            int(np.flatnonzero(free)[0]),
            actual=f"thread {thread} has ended",
        )


def stuck(code: Code, crews: Sequence[Crew], barriers: dict[int, Barrier]) -> NoReturn:
    """Report lanes that wait for others who cannot come."""
    waiting = [place for b in barriers.values() for place in b.standing.values()]
    for crew in crews:
        for number, lanes in crew.held.items():
            ins = code.blocks[number].first
            assert ins is not None
            lane = int(np.flatnonzero(lanes)[0])
            crew.st.fail(
                "E-SIM-040",
                "a warp-wide instruction waits for lanes that do not come",
                ins,
                lane,
                actual=_missing(crew, lane, lanes, crews, waiting, warp=True),
                help="every lane that the mask names runs the same instruction",
            )
    place = min(waiting, key=lambda x: int(np.flatnonzero(x.lanes)[0]))
    lane = int(np.flatnonzero(place.lanes)[0])
    place.crew.st.fail(
        "E-SIM-030",
        "a barrier waits for threads that do not come",
        place.end.ins,
        lane,
        actual=_missing(place.crew, lane, place.lanes, crews, waiting, warp=False),
        help="every thread of the block reaches the same barrier, or none does",
    )


def _missing(crew: Crew, lane: int, here: Array, crews: Sequence[Crew], waiting: Sequence[Standing], warp: bool) -> str:
    """Where one of the threads is that do not come: ended, or at another instruction."""
    block = int(crew.st.block[lane])
    for other in [crew] if warp else crews:
        st = other.st
        wanted = st.block == block
        if warp:
            wanted &= st.lane // WARP == lane // WARP
        if other is crew:
            wanted &= ~here
        if st.real is not None:
            wanted &= st.real
        for at in np.flatnonzero(wanted):
            found = _whereabouts(other, int(at), waiting, None if warp else (crew, lane))
            if found:
                return found
    return "more threads than the block has"


def _whereabouts(crew: Crew, lane: int, waiting: Sequence[Standing], same: tuple[Crew, int] | None) -> str:
    """What a thread does, empty where it stands at the same wait as lane `same`."""
    st = crew.st
    _, thread = st.coordinates(lane)
    if st.live is not None and not st.live[lane]:
        return f"thread {thread} has ended"
    for place in waiting:
        if place.crew is crew and place.lanes[lane]:
            ours = same and next((p for p in waiting if p.crew is same[0] and p.lanes[same[1]]), None)
            if ours and ours.end is place.end:
                return ""
            return f"thread {thread} waits at line {_line(place.end.ins)}"
    return f"thread {thread} is held at another instruction of its warp"


def _line(ins: Instr) -> str:
    return f"{ins.line}: {ins.text}"
