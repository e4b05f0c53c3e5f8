"""Bits: logic, shifts, fields, counts, permutations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sexpgpu.sim.decode import Decoder, Step
from sexpgpu.sim.pointwise import Builder, pointwise, typed
from sexpgpu.sim.source import Instr
from sexpgpu.sim.types import B32, TYPES, U32, Array

LOGIC = {name: TYPES[name] for name in ("pred", "b16", "b32", "b64")}
SHIFT = {name: TYPES[name] for name in ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64")}
FIELD = {name: TYPES[name] for name in ("u32", "s32", "u64", "s64", "b32", "b64")}
_EIGHT, _MASK32 = np.uint32(8), np.uint64(0xFFFFFFFF)


def _logic(f: Callable[..., Array], operands: int) -> Builder:
    def build(d: Decoder, ins: Instr) -> Step:
        kind = typed(d, ins, LOGIC)
        d.only(ins, kind.name)
        return pointwise(d, ins, f, (kind,) * operands, kind)

    return build


def _amount(n: Array, bits: int, dtype: np.dtype[np.generic]) -> Array:
    """A shift count, held at the width: NumPy then gives 0, or the sign, as PTX does."""
    return np.minimum(n, np.uint32(bits)).astype(dtype)


def _shift(op: Callable[[Array, Array], Array]) -> Builder:
    def build(d: Decoder, ins: Instr) -> Step:
        kind = typed(d, ins, SHIFT)
        d.only(ins, kind.name)
        bits, dtype = kind.bits, kind.dtype
        return pointwise(d, ins, lambda a, n: op(a, _amount(n, bits, dtype)), (kind, U32), kind)

    return build


def _funnel(d: Decoder, ins: Instr) -> Step:
    d.only(ins, "l", "r", "wrap", "clamp", "b32")
    left, wrap = "l" in ins.parts, "wrap" in ins.parts

    def f(a: Array, b: Array, c: Array) -> Array:
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        n = ((c & np.uint32(31)) if wrap else np.minimum(c, np.uint32(32))).astype(np.uint64)
        out = (both << n) >> np.uint64(32) if left else both >> n
        return (out & _MASK32).astype(np.uint32)

    return pointwise(d, ins, f, (B32, B32, U32), B32)


def _extract(d: Decoder, ins: Instr) -> Step:
    kind = typed(d, ins, FIELD)
    d.only(ins, kind.name)
    bits, dtype = kind.bits, kind.storage

    def f(a: Array, start: Array, length: Array) -> Array:
        pos = (start & np.uint32(0xFF)).astype(dtype)
        size = (length & np.uint32(0xFF)).astype(dtype)
        raw = a.view(dtype)
        field = raw >> pos & ((dtype.type(1) << size) - dtype.type(1))
        if kind.signed:
            last = np.minimum(pos + size - dtype.type(1), dtype.type(bits - 1))
            sign = (raw >> last & dtype.type(1)).astype(np.bool_) & (size > 0)
            inside = np.minimum(size, dtype.type(bits) - np.minimum(pos, dtype.type(bits)))
            field = np.where(sign, field | ~((dtype.type(1) << inside) - dtype.type(1)), field)
        found: Array = field.view(kind.dtype)
        return found

    return pointwise(d, ins, f, (kind, U32, U32), kind)


def _insert(d: Decoder, ins: Instr) -> Step:
    kind = typed(d, ins, FIELD)
    d.only(ins, kind.name)
    one = kind.storage.type(1)

    def f(a: Array, b: Array, start: Array, length: Array) -> Array:
        pos = (start & np.uint32(0xFF)).astype(kind.storage)
        size = (length & np.uint32(0xFF)).astype(kind.storage)
        mask = ((one << size) - one) << pos
        found: Array = (b & ~mask) | ((a << pos) & mask)
        return found

    return pointwise(d, ins, f, (kind, kind, U32, U32), kind)


def _ones(x: Array) -> Array:
    return np.bitwise_count(x).astype(np.uint32)


def _smear(x: Array) -> Array:
    """Every bit below the highest one set."""
    n = 1
    while n < x.dtype.itemsize * 8:
        x = x | (x >> x.dtype.type(n))
        n *= 2
    return x


def _zeros(x: Array) -> Array:
    """Zero bits above the highest one."""
    return np.uint32(x.dtype.itemsize * 8) - _ones(_smear(x))


def _counting(f: Callable[[Array], Array]) -> Builder:
    def build(d: Decoder, ins: Instr) -> Step:
        kind = typed(d, ins, LOGIC)
        d.only(ins, kind.name)
        return pointwise(d, ins, f, (kind,), U32)

    return build


def _reversed(x: Array) -> Array:
    """The bits in the other order: pairs, fours, … exchanged (Knuth 7.1.3)."""
    bits = x.dtype.itemsize * 8
    kind, n = x.dtype.type, 1
    while n < bits:
        mask = kind(((1 << bits) - 1) // ((1 << n) + 1))
        x = ((x >> kind(n)) & mask) | ((x & mask) << kind(n))
        n *= 2
    return x


def _reverse(d: Decoder, ins: Instr) -> Step:
    kind = typed(d, ins, LOGIC)
    d.only(ins, kind.name)
    return pointwise(d, ins, _reversed, (kind,), kind)


def _highest(d: Decoder, ins: Instr) -> Step:
    """bfind: the place of the highest bit that is not a copy of the sign; all ones where there is none."""
    kind = typed(d, ins, FIELD)
    d.only(ins, kind.name, "shiftamt")
    bits = kind.bits

    def f(a: Array) -> Array:
        raw = np.where(a < 0, ~a, a).view(kind.storage) if kind.signed else a
        place = np.uint32(bits - 1) - _zeros(raw)
        none = raw == 0
        out = np.uint32(bits - 1) - place if "shiftamt" in ins.parts else place
        return np.where(none, np.uint32(0xFFFFFFFF), out)

    return pointwise(d, ins, f, (kind,), U32)


def _byte(x: Array, selector: Array) -> Array:
    """The byte of 64-bit `x` that the low 3 bits of a selector name; bit 3 spreads its sign."""
    at = ((selector & np.uint32(7)) << np.uint32(3)).astype(np.uint64)
    byte = (x >> at).astype(np.uint32) & np.uint32(0xFF)
    spread = (selector & _EIGHT) != 0
    return np.where(spread, np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0)), byte)


MODES: dict[str, tuple[tuple[int, ...], ...]] = {
    "f4e": tuple(tuple(n + i for i in range(4)) for n in range(4)),
    "b4e": tuple(tuple((n - i) % 8 for i in range(4)) for n in range(4)),
    "rc8": tuple((n,) * 4 for n in range(4)),
    "ecl": tuple(tuple(max(n, i) for i in range(4)) for n in range(4)),
    "ecr": tuple(tuple(min(n, i) for i in range(4)) for n in range(4)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


def _permute(d: Decoder, ins: Instr) -> Step:
    d.only(ins, "b32", *MODES)
    mode = next((MODES[p] for p in ins.parts if p in MODES), None)

    def f(a: Array, b: Array, c: Array) -> Array:
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        out = np.zeros(1, np.uint32)
        for i in range(4):
            if mode is None:
                selector = (c >> np.uint32(4 * i)) & np.uint32(15)
            else:
                selector = np.array([row[i] for row in mode], np.uint32)[c & np.uint32(3)]
            out = out | (_byte(both, selector) << np.uint32(8 * i))
        return out

    return pointwise(d, ins, f, (B32, B32, B32), B32)


def _table(d: Decoder, ins: Instr) -> Step:
    """lop3: any function of three bits, by its table of eight."""
    d.only(ins, "b32")

    def f(a: Array, b: Array, c: Array, table: Array) -> Array:
        out = np.zeros(1, np.uint32)
        for row in range(8):
            term = (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
            out = out | np.where((table >> np.uint32(row)) & np.uint32(1), term, np.uint32(0))
        return out

    return pointwise(d, ins, f, (B32, B32, B32, U32), B32)


def _conditional_not(x: Array) -> Array:
    found: Array = (x == 0).astype(x.dtype)
    return found


def _mask(d: Decoder, ins: Instr) -> Step:
    """bmsk: `size` ones from bit `start` on."""
    d.only(ins, "clamp", "wrap", "b32")
    wrap = "wrap" in ins.parts

    def f(start: Array, size: Array) -> Array:
        a = (start & np.uint32(31)) if wrap else np.minimum(start, np.uint32(32))
        b = (size & np.uint32(31)) if wrap else np.minimum(size, np.uint32(32))
        ones = (np.uint64(1) << b.astype(np.uint64)) - np.uint64(1)
        return ((ones << a.astype(np.uint64)) & _MASK32).astype(np.uint32)

    return pointwise(d, ins, f, (U32, U32), B32)


BUILDERS: dict[str, Builder] = {
    "and": _logic(np.bitwise_and, 2),
    "or": _logic(np.bitwise_or, 2),
    "xor": _logic(np.bitwise_xor, 2),
    "not": _logic(np.invert, 1),
    "cnot": _logic(_conditional_not, 1),
    "shl": _shift(np.left_shift),
    "shr": _shift(np.right_shift),
    "shf": _funnel,
    "bfe": _extract,
    "bfi": _insert,
    "bfind": _highest,
    "bmsk": _mask,
    "popc": _counting(_ones),
    "clz": _counting(_zeros),
    "brev": _reverse,
    "prmt": _permute,
    "lop3": _table,
}
