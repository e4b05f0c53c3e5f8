"""Arithmetic of more than one word: `add.cc`, `addc`, `sub.cc`, `subc`, `mad.lo.cc`, `madc.hi`.

The carry is a register of its own that no instruction names, `%cc`.
"""

from __future__ import annotations

import numpy as np

from sexpgpu.sim.decode import Decoder, Step
from sexpgpu.sim.integer import KINDS, high
from sexpgpu.sim.lanes import Lanes, Mask
from sexpgpu.sim.pointwise import Builder, count
from sexpgpu.sim.program import CARRY
from sexpgpu.sim.source import Instr, Reg
from sexpgpu.sim.types import PRED, TYPES, Array

WORDS = {name: kind for name, kind in KINDS.items() if kind.bits >= 32}


def uses_carry(ins: Instr) -> bool:
    """Whether an instruction reads or sets the carry."""
    return ins.op in BUILDERS or (ins.op in ("add", "sub", "mad") and "cc" in ins.parts)


def _sum(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    """a + b + carry, and whether it ran over."""
    first = a + b
    whole = first + carry.astype(a.dtype)
    return whole, (first < a) | (whole < first)


def _difference(a: Array, b: Array, borrow: Array) -> tuple[Array, Array]:
    first = a - b
    whole = first - borrow.astype(a.dtype)
    return whole, (first > a) | (whole > first)


def build(d: Decoder, ins: Instr) -> Step:
    """One word of a longer sum, difference or product."""
    kind = WORDS.get(ins.parts[-1] if ins.parts else "")
    if kind is None:
        raise d.refuse(ins)
    d.only(ins, kind.name, "cc", "lo", "hi")
    word = TYPES[f"u{kind.bits}"]
    base = ins.op.removesuffix("c") if ins.op in BUILDERS else ins.op
    count(d, ins, 4 if base == "mad" else 3)
    takes, sets = ins.op in BUILDERS, "cc" in ins.parts
    reads = [d.read(x, word, ins) for x in ins.operands[1:]]
    write = d.write(ins.operands[0], word, ins)
    carry_in = d.read(Reg(CARRY), PRED, ins)
    carry_out = d.write(Reg(CARRY), PRED, ins)
    combine = _difference if base == "sub" else _sum
    upper = high(kind)

    def product(a: Array, b: Array) -> Array:
        found: Array = upper(a.view(kind.dtype), b.view(kind.dtype)).view(word.dtype) if "hi" in ins.parts else a * b
        return found

    none = np.zeros(1, np.bool_)

    def step(st: Lanes, m: Mask) -> None:
        a, b = reads[0](st), reads[1](st)
        if base == "mad":
            a, b = product(a, b), reads[2](st)
        value, carry = combine(a, b, carry_in(st) if takes else none)
        write(st, value, m)
        if sets:
            carry_out(st, carry, m)

    return step


BUILDERS: dict[str, Builder] = {"addc": build, "subc": build, "madc": build}
