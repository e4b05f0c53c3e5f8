"""cp.async: copies from global to shared memory that are done when their thread waits for them, and not before.

The hardware may finish a copy at any time before the wait; here it always is the latest one, so a kernel that reads too
early reads what was there before.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen

from sexpgpu.sim import bulk, watch
from sexpgpu.sim.access import Touch, locate
from sexpgpu.sim.decode import Decoder, Read, Step
from sexpgpu.sim.lanes import Lanes, Mask
from sexpgpu.sim.loads import cut
from sexpgpu.sim.memory import BASE
from sexpgpu.sim.pointwise import Builder
from sexpgpu.sim.source import Imm, Instr, Reg
from sexpgpu.sim.types import PRED, U32, Array

HINTS = ("ca", "cg", "shared", "shared::cta", "global", "L2::64B", "L2::128B", "L2::256B", "L2::cache_hint")
Lengths = Array | None


@frozen(eq=False)
class Copy:
    """One instruction's copies: to `target`, from `source` (first bytes), `length` bytes of each and zeros behind.

    `group` is the group that each lane's copy belongs to, of one element where it is the same for all.
    """

    target: Touch
    source: Array
    length: Lengths
    group: Array


def _copy(d: Decoder, ins: Instr) -> Step:
    d.only(ins, "async", *HINTS)
    operands = ins.operands
    if len(operands) < 3 or not isinstance(operands[2], Imm):
        raise d.refuse(ins)
    size = int(operands[2].value)
    if size not in (4, 8, 16) or ("cg" in ins.parts and size != 16):
        raise d.refuse(ins, f"{size} bytes")
    to, origin = d.address(operands[0], ins), d.address(operands[1], ins)
    length: Read | None = None
    skip: Read | None = None
    if len(operands) > 3 and "L2::cache_hint" not in ins.parts:
        last = operands[3]
        predicate = isinstance(last, Reg) and d.kinds[d.index[last.name]].bits == 1
        if predicate:
            skip = d.read(last, PRED, ins)
        else:
            length = d.read(last, U32, ins)

    def step(st: Lanes, m: Mask) -> None:
        lengths: Lengths = None
        if length is not None:
            lengths = np.minimum(length(st), np.uint32(size)).astype(np.int64)
        elif skip is not None:
            lengths = np.where(skip(st), 0, size)
        a = origin(st)
        _check_source(st, m, ins, a, size, lengths)
        target = locate(st, m, ins, "shared", to(st), size, "issue")
        lanes = target.lanes
        given = None if lengths is None else np.broadcast_to(cut(st, lengths, lanes), lanes.shape)
        source = np.broadcast_to(cut(st, a, lanes), lanes.shape)
        st.copies.append(Copy(target, source, given, cut(st, st.committed, lanes)))

    return step


def _check_source(st: Lanes, m: Mask, ins: Instr, a: Array, size: int, lengths: Lengths) -> None:
    """Bounds of what is read: nothing where the length is 0."""
    if lengths is None:
        locate(st, m, ins, "global", a, size, "read")
        return
    lanes = st.selected(m)
    mine = np.broadcast_to(lengths, (st.size,)).take(lanes) if lengths.shape[0] > 1 else lengths
    for n in np.unique(mine):
        if n == 0:
            continue
        part = m
        if lengths.shape[0] > 1:
            part = np.zeros(st.size, np.bool_)
            part[lanes[mine == n]] = True
        locate(st, part, ins, "global", a, int(n), "read", align=size)


def _commit(d: Decoder, ins: Instr) -> Step:
    d.only(ins, "async", "commit_group")

    def step(st: Lanes, m: Mask) -> None:
        later = st.committed + np.int32(1)
        st.committed = later if m is None else np.where(m, later, st.committed)

    return step


def _wait(d: Decoder, ins: Instr) -> Step:
    d.only(ins, "async", "wait_group", "wait_all")
    pending = 0
    if "wait_group" in ins.parts:
        operand = ins.operands[0] if ins.operands else None
        if not isinstance(operand, Imm):
            raise d.refuse(ins)
        pending = int(operand.value)
    everything = "wait_all" in ins.parts

    def step(st: Lanes, m: Mask) -> None:
        _deliver(st, m, pending, everything)

    return step


def _deliver(st: Lanes, m: Mask, pending: int, everything: bool) -> None:
    """Finish the copies of the active lanes but those of their `pending` latest groups."""
    active = st.active(m)
    rest: list[Copy] = []
    for copy in st.copies:
        lanes = copy.target.lanes
        due = copy.group < cut(st, st.committed, lanes) - np.int32(pending)
        if everything:
            due = np.ones(1, np.bool_)
        if active is not None:
            due = due & active.take(lanes)
        if due.all():
            _finish(st, copy)
        elif not due.any():
            rest.append(copy)
        else:
            due = np.broadcast_to(due, lanes.shape)
            _finish(st, _part(copy, due))
            rest.append(_part(copy, ~due))
    st.copies = rest


def _part(copy: Copy, which: Array) -> Copy:
    target = copy.target
    touch = Touch(target.space, target.index[which], target.width, target.lanes[which], target.ins, target.kind)
    group = copy.group if copy.group.shape[0] == 1 else copy.group[which]
    return Copy(touch, copy.source[which], None if copy.length is None else copy.length[which], group)


def _finish(st: Lanes, copy: Copy) -> None:
    target, size = copy.target, copy.target.width
    shift = size.bit_length() - 1
    views = st.memory.views
    if copy.length is None or (copy.length == size).all():
        data = views[size].take((copy.source - BASE) >> shift)
    else:
        rows = np.zeros((len(target.lanes), size), np.uint8)
        whole = np.flatnonzero(copy.length == size)
        if len(whole):
            rows[whole] = views[size].take((copy.source[whole] - BASE) >> shift).view(np.uint8).reshape(-1, size)
        for i in np.flatnonzero((copy.length > 0) & (copy.length < size)):
            n, start = int(copy.length[i]), int(copy.source[i]) - BASE
            rows[i, :n] = views[1][start : start + n]
        data = rows.view(np.complex128 if size == 16 else f"u{size}").reshape(-1)
    st.shared_views[size][target.index >> shift] = data
    if st.checks.watching:
        watch.access(st, Touch("shared", target.index, size, target.lanes, target.ins, "arrival"))


def _cp(d: Decoder, ins: Instr) -> Step:
    if ins.parts[:2] == ("async", "bulk"):
        return bulk.build(d, ins)
    if ins.parts[:1] != ("async",) or "mbarrier" in ins.parts:
        raise d.refuse(ins)
    if "commit_group" in ins.parts:
        return _commit(d, ins)
    if "wait_group" in ins.parts or "wait_all" in ins.parts:
        return _wait(d, ins)
    return _copy(d, ins)


BUILDERS: dict[str, Builder] = {"cp": _cp}
