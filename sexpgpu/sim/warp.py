"""What the lanes of a warp do together: shfl, vote, match, redux, activemask, elect, and the memory fences.

Before such an instruction runs, `run` has made sure that every lane that its mask names has arrived.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sexpgpu.sim.decode import Decoder, Read, Step
from sexpgpu.sim.lanes import WARP, Lanes, Mask
from sexpgpu.sim.pointwise import Builder, count
from sexpgpu.sim.source import Group, Imm, Instr, Sink
from sexpgpu.sim.types import B32, PRED, TYPES, U32, Array

_BITS = np.uint32(1) << np.arange(WARP, dtype=np.uint32)


def rows(st: Lanes, x: Array) -> Array:
    """A value of each lane as rows of warps."""
    return st.full(x).reshape(-1, WARP)


def present(st: Lanes, m: Mask) -> Array:
    """The active lanes as rows of warps."""
    active = st.active(m)
    return np.ones((st.warps, WARP), np.bool_) if active is None else active.reshape(-1, WARP)


def _shfl(d: Decoder, ins: Instr) -> Step:
    modes = [p for p in ins.parts if p in ("up", "down", "bfly", "idx")]
    d.only(ins, "sync", "b32", "up", "down", "bfly", "idx")
    if len(modes) != 1 or "sync" not in ins.parts:
        raise d.refuse(ins)
    count(d, ins, 5)
    mode = modes[0]
    target = ins.operands[0]
    value_to, flag_to = target.items if isinstance(target, Group) else (target, Sink())
    write = d.write(value_to, B32, ins)
    flag = None if isinstance(flag_to, Sink) else d.write(flag_to, PRED, ins)
    value, by, clamp = (d.read(x, B32, ins) for x in ins.operands[1:4])
    fixed = all(isinstance(x, Imm) for x in ins.operands[2:4])
    kept: list[tuple[Array, Array]] = []

    def route(st: Lanes) -> tuple[Array, Array]:
        """For every lane of a warp: where it reads, and whether that lies within its segment."""
        if fixed and kept:
            return kept[0]
        b, c = by(st), clamp(st)
        lane = np.arange(WARP, dtype=np.int64)
        b = (b & np.uint32(31)).astype(np.int64)
        top, segment = (c & np.uint32(31)).astype(np.int64), (c >> np.uint32(8) & np.uint32(31)).astype(np.int64)
        if b.shape[0] > 1 or c.shape[0] > 1:
            b, top, segment = (np.broadcast_to(x, (st.size,)).reshape(-1, WARP) for x in (b, top, segment))
        last = (lane & segment) | (top & ~segment)
        if mode == "up":
            source = lane - b
            inside = source >= last
        elif mode == "down":
            source = lane + b
            inside = source <= last
        elif mode == "bfly":
            source = lane ^ b
            inside = source <= last
        else:
            source = (lane & segment) | (b & ~segment)
            inside = source <= last
        found = np.where(inside, source, lane), inside
        if fixed:
            kept.append(found)
        return found

    def step(st: Lanes, m: Mask) -> None:
        x = value(st)
        source, inside = route(st)
        if st.active(m) is not None:
            _from_the_absent(st, m, ins, source)
        if x.shape[0] > 1:
            wide = x.reshape(-1, WARP)
            out = wide.take(source, axis=1) if source.ndim == 1 else np.take_along_axis(wide, source, 1)
            write(st, out.reshape(-1), m)
        else:
            write(st, x, m)
        if flag is not None:
            flag(st, np.broadcast_to(inside, (st.warps, WARP)).reshape(-1), m)

    return step


def _from_the_absent(st: Lanes, m: Mask, ins: Instr, source: Array) -> None:
    """Report an active lane that reads from one that does not take part."""
    here = present(st, m)
    there = here[:, source] if source.ndim == 1 else np.take_along_axis(here, source, 1)
    bad = here & ~there
    if bad.any():
        lane = int(np.flatnonzero(bad)[0])
        at = np.broadcast_to(source, (st.warps, WARP)).reshape(-1)[lane]
        st.fail(
            "E-SIM-041",
            "a shuffle reads from a lane that does not take part",
            ins,
            lane,
            expected="a lane that runs this instruction",
            actual=f"lane {int(at)} of warp {int(st.thread[lane]) // WARP}",
        )


def ballot(st: Lanes, m: Mask, p: Array) -> Array:
    """For each warp, the active lanes where `p` holds, as bits."""
    holds = rows(st, p) & present(st, m)
    found: Array = (holds * _BITS).sum(1, dtype=np.uint32)
    return found


def each_lane(per_warp: Array) -> Array:
    return np.repeat(per_warp, WARP)


def whole_warps(st: Lanes, m: Mask, ins: Instr) -> None:
    """Report a warp of which some lanes do not take part in an instruction that needs all of them."""
    active = st.active(m)
    if active is None:
        return
    here = active.reshape(-1, WARP)
    torn = np.flatnonzero(here.any(1) & ~here.all(1))
    if len(torn):
        warp = int(torn[0])
        lane = warp * WARP + int(here[warp].argmax())
        st.fail(
            "E-SIM-040",
            "an instruction of a whole warp runs on a part of it",
            ins,
            lane,
            expected=f"{WARP} lanes",
            actual=f"{int(here[warp].sum())} lanes",
        )


def _vote(d: Decoder, ins: Instr) -> Step:
    modes = [p for p in ins.parts if p in ("all", "any", "uni", "ballot")]
    d.only(ins, "sync", "all", "any", "uni", "ballot", "pred", "b32")
    if len(modes) != 1:
        raise d.refuse(ins)
    count(d, ins, 3 if "sync" in ins.parts else 2)
    mode = modes[0]
    read = d.read(ins.operands[1], PRED, ins)
    write = d.write(ins.operands[0], B32 if mode == "ballot" else PRED, ins)

    def step(st: Lanes, m: Mask) -> None:
        p = read(st)
        found = ballot(st, m, p)
        if mode == "ballot":
            write(st, each_lane(found), m)
            return
        everyone = ballot(st, m, np.ones(1, np.bool_))
        if mode == "any":
            out = found != 0
        elif mode == "all":
            out = found == everyone
        else:
            out = (found == 0) | (found == everyone)
        write(st, each_lane(out), m)

    return step


def _match(d: Decoder, ins: Instr) -> Step:
    kind = TYPES[ins.parts[-1]]
    d.only(ins, "any", "all", "sync", "b32", "b64")
    count(d, ins, 3)
    target = ins.operands[0]
    value_to, flag_to = target.items if isinstance(target, Group) else (target, Sink())
    write = d.write(value_to, B32, ins)
    flag = None if isinstance(flag_to, Sink) else d.write(flag_to, PRED, ins)
    read = d.read(ins.operands[1], kind, ins)

    def step(st: Lanes, m: Mask) -> None:
        x, here = rows(st, read(st)), present(st, m)
        same = (x[:, :, None] == x[:, None, :]) & here[:, None, :]
        bits = (same * _BITS).sum(2, dtype=np.uint32)
        if "all" in ins.parts:
            everyone = ballot(st, m, np.ones(1, np.bool_))[:, None]
            agree = bits == everyone
            bits = np.where(agree, bits, np.uint32(0))
            if flag is not None:
                flag(st, agree.reshape(-1), m)
        write(st, bits.reshape(-1), m)

    return step


REDUCTIONS: dict[str, tuple[Callable[..., Array], object]] = {
    "add": (np.add.reduce, 0),
    "and": (np.bitwise_and.reduce, -1),
    "or": (np.bitwise_or.reduce, 0),
    "xor": (np.bitwise_xor.reduce, 0),
}


def _redux(d: Decoder, ins: Instr) -> Step:
    kind = TYPES[ins.parts[-1]]
    d.only(ins, "sync", "add", "min", "max", "and", "or", "xor", "u32", "s32", "b32")
    name = next((p for p in ins.parts if p in (*REDUCTIONS, "min", "max")), "")
    if not name:
        raise d.refuse(ins)
    count(d, ins, 3)
    read, write = d.read(ins.operands[1], kind, ins), d.write(ins.operands[0], kind, ins)
    info = np.iinfo(kind.dtype)

    def step(st: Lanes, m: Mask) -> None:
        x, here = rows(st, read(st)), present(st, m)
        if name in ("min", "max"):
            neutral = kind.dtype.type(info.max if name == "min" else info.min)
            pick = np.minimum.reduce if name == "min" else np.maximum.reduce
        else:
            pick, start = REDUCTIONS[name]
            neutral = np.array([start]).astype(kind.dtype)[0]
        write(st, each_lane(pick(np.where(here, x, neutral), axis=1).astype(kind.dtype)), m)

    return step


def _activemask(d: Decoder, ins: Instr) -> Step:
    write = d.write(ins.operands[0], B32, ins)
    return lambda st, m: write(st, each_lane(ballot(st, m, np.ones(1, np.bool_))), m)


def _elect(d: Decoder, ins: Instr) -> Step:
    """elect.sync d|p, mask: one lane of the mask, here the lowest."""
    target = ins.operands[0]
    value_to, flag_to = target.items if isinstance(target, Group) else (target, Sink())
    write = None if isinstance(value_to, Sink) else d.write(value_to, B32, ins)
    flag = None if isinstance(flag_to, Sink) else d.write(flag_to, PRED, ins)

    def step(st: Lanes, m: Mask) -> None:
        leader = present(st, m).argmax(1)
        if write is not None:
            write(st, each_lane(leader.astype(np.uint32)), m)
        if flag is not None:
            flag(st, (np.arange(WARP) == leader[:, None]).reshape(-1), m)

    return step


def members(d: Decoder, ins: Instr) -> Read:
    """How the mask of lanes that an instruction waits for is read: its last operand, or all of them."""
    if ins.op in ("shfl", "vote", "match", "redux", "elect") and "sync" in ins.parts:
        return d.read(ins.operands[-1], U32, ins)
    if ins.op == "bar":
        return d.read(ins.operands[0], U32, ins)
    everyone = np.array([0xFFFFFFFF], np.uint32)
    return lambda st: everyone


def _warp_barrier(d: Decoder, ins: Instr) -> Step:
    """bar.warp.sync: the wait is done; what remains is that the lanes see each other's writes from here on."""

    def step(st: Lanes, m: Mask) -> None:
        if st.clock is not None:
            st.clock.warps(st, m)

    return step


BUILDERS: dict[str, Builder] = {
    "shfl": _shfl,
    "vote": _vote,
    "match": _match,
    "redux": _redux,
    "activemask": _activemask,
    "elect": _elect,
    "bar": _warp_barrier,
    "barrier": _warp_barrier,
}
