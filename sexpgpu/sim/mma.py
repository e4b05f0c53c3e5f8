"""mma.sync: products of small matrices whose elements lie in the registers of a warp.

A lane is (g, t): g = lane div 4 a row of A, a column of B; t = lane mod 4. The layouts are those of the PTX manual,
written here as reshapes: a register of every lane is an 8 × 4 block, of pairs where two elements share a register.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attrs import frozen

from sexpgpu.sim import floats
from sexpgpu.sim.decode import Decoder, Read, Step, Write
from sexpgpu.sim.lanes import Lanes, Mask
from sexpgpu.sim.pointwise import Builder
from sexpgpu.sim.pointwise import count as count_operands
from sexpgpu.sim.source import Group, Instr, Operand
from sexpgpu.sim.types import B32, F64, TYPES, Array, Scalar
from sexpgpu.sim.warp import whole_warps

KEPT = 64  # operands that are remembered as matrices, since neighbours in a tile share them


@frozen
class Form:
    """A shape and element type: rows of D, columns, depth; registers of A and B; how a register holds elements."""

    m: int
    n: int
    k: int
    kind: Scalar
    a: int
    b: int
    c: int


def _forms() -> dict[tuple[str, str], Form]:
    found: dict[tuple[str, str], Form] = {}
    for name in ("bf16", "f16"):
        found["m16n8k16", name] = Form(16, 8, 16, TYPES[name], 4, 2, 4)
        found["m16n8k8", name] = Form(16, 8, 8, TYPES[name], 2, 1, 4)
    found["m16n8k8", "tf32"] = Form(16, 8, 8, TYPES["tf32"], 4, 2, 4)
    found["m16n8k4", "tf32"] = Form(16, 8, 4, TYPES["tf32"], 2, 1, 4)
    found["m8n8k4", "f64"] = Form(8, 8, 4, F64, 1, 1, 2)
    found["m16n8k4", "f64"] = Form(16, 8, 4, F64, 2, 1, 4)
    found["m16n8k8", "f64"] = Form(16, 8, 8, F64, 4, 2, 4)
    found["m16n8k16", "f64"] = Form(16, 8, 16, F64, 8, 4, 4)
    return found


FORMS = _forms()


def elements(kind: Scalar, register: Array) -> Array:
    """A register of each lane as its elements, widened: [warp, g, t·(elements of a register)]."""
    if kind.name == "f64":
        return register.reshape(-1, 8, 4)
    if kind.name == "tf32":  # the hardware reads the upper 19 bits
        return (register & np.uint32(0xFFFFE000)).view(np.float32).reshape(-1, 8, 4)
    halves = np.ascontiguousarray(register).view(np.uint16).reshape(-1, 8, 8)
    return floats.bf16_to_f32(halves) if kind.name == "bf16" else floats.f16_to_f32(halves)


def left(form: Form, registers: list[Array]) -> Array:
    """A as [warp, m, k]: registers go down the rows first, then to the next block of columns."""
    blocks = [elements(form.kind, r) for r in registers]
    rows = form.m // 8
    columns = [np.concatenate(blocks[i : i + rows], axis=1) for i in range(0, len(blocks), rows)]
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=2)


def right(form: Form, registers: list[Array]) -> Array:
    """B as [warp, n, k]: its transpose, as the registers have it."""
    blocks = [elements(form.kind, r) for r in registers]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=2)


def remembered(st: Lanes, registers: list[Array], side: str, build: Callable[[list[Array]], Array]) -> Array:
    """`build(registers)`, kept for the next instructions that have the same arrays as operand."""
    key = (side, *map(id, registers))
    found = st.fragments.get(key)
    if found is not None:
        return found[1]
    if len(st.fragments) >= KEPT:
        del st.fragments[next(iter(st.fragments))]
    matrix = build(registers)
    st.fragments[key] = (registers, matrix)  # the arrays as well, so that their ids stay theirs
    return matrix


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Group) else (operand,)


def _mma(d: Decoder, ins: Instr) -> Step:
    d.only(ins, "sync", "aligned", "row", "col", *{s for s, _ in FORMS}, "bf16", "f16", "tf32", "f32", "f64")
    shape = next((p for p in ins.parts if p.startswith("m") and p[1:2].isdigit()), "")
    types = [p for p in ins.parts if p in TYPES]
    if len(types) != 4 or [p for p in ins.parts if p in ("row", "col")] != ["row", "col"] or types[1] != types[2]:
        raise d.refuse(ins)
    form = FORMS.get((shape, types[1]))
    results = TYPES[types[0]]
    wanted = ("f64",) if form and form.kind.name == "f64" else ("f32", "f16") if types[1] == "f16" else ("f32",)
    if form is None or types[0] != types[3] or results.name not in wanted:
        raise d.refuse(ins, "no product of this shape and these types")
    raw = F64 if form.kind.name == "f64" else B32
    count_operands(d, ins, 4)
    target, a, b, c = (_items(x) for x in ins.operands)
    halves = results.name == "f16"
    count = form.c // 2 if halves else form.c
    if (len(a), len(b), len(c), len(target)) != (form.a, form.b, count, count):
        raise d.refuse(ins, "not as many registers as the shape has")
    reads_a, reads_b = [d.read(x, raw, ins) for x in a], [d.read(x, raw, ins) for x in b]
    sums = B32 if halves else results
    reads_c = [d.read(x, sums, ins) for x in c]
    writes = [d.write(x, sums, ins) for x in target]
    made = form

    def step(st: Lanes, m: Mask) -> None:
        whole_warps(st, m, ins)
        x = remembered(st, [st.full(r(st)) for r in reads_a], "a", lambda r: left(made, r))
        y = remembered(st, [st.full(r(st)) for r in reads_b], "b", lambda r: right(made, r))
        product = np.matmul(x, y.transpose(0, 2, 1))
        if halves:
            _add_halves(st, m, product, reads_c, writes)
            return
        blocks = product.reshape(-1, made.m // 8, 8, 4, 2)
        for i, (read, write) in enumerate(zip(reads_c, writes, strict=True)):
            part = np.ascontiguousarray(blocks[:, i // 2, :, :, i % 2]).reshape(-1)
            write(st, part + read(st), m)

    return step


def _add_halves(st: Lanes, m: Mask, product: Array, reads: list[Read], writes: list[Write]) -> None:
    """Sums in float16: a register holds two neighbours of a row."""
    pairs = product.reshape(-1, 2, 8 * 8)
    for i, (read, write) in enumerate(zip(reads, writes, strict=True)):
        old = floats.f16_to_f32(np.ascontiguousarray(st.full(read(st))).view(np.uint16))
        total = np.ascontiguousarray(pairs[:, i]).reshape(-1) + old
        write(st, floats.f32_to_f16(total).view(np.uint32), m)


BUILDERS: dict[str, Builder] = {"mma": _mma}
