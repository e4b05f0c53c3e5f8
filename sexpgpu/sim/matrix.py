"""ldmatrix and stmatrix: 8 × 8 matrices of 16-bit elements between shared memory and the registers of a warp.

Lanes 8i … 8i+7 give the addresses of the rows of matrix i; a lane holds two neighbours of a row, or with `.trans` of a
column.
"""

from __future__ import annotations

import numpy as np

from sexpgpu.sim.access import fetch, locate, put
from sexpgpu.sim.decode import Decoder, Step
from sexpgpu.sim.lanes import WARP, Lanes, Mask
from sexpgpu.sim.pointwise import Builder, count
from sexpgpu.sim.source import Group, Instr, Operand
from sexpgpu.sim.types import B32, Array
from sexpgpu.sim.warp import whole_warps

COUNTS = {"x1": 1, "x2": 2, "x4": 4}
ROW = 16  # bytes


def _shape(d: Decoder, ins: Instr, registers: Operand) -> tuple[int, bool, tuple[Operand, ...]]:
    d.only(ins, "sync", "aligned", "m8n8", "trans", "shared", "shared::cta", "b16", *COUNTS)
    n = next((COUNTS[p] for p in ins.parts if p in COUNTS), 0)
    items = registers.items if isinstance(registers, Group) else (registers,)
    if len(items) != n:
        raise d.refuse(ins, f"{len(items)} registers for {n} matrices")
    return n, "trans" in ins.parts, items


def _rows_of(st: Lanes, m: Mask, n: int) -> Mask:
    """The lanes whose addresses count."""
    if 8 * n == WARP:
        return m
    first = st.layout.cached.get(f"rows:{n}")
    if first is None:
        first = st.layout.cached[f"rows:{n}"] = st.thread % WARP < 8 * n
    active = st.active(m)
    return first if active is None else first & active


def _turned(x: Array) -> Array:
    """Registers [warp, 8, 4] of a matrix as those of its transpose."""
    halves = np.ascontiguousarray(x).view(np.uint16).reshape(-1, 8, 8)
    return np.ascontiguousarray(halves.transpose(0, 2, 1)).view(np.uint32).reshape(-1, 8, 4)


def _load(d: Decoder, ins: Instr) -> Step:
    count(d, ins, 2)
    n, trans, items = _shape(d, ins, ins.operands[0])
    writes = [d.write(x, B32, ins) for x in items]
    address = d.address(ins.operands[1], ins)

    def step(st: Lanes, m: Mask) -> None:
        whole_warps(st, m, ins)
        touch = locate(st, _rows_of(st, m, n), ins, "shared", address(st), ROW, "read")
        rows = np.zeros((st.warps, 8 * n, 4), np.uint32)
        warps = touch.lanes[:: 8 * n] // WARP
        rows[warps] = fetch(st, touch).view(np.uint32).reshape(-1, 8 * n, 4)
        for i, write in enumerate(writes):
            matrix = rows[:, 8 * i : 8 * i + 8]
            write(st, np.ascontiguousarray(_turned(matrix) if trans else matrix).reshape(-1), m)

    return step


def _store(d: Decoder, ins: Instr) -> Step:
    count(d, ins, 2)
    n, trans, items = _shape(d, ins, ins.operands[1])
    reads = [d.read(x, B32, ins) for x in items]
    address = d.address(ins.operands[0], ins)

    def step(st: Lanes, m: Mask) -> None:
        whole_warps(st, m, ins)
        touch = locate(st, _rows_of(st, m, n), ins, "shared", address(st), ROW, "write")
        parts = [st.full(read(st)).reshape(-1, 8, 4) for read in reads]
        rows = np.concatenate([_turned(x) if trans else x for x in parts], axis=1)
        warps = touch.lanes[:: 8 * n] // WARP
        put(st, touch, np.ascontiguousarray(rows[warps]).view(np.complex128).reshape(-1))

    return step


BUILDERS: dict[str, Builder] = {"ldmatrix": _load, "stmatrix": _store}
