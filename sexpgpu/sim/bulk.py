"""cp.async.bulk: boxes of tensors, and plain bytes, between global and shared memory, issued by one thread.

Into shared memory they report to an mbarrier and are done when somebody looks at it. Out of shared memory they are done
at once.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen

from sexpgpu.sim import watch
from sexpgpu.sim.access import OFFSET, Kind, Touch
from sexpgpu.sim.decode import WINDOW_SHIFT, Decoder, Read, Step
from sexpgpu.sim.lanes import Lanes, Mask
from sexpgpu.sim.memory import BASE
from sexpgpu.sim.phases import change
from sexpgpu.sim.source import Address, Instr
from sexpgpu.sim.tensormap import SIZE, TensorMap, decode_tensor_map
from sexpgpu.sim.types import S32, U32, Array

DIMENSIONS = {f"{n}d": n for n in range(1, 6)}
HINTS = ("async", "bulk", "tensor", "shared", "shared::cta", "shared::cluster", "global", "tile", "bulk_group")
COMPLETE = "mbarrier::complete_tx::bytes"
CHUNK = 16


@frozen(eq=False)
class Flight:
    """A copy to shared memory that is not done: chunks of 16 bytes at `target`, for the mbarrier at byte `barrier`."""

    target: Touch
    data: Array
    barrier: int
    size: int


def swizzled(address: Array, swizzle: int) -> Array:
    """Where a byte of a tile lies: chunks of 16 bytes exchanged by the row of 128 bytes that they are in."""
    if swizzle == 0:
        return address
    mask = (swizzle // CHUNK) - 1
    found: Array = address ^ ((address >> 7 & mask) << 4)
    return found


def tensor_map(st: Lanes, ins: Instr, lane: int, address: int) -> TensorMap:
    """The map at a generic address: in the parameters, or in global memory."""
    window = address >> WINDOW_SHIFT
    if window == 3:
        data = st.params[address & OFFSET :][:SIZE].tobytes()
    elif window == 0 and st.memory.within(address, address + SIZE):
        data = st.memory.view(address, SIZE).tobytes()
    else:
        data = b""
    found = decode_tensor_map(data) if len(data) == SIZE else None
    if found is None:
        st.fail("E-SIM-035", "there is no tensor map at this address", ins, lane, actual=f"{address:#x}")
    return found


def elements(box: TensorMap, corner: list[int]) -> tuple[Array, Array]:
    """The addresses of a box's elements, innermost first, and which of them are inside the tensor."""
    address = np.full(1, box.address, np.int64)
    inside = np.ones(1, np.bool_)
    steps = (box.itemsize, *box.strides)
    for axis in range(len(box.shape)):
        at = corner[axis] + np.arange(box.box[axis], dtype=np.int64)
        address = ((at * steps[axis])[:, None] + address).reshape(-1)
        inside = (((at >= 0) & (at < box.shape[axis]))[:, None] & inside).reshape(-1)
    return address, inside


def _touch(st: Lanes, ins: Instr, addresses: Array, width: int, lane: int, kind: Kind) -> None:
    """Check accesses of one thread to global memory."""
    for first in range(0, len(addresses), st.size):
        part = addresses[first : first + st.size]
        low, high = int(part.min()), int(part.max()) + width
        if not st.memory.within(low, high):
            starts = [int(a) for a in part if not st.memory.within(int(a), int(a) + width)]
            if starts:
                st.fail(
                    "E-SIM-020",
                    "a bulk copy outside every allocation",
                    ins,
                    lane,
                    actual=st.memory.describe(starts[0]),
                )
        if st.checks.watching:
            lanes = np.full(len(part), lane, np.int64)
            watch.access(st, Touch("global", part - BASE, width, lanes, ins, kind))


def _chunks(st: Lanes, ins: Instr, lane: int, offset: int, size: int, swizzle: int) -> Array:
    """The bytes in shared memory where the chunks of a tile begin."""
    if offset % 128 or offset < 0 or offset + size > st.shape.shared:
        code = "E-SIM-022" if offset % 128 else "E-SIM-021"
        st.fail(code, "a tile at this place of shared memory", ins, lane, actual=f"byte {offset}, {size} bytes")
    return swizzled(offset + np.arange(0, size, CHUNK, dtype=np.int64), swizzle) + int(st.shared_base[lane])


def _send(st: Lanes, ins: Instr, lane: int, chunks: Array, data: Array, barrier: int) -> None:
    target = Touch("shared", chunks, CHUNK, np.full(len(chunks), lane, np.int64), ins, "issue")
    if st.checks.watching:
        watch.access(st, target)
    st.flights.append(Flight(target, data, barrier + int(st.shared_base[lane]), len(data)))


def arrive(st: Lanes, barriers: Array) -> None:
    """Finish the copies that report to these mbarriers (their first bytes)."""
    wanted = {int(b) for b in barriers}
    due = [flight for flight in st.flights if flight.barrier in wanted]
    if not due:
        return
    st.flights[:] = [flight for flight in st.flights if flight.barrier not in wanted]
    for flight in due:
        target = flight.target
        st.shared_views[16][target.index >> 4] = flight.data.view(np.complex128)
        if st.checks.watching:
            watch.access(st, Touch("shared", target.index, CHUNK, target.lanes, target.ins, "arrival"))
        at = np.array([flight.barrier], np.int64)
        if st.clock is not None:
            st.clock.tell(st, target.lanes[:1], at)
        change(st, at, np.zeros(1, np.int64), np.array([-flight.size], np.int64))


def _value(read: Read, st: Lanes, lane: int) -> int:
    x = read(st)
    return int(x[0] if x.shape[0] == 1 else x[lane])


def _load_box(d: Decoder, ins: Instr) -> Step:
    to, box_at, barrier = (d.address(x, ins) for x in ins.operands[:3])
    corner = _corner(d, ins, 1)

    def step(st: Lanes, m: Mask) -> None:
        for lane in [int(x) for x in st.selected(m)]:
            box = tensor_map(st, ins, lane, _value(box_at, st, lane))
            if len(box.shape) != len(corner):
                st.fail("E-SIM-035", "a tensor map of another rank", ins, lane, actual=f"{len(box.shape)} axes")
            addresses, inside = elements(box, [_value(c, st, lane) for c in corner])
            data = np.zeros(len(addresses), f"u{box.itemsize}")
            there = addresses[inside]
            if len(there):
                _touch(st, ins, there, box.itemsize, lane, "read")
                data[inside] = st.memory.views[box.itemsize][(there - BASE) // box.itemsize]
            st.counters.read += len(there) * box.itemsize
            chunks = _chunks(st, ins, lane, _value(to, st, lane), box.bytes, box.swizzle)
            _send(st, ins, lane, chunks, data.view(np.uint8), _value(barrier, st, lane))

    return step


def _store_box(d: Decoder, ins: Instr) -> Step:
    box_at, origin = (d.address(x, ins) for x in ins.operands[:2])
    corner = _corner(d, ins, 0)

    def step(st: Lanes, m: Mask) -> None:
        for lane in [int(x) for x in st.selected(m)]:
            box = tensor_map(st, ins, lane, _value(box_at, st, lane))
            addresses, inside = elements(box, [_value(c, st, lane) for c in corner])
            chunks = _chunks(st, ins, lane, _value(origin, st, lane), box.bytes, box.swizzle)
            if st.checks.watching:
                lanes = np.full(len(chunks), lane, np.int64)
                watch.access(st, Touch("shared", chunks, CHUNK, lanes, ins, "read"))
            data = st.shared_views[16][chunks >> 4].view(f"u{box.itemsize}")
            there = addresses[inside]
            if len(there):
                _touch(st, ins, there, box.itemsize, lane, "write")
                st.memory.views[box.itemsize][(there - BASE) // box.itemsize] = data[inside]
            st.counters.written += len(there) * box.itemsize

    return step


def _corner(d: Decoder, ins: Instr, operand: int) -> list[Read]:
    address = ins.operands[operand]
    rank = next((DIMENSIONS[p] for p in ins.parts if p in DIMENSIONS), 0)
    if not isinstance(address, Address) or len(address.coordinates) != rank:
        raise d.refuse(ins, "not as many coordinates as axes")
    return [d.read(c, S32, ins) for c in address.coordinates]


def _load_bytes(d: Decoder, ins: Instr) -> Step:
    to, origin = (d.address(x, ins) for x in ins.operands[:2])
    length, barrier = d.read(ins.operands[2], U32, ins), d.address(ins.operands[3], ins)

    def step(st: Lanes, m: Mask) -> None:
        for lane in [int(x) for x in st.selected(m)]:
            size, start = _value(length, st, lane), _value(origin, st, lane)
            if size % CHUNK or start % CHUNK:
                st.fail("E-SIM-022", "a bulk copy that 16 does not divide", ins, lane, actual=f"{size} bytes")
            addresses = start + np.arange(0, size, CHUNK, dtype=np.int64)
            if size == 0:
                continue
            _touch(st, ins, addresses, CHUNK, lane, "read")
            data = st.memory.view(start, size).copy()
            st.counters.read += size
            offset = _value(to, st, lane)
            if offset % CHUNK or offset + size > st.shape.shared:
                st.fail("E-SIM-021", "a bulk copy outside the shared memory of the block", ins, lane)
            chunks = offset + np.arange(0, size, CHUNK, dtype=np.int64) + int(st.shared_base[lane])
            _send(st, ins, lane, chunks, data, _value(barrier, st, lane))

    return step


def build(d: Decoder, ins: Instr) -> Step:
    """A form of cp.async.bulk."""
    if "commit_group" in ins.parts or "wait_group" in ins.parts:
        d.only(ins, "async", "bulk", "commit_group", "wait_group", "read")
        return lambda st, m: None  # copies out of shared memory are done at once
    d.only(ins, *HINTS, *DIMENSIONS, COMPLETE)
    n = len(ins.operands)
    into = COMPLETE in ins.parts
    if "tensor" in ins.parts and into and n == 3:
        return _load_box(d, ins)
    if "tensor" in ins.parts and "bulk_group" in ins.parts and n == 2:
        return _store_box(d, ins)
    if "tensor" not in ins.parts and into and n == 4:
        return _load_bytes(d, ins)
    raise d.refuse(ins)
