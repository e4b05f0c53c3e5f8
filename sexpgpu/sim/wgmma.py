"""wgmma.mma_async: products by a warpgroup, of matrices in shared memory that descriptors describe.

Each warp computes its 16 of the 64 rows. A descriptor has the first address, two strides and a swizzle; where the
elements lie follows the canonical layouts of the PTX manual ("Asynchronous warpgroup level matrix shared memory
layout"): rows of one swizzle width in groups of eight, or core matrices of 8 × 16 bytes where there is no swizzle.

The result is there at once; what was read is looked at again at `wgmma.wait_group`, so that memory which is written
before the wait is told.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen

from sexpgpu.sim import floats, watch
from sexpgpu.sim.access import Touch
from sexpgpu.sim.bulk import swizzled
from sexpgpu.sim.decode import Decoder, Read, Step
from sexpgpu.sim.lanes import WARP, Lanes, Mask
from sexpgpu.sim.mma import elements
from sexpgpu.sim.pointwise import Builder
from sexpgpu.sim.source import Group, Imm, Instr, Operand, Reg
from sexpgpu.sim.types import B32, F32, PRED, TYPES, U64, Array, Scalar
from sexpgpu.sim.warp import whole_warps

DEPTH = {"bf16": 16, "f16": 16, "tf32": 8}
SWIZZLE = (0, 128, 64, 32)  # by the two upper bits of a descriptor
SHAPES = tuple(f"m64n{n}k{k}" for n in range(8, 257, 8) for k in (8, 16))


@frozen
class Descriptor:
    """Bytes within shared memory: where the matrix begins, its strides, the width of its swizzle."""

    start: int
    leading: int
    stride: int
    swizzle: int

    @classmethod
    def of(cls, bits: int) -> Descriptor:
        start, leading, stride = ((bits >> n & 0x3FFF) << 4 for n in (0, 16, 32))
        return cls(start, leading, stride, SWIZZLE[bits >> 62])

    def addresses(self, rows: int, depth: int, size: int, across: bool) -> Array:
        """Where element [row, k] lies; `across` for a matrix whose rows, not its depth, are contiguous."""
        r, k = np.arange(rows, dtype=np.int64)[:, None], np.arange(depth, dtype=np.int64)
        t = 16 // size  # elements of a chunk
        if across and self.swizzle:
            n = self.swizzle // size
            place = r // n * self.leading + r % n * size + k % 8 * self.swizzle + k // 8 * self.stride
        elif across:
            place = r // t * self.stride + r % t * size + k % 8 * 16 + k // 8 * self.leading
        elif self.swizzle:
            place = r // 8 * self.stride + r % 8 * self.swizzle + k * size
        else:
            place = r // 8 * self.stride + r % 8 * 16 + k // t * self.leading + k % t * size
        return swizzled(self.start + place, self.swizzle)


@frozen(eq=False)
class Form:
    """What an instruction says besides its registers."""

    n: int
    k: int
    kind: Scalar
    signs: tuple[int, int]
    across: tuple[bool, bool]


def _form(d: Decoder, ins: Instr, flags: list[int], registers: bool) -> Form:
    shape = next((p for p in ins.parts if p in SHAPES), None)
    types = [p for p in ins.parts if p in TYPES]
    if shape is None or len(types) != 3 or types[0] != "f32" or types[1] != types[2] or types[1] not in DEPTH:
        raise d.refuse(ins, "no product of this shape and these types")
    n, k = (int(x) for x in shape[4:].split("k"))
    if k != DEPTH[types[1]]:
        raise d.refuse(ins, f"a depth of {k}")
    if len(flags) < 2 or any(x not in (1, -1) for x in flags[:2]) or any(x not in (0, 1) for x in flags[2:]):
        raise d.refuse(ins, "other factors or transpositions")
    trans = flags[2:] if not registers else [0, *flags[2:]]
    trans = [*trans, 0, 0][:2]
    return Form(n, k, TYPES[types[1]], (flags[0], flags[1]), (bool(trans[0]), bool(trans[1])))


def _mma(d: Decoder, ins: Instr) -> Step:
    d.only(ins, "mma_async", "sync", "aligned", "bf16", "f16", "tf32", "f32", *SHAPES)
    if len(ins.operands) < 4 or not isinstance(ins.operands[0], Group):
        raise d.refuse(ins)
    left, right, scale = ins.operands[1:4]
    flags = [int(x.value) for x in ins.operands[4:] if isinstance(x, Imm)]
    form = _form(d, ins, flags, isinstance(left, Group))
    items = ins.operands[0].items
    if len(items) != form.n // 2 or len(flags) != len(ins.operands) - 4:
        raise d.refuse(ins, "not as many registers as the shape has")
    writes = [d.write(x, F32, ins) for x in items]
    reads = [d.read(x, F32, ins) for x in items]
    keeps = _keeps(d, ins, scale)
    in_registers = [d.read(x, B32, ins) for x in left.items] if isinstance(left, Group) else []
    a_at = None if in_registers else d.read(left, U64, ins)
    b_at = d.read(right, U64, ins)

    def step(st: Lanes, m: Mask) -> None:
        whole_warps(st, m, ins)
        active = st.active(m)
        warps = np.arange(st.warps) if active is None else np.flatnonzero(active[::WARP])
        if a_at is None:
            blocks = [elements(form.kind, st.full(r(st)))[warps] for r in in_registers]
            rows = [np.concatenate(blocks[i : i + 2], axis=1) for i in range(0, 4, 2)]
            a = np.concatenate(rows, axis=2)
        else:
            first = st.thread[warps * WARP] // WARP % 4 * 16
            a = _matrix(st, ins, form, st.full(a_at(st))[warps * WARP], warps, 16, first, form.across[0])
        none = np.zeros(len(warps), np.int64)
        b = _matrix(st, ins, form, st.full(b_at(st))[warps * WARP], warps, form.n, none, form.across[1])
        product = np.matmul(a, b.transpose(0, 2, 1)) * np.float32(form.signs[0] * form.signs[1])
        parts = np.zeros((st.warps, 2, 8, form.n // 8, 4, 2), np.float32)
        parts[warps] = product.reshape(-1, 2, 8, form.n // 8, 4, 2)
        kept = keeps(st)
        for i, (read, write) in enumerate(zip(reads, writes, strict=True)):
            column, half, e = i // 4, i // 2 % 2, i % 2
            part = np.ascontiguousarray(parts[:, half, :, column, :, e]).reshape(-1)
            write(st, np.where(kept, part + read(st), part), m)

    return step


def _keeps(d: Decoder, ins: Instr, operand: Operand) -> Read:
    """Whether the sum goes on from what the registers hold."""
    if isinstance(operand, Reg):
        return d.read(operand, PRED, ins)
    if isinstance(operand, Imm):
        held = np.array([bool(operand.value)])
        return lambda st: held
    raise d.refuse(ins)


def _matrix(
    st: Lanes, ins: Instr, form: Form, bits: Array, warps: Array, rows: int, skip: Array, across: bool
) -> Array:
    """Matrices [warp, row, k], as float32, by the descriptors of the warps; `skip` rows before each warp's own."""
    size = form.kind.size
    known: dict[tuple[int, int], Array] = {}
    places = np.empty((len(warps), rows, form.k), np.int64)
    for i, key in enumerate(zip(bits.tolist(), skip.tolist(), strict=True)):
        if key not in known:
            found = Descriptor.of(key[0]).addresses(key[1] + rows, form.k, size, across)
            known[key] = found[key[1] :]
            if int(known[key].max()) + size > st.shape.shared:
                st.fail(
                    "E-SIM-021",
                    "a matrix outside the shared memory of the block",
                    ins,
                    int(warps[i]) * WARP,
                    expected=f"within {st.shape.shared} bytes",
                    actual=f"at byte {int(known[key].max())}",
                )
        places[i] = known[key]
    lanes = warps * WARP
    places += st.shared_base[lanes][:, None, None]
    if st.checks.watching:
        chunks = np.unique((places >> 4 << 4).reshape(len(warps), -1) + (lanes << 40)[:, None])
        owner, at = chunks >> 40, chunks & ((1 << 40) - 1)
        touch = Touch("shared", at, 16, owner, ins, "read")
        watch.access(st, touch)
        st.products.append((st.groups, touch))
    found = st.shared_views[size][places // size]
    if form.kind.name == "tf32":
        return (found & np.uint32(0xFFFFE000)).view(np.float32)
    return floats.bf16_to_f32(found) if form.kind.name == "bf16" else floats.f16_to_f32(found)


def _wait(d: Decoder, ins: Instr) -> Step:
    operand = ins.operands[0] if ins.operands else None
    if not isinstance(operand, Imm):
        raise d.refuse(ins)
    pending = int(operand.value)

    def step(st: Lanes, m: Mask) -> None:
        due = [touch for group, touch in st.products if group < st.groups - pending]
        st.products = [(group, touch) for group, touch in st.products if group >= st.groups - pending]
        for touch in due:
            watch.access(st, touch)

    return step


def _commit(st: Lanes, m: Mask) -> None:
    st.groups += 1


def _wgmma(d: Decoder, ins: Instr) -> Step:
    first = ins.parts[0] if ins.parts else ""
    if first == "mma_async":
        return _mma(d, ins)
    d.only(ins, "fence", "commit_group", "wait_group", "sync", "aligned")
    if first == "wait_group":
        return _wait(d, ins)
    if first == "commit_group":
        return _commit
    if first == "fence":
        return lambda st, m: None
    raise d.refuse(ins)


BUILDERS: dict[str, Builder] = {"wgmma": _wgmma}
