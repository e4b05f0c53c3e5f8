"""mbarrier: barriers that are objects in shared memory, which threads and asynchronous copies complete phase by phase.

Copies that report to a barrier are done when somebody looks at it, and not before.
"""

from __future__ import annotations

import numpy as np

from sexpgpu.sim import bulk
from sexpgpu.sim.access import locate, put
from sexpgpu.sim.decode import Decoder, Read, Step
from sexpgpu.sim.lanes import Lanes, Mask
from sexpgpu.sim.loads import cut
from sexpgpu.sim.phases import MOST, change, fields, packed
from sexpgpu.sim.pointwise import Builder
from sexpgpu.sim.source import Address, Instr, Operand, Sink
from sexpgpu.sim.types import B64, PRED, TYPES, U32

HINTS = ("shared", "shared::cta", "shared::cluster", "b64", "release", "acquire", "relaxed", "cta", "cluster")
FRUITLESS = 20_000


def _address(d: Decoder, ins: Instr, operands: list[Operand]) -> Read:
    if not operands or not isinstance(operands[0], Address):
        raise d.refuse(ins, "an address was expected")
    return d.address(operands.pop(0), ins)


def _init(d: Decoder, ins: Instr) -> Step:
    d.only(ins, "init", "inval", *HINTS)
    operands = list(ins.operands)
    address = _address(d, ins, operands)
    count = d.read(operands[0], U32, ins) if operands else None

    def step(st: Lanes, m: Mask) -> None:
        touch = locate(st, m, ins, "shared", address(st), 8, "write")
        if count is None:
            put(st, touch, np.zeros(1, np.uint64).repeat(len(touch.lanes)))
            return
        n = np.broadcast_to(cut(st, count(st), touch.lanes), touch.lanes.shape).astype(np.int64)
        if ((n < 1) | (n > MOST)).any():
            st.fail("E-SIM-033", "an mbarrier for no arrivals", ins, int(touch.lanes[0]), actual=str(int(n[0])))
        none = np.zeros(len(n), np.int64)
        put(st, touch, packed(n, n, none, none))

    return step


def _arrive(d: Decoder, ins: Instr) -> Step:
    """arrive, arrive.expect_tx, expect_tx, complete_tx: arrivals, bytes to come, or both."""
    d.only(ins, "arrive", "expect_tx", "complete_tx", "noComplete", *HINTS)
    operands = list(ins.operands)
    state = None
    if operands and not isinstance(operands[0], Address):
        target = operands.pop(0)
        state = None if isinstance(target, Sink) else d.write(target, B64, ins)
    address = _address(d, ins, operands)
    number = d.read(operands[0], U32, ins) if operands else None
    arrives, sized = "arrive" in ins.parts, "expect_tx" in ins.parts or "complete_tx" in ins.parts
    sign = -1 if "complete_tx" in ins.parts else 1

    def step(st: Lanes, m: Mask) -> None:
        touch = locate(st, m, ins, "shared", address(st), 8, "atomic")
        lanes = touch.lanes
        one = np.ones(1, np.uint32)
        n = np.broadcast_to(cut(st, one if number is None else number(st), lanes), lanes.shape).astype(np.int64)
        before = st.shared_views[8][touch.index >> 3]
        arrivals = (n if not sized else np.ones(len(n), np.int64)) if arrives else np.zeros(len(n), np.int64)
        if st.clock is not None and arrives:
            st.clock.tell(st, lanes, touch.index)
        wrong = change(st, touch.index, arrivals, n * sign if sized else np.zeros(len(n), np.int64))
        if wrong.any():
            lane = int(lanes[int(np.flatnonzero(wrong)[0])])
            st.fail("E-SIM-033", "more arrivals at an mbarrier than a phase has", ins, lane)
        if state is not None:
            out = np.zeros(st.size, np.uint64)
            out[lanes] = before
            state(st, out, m)

    return step


def _test(d: Decoder, ins: Instr) -> Step:
    """test_wait, try_wait: whether the phase that a parity, or the state of an arrival, names is over."""
    d.only(ins, "test_wait", "try_wait", "parity", *HINTS)
    if len(ins.operands) not in (3, 4):
        raise d.refuse(ins, f"{len(ins.operands)} operands")
    write = d.write(ins.operands[0], PRED, ins)
    address = d.address(ins.operands[1], ins)
    by_parity = "parity" in ins.parts
    named = d.read(ins.operands[2], U32 if by_parity else TYPES["u64"], ins)

    def step(st: Lanes, m: Mask) -> None:
        touch = locate(st, m, ins, "shared", address(st), 8, "atomic")
        lanes = touch.lanes
        bulk.arrive(st, np.unique(touch.index))
        _, _, _, phase = fields(st.shared_views[8][touch.index >> 3])
        given = np.broadcast_to(cut(st, named(st), lanes), lanes.shape)
        parity = (given & np.uint32(1)).astype(np.int64) if by_parity else fields(given)[3]
        over = phase != parity
        if st.clock is not None and over.any():
            st.clock.hear(st, lanes[over], touch.index[over])
        st.fruitless = 0 if over.any() else st.fruitless + 1
        if st.fruitless > FRUITLESS:
            st.fail("E-SIM-034", "an mbarrier that nobody completes", ins, int(lanes[0]))
        out = np.zeros(st.size, np.bool_)
        out[lanes] = over
        write(st, out, m)

    return step


def _mbarrier(d: Decoder, ins: Instr) -> Step:
    first = ins.parts[0] if ins.parts else ""
    if first in ("init", "inval"):
        return _init(d, ins)
    if first in ("arrive", "expect_tx", "complete_tx"):
        return _arrive(d, ins)
    if first in ("test_wait", "try_wait"):
        return _test(d, ins)
    raise d.refuse(ins)


BUILDERS: dict[str, Builder] = {"mbarrier": _mbarrier}
