"""ld, st, prefetch: vectors, spaces, widths."""

from __future__ import annotations

import numpy as np

from sexpgpu.sim.access import by_space, fetch, locate, put
from sexpgpu.sim.decode import Decoder, Step, Write
from sexpgpu.sim.lanes import Lanes, Mask
from sexpgpu.sim.pointwise import Builder, count
from sexpgpu.sim.source import Group, Instr, Operand, Sink
from sexpgpu.sim.types import STORAGE, TYPES, Array, Scalar

SPACES = {
    "global": "global", "shared": "shared", "local": "local", "param": "param", "const": "const",
    "shared::cta": "shared", "shared::cluster": "shared", "param::entry": "param", "param::func": "param",
}  # fmt: skip
VECTORS = {"v2": 2, "v4": 4, "v8": 8}
HINTS = frozenset(
    {
        "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "volatile", "weak", "relaxed", "acquire", "release", "cta",
        "gpu", "sys", "cluster", "L1::no_allocate", "L1::evict_first", "L1::evict_last", "L1::evict_normal",
        "L1::evict_unchanged", "L2::64B", "L2::128B", "L2::256B", "L2::evict_first", "L2::evict_last",
    }
)  # fmt: skip


def shape_of(d: Decoder, ins: Instr) -> tuple[str | None, int, Scalar]:
    """The state space (None is generic), how many elements, their type."""
    space: str | None = None
    n = 1
    kind: Scalar | None = None
    for part in ins.parts:
        if part in SPACES:
            space = SPACES[part]
        elif part in VECTORS:
            n = VECTORS[part]
        elif part in TYPES and TYPES[part].kind != "pred":
            kind = TYPES[part]
        elif part not in HINTS:
            raise d.refuse(ins, f".{part}")
    if kind is None:
        raise d.refuse(ins, "no type")
    return space, n, kind


def _items(operand: Operand, n: int, d: Decoder, ins: Instr) -> tuple[Operand, ...]:
    items = operand.items if isinstance(operand, Group) else (operand,)
    if len(items) != n:
        raise d.refuse(ins, f"{len(items)} registers for {n} elements")
    return items


def _ld(d: Decoder, ins: Instr) -> Step:
    count(d, ins, 2)
    space, n, kind = shape_of(d, ins)
    items = _items(ins.operands[0], n, d, ins)
    generic = space is None
    writes = [(k, d.write(x, kind, ins, generic)) for k, x in enumerate(items) if not isinstance(x, Sink)]
    address = d.address(ins.operands[1], ins)
    named = d.space_of(ins.operands[1], ins)
    if (named == "param" and space is None) or (named in ("param", None) and space == "param"):
        # in a register, an address that was chosen between parameters
        return lambda st, m: _from_params(st, m, ins, writes, kind, address(st), n)
    if space == "param":
        space = "local" if named == "local" else None
    if space is None and named in ("local", "global", "shared"):
        space = named
    width, storage = kind.size * n, kind.storage

    def run(st: Lanes, m: Mask, where: str, a: Array) -> None:
        if where == "param":
            _from_params(st, m, ins, writes, kind, a, n)
            return
        touch = locate(st, m, ins, where, a, width, "read")
        values = fetch(st, touch)
        if touch.index.shape[0] == 1 or touch.lanes is st.lane:
            if n == 1:
                for _, write in writes:
                    write(st, values, m)
                return
            parts = values.view(storage).reshape(-1, n)
            for k, write in writes:
                write(st, parts[:, k].copy(), m)
            return
        parts = values.view(storage).reshape(-1, n)
        for k, write in writes:
            out = np.zeros(st.size, storage)
            out[touch.lanes] = parts[:, k]
            write(st, out, m)

    if space is not None:
        fixed = space
        return lambda st, m: run(st, m, fixed, address(st))
    return lambda st, m: by_space(st, m, address(st), lambda part, where, a: run(st, part, where, a))


def _from_params(
    st: Lanes, m: Mask, ins: Instr, writes: list[tuple[int, Write]], kind: Scalar, address: Array, n: int
) -> None:
    """Parameters of the entry: the same bytes for every lane."""
    lanes, width = st.selected(m), kind.size * n
    mine = cut(st, address, lanes)
    outside = (mine < 0) | (mine + width > len(st.params))
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        st.fail(
            "E-SIM-021",
            f"a read of {width} bytes outside the parameters of the kernel",
            ins,
            int(lanes[first]),
            expected=f"within {len(st.params)} bytes",
            actual=f"at byte {int(mine[first])}",
        )
    for k, write in writes:
        if address.shape[0] == 1:
            start = int(address[0]) + k * kind.size
            write(st, st.params[start : start + kind.size].view(kind.storage), m)
        else:
            at = np.clip(address, 0, len(st.params) - (k + 1) * kind.size) + k * kind.size
            rows = st.params[at[:, None] + np.arange(kind.size)]
            write(st, np.ascontiguousarray(rows).view(kind.storage).reshape(-1), m)


def _st(d: Decoder, ins: Instr) -> Step:
    count(d, ins, 2)
    space, n, kind = shape_of(d, ins)
    reads = [d.read(x, _raw(kind), ins) for x in _items(ins.operands[1], n, d, ins)]
    address = d.address(ins.operands[0], ins)
    named = d.space_of(ins.operands[0], ins)
    if space in (None, "param"):
        if named == "param" or (space == "param" and named is None):
            raise d.refuse(ins, "a write to parameters")
        space = named
    width, storage = kind.size * n, kind.storage

    def run(st: Lanes, m: Mask, where: str, a: Array) -> None:
        if where in ("param", "const"):
            st.fail("E-SIM-021", "a write to memory that is constant", ins, int(st.selected(m)[0]))
        touch = locate(st, m, ins, where, a, width, "write")
        if n == 1:
            put(st, touch, cut(st, reads[0](st), touch.lanes))
            return
        rows = np.empty((len(touch.lanes), n), storage)
        for k, read in enumerate(reads):
            rows[:, k] = cut(st, read(st), touch.lanes)
        flat = rows.reshape(-1)
        packed = np.complex128 if width == 16 else np.dtype(f"u{min(width, 8)}")
        elements = flat.view(packed)
        put(st, touch, elements if width <= 16 else elements.reshape(-1, width // 8))

    if space is not None:
        fixed = space
        return lambda st, m: run(st, m, fixed, address(st))
    return lambda st, m: by_space(st, m, address(st), lambda part, where, a: run(st, part, where, a))


def cut(st: Lanes, values: Array, lanes: Array) -> Array:
    """The values of the active lanes; one element stays one."""
    return values if values.shape[0] == 1 or lanes is st.lane else values.take(lanes)


def _raw(kind: Scalar) -> Scalar:
    return Scalar(kind.name, "bits", kind.bits, STORAGE[kind.bits], STORAGE[kind.bits])


def _nothing(d: Decoder, ins: Instr) -> Step:
    """Hints that change no value: prefetch, discard, applypriority."""
    for operand in ins.operands[:1]:
        d.address(operand, ins)
    return lambda st, m: None


BUILDERS: dict[str, Builder] = {
    "ld": _ld,
    "ldu": _ld,
    "st": _st,
    "prefetch": _nothing,
    "prefetchu": _nothing,
}
