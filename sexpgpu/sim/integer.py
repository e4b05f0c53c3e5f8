"""Integer arithmetic: add, sub, mul, mad, div, rem, abs, neg, min, max, sad, and the 24-bit products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sexpgpu.sim.decode import Decoder, Step
from sexpgpu.sim.pointwise import Builder, pointwise
from sexpgpu.sim.source import Instr
from sexpgpu.sim.types import TYPES, Array, Scalar

KINDS = {name: TYPES[name] for name in ("u16", "s16", "u32", "s32", "u64", "s64")}
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def wider(kind: Scalar) -> Scalar:
    """The type of twice the width."""
    return TYPES[f"{kind.name[0]}{kind.bits * 2}"]


def high(kind: Scalar) -> Callable[[Array, Array], Array]:
    """The upper half of a product."""
    if kind.bits < 64:
        wide, shift = wider(kind).dtype, kind.bits

        def upper(a: Array, b: Array) -> Array:
            top: Array = ((a.astype(wide) * b.astype(wide)) >> wide.type(shift)).astype(kind.dtype)
            return top

        return upper

    def upper64(a: Array, b: Array) -> Array:
        x, y = a.view(np.uint64), b.view(np.uint64)
        xl, xh, yl, yh = x & _LOW, x >> _HALF, y & _LOW, y >> _HALF
        low, mid, other = xl * yl, xh * yl, xl * yh
        carry = ((low >> _HALF) + (mid & _LOW) + (other & _LOW)) >> _HALF
        out = xh * yh + (mid >> _HALF) + (other >> _HALF) + carry
        if kind.signed:
            out = out - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
        return np.asarray(out.view(kind.dtype))

    return upper64


def wide_product(kind: Scalar) -> Callable[[Array, Array], Array]:
    """The whole product, in twice the width."""
    dtype = wider(kind).dtype
    return lambda a, b: a.astype(dtype) * b.astype(dtype)


def divide(a: Array, b: Array) -> Array:
    """The quotient towards zero; all bits set where `b` is 0, as the hardware gives it."""
    quotient = (a - np.fmod(a, b)) // b if a.dtype.kind == "i" else a // b
    none = b == 0
    return (
        np.where(none, a.dtype.type(-1) if a.dtype.kind == "i" else ~a.dtype.type(0), quotient)
        if none.any()
        else quotient
    )


def remainder(a: Array, b: Array) -> Array:
    """What a division towards zero leaves, with the sign of `a`."""
    none = b == 0
    rest = np.fmod(a, b)
    return np.where(none, a, rest) if none.any() else rest


def saturating(op: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Of s32, held within its range."""

    def f(a: Array, b: Array) -> Array:
        exact = op(a.astype(np.int64), b.astype(np.int64))
        return np.clip(exact, -(1 << 31), (1 << 31) - 1).astype(np.int32)

    return f


def _sum(op: Callable[..., Array]) -> Builder:
    def build(d: Decoder, ins: Instr) -> Step:
        kind = KINDS[ins.parts[-1]]
        d.only(ins, kind.name, "sat")
        f = saturating(op) if "sat" in ins.parts else op
        return pointwise(d, ins, f, (kind, kind), kind)

    return build


def _plain(f: Callable[..., Array], operands: int = 2) -> Builder:
    def build(d: Decoder, ins: Instr) -> Step:
        kind = KINDS[ins.parts[-1]]
        d.only(ins, kind.name)
        return pointwise(d, ins, f, (kind,) * operands, kind)

    return build


def _product(d: Decoder, ins: Instr) -> Step:
    kind = KINDS[ins.parts[-1]]
    d.only(ins, kind.name, "lo", "hi", "wide")
    if "wide" in ins.parts:
        return pointwise(d, ins, wide_product(kind), (kind, kind), wider(kind))
    return pointwise(d, ins, high(kind) if "hi" in ins.parts else np.multiply, (kind, kind), kind)


def _product_sum(d: Decoder, ins: Instr) -> Step:
    kind = KINDS[ins.parts[-1]]
    d.only(ins, kind.name, "lo", "hi", "wide")
    if "wide" in ins.parts:
        whole = wide_product(kind)
        wide = wider(kind)
        return pointwise(d, ins, lambda a, b, c: whole(a, b) + c, (kind, kind, wide), wide)
    product: Callable[..., Array] = high(kind) if "hi" in ins.parts else np.multiply
    return pointwise(d, ins, lambda a, b, c: product(a, b) + c, (kind, kind, kind), kind)


def _cut24(x: Array) -> Array:
    """The low 24 bits, extended by the sign for signed types."""
    eight = x.dtype.type(8)
    cut: Array = (x << eight) >> eight
    return cut


def _product24(d: Decoder, ins: Instr) -> Step:
    kind = KINDS[ins.parts[-1]]
    d.only(ins, kind.name, "lo", "hi")
    wide = wider(kind).dtype

    def product(a: Array, b: Array) -> Array:
        whole = _cut24(a).astype(wide) * _cut24(b).astype(wide)
        half: Array = (whole >> wide.type(16) if "hi" in ins.parts else whole).astype(kind.dtype)
        return half

    if ins.op == "mul24":
        return pointwise(d, ins, product, (kind, kind), kind)
    return pointwise(d, ins, lambda a, b, c: product(a, b) + c, (kind, kind, kind), kind)


def _distance(a: Array, b: Array, c: Array) -> Array:
    return np.where(a < b, b - a, a - b) + c


def _in_pairs(f: Callable[[Array, Array], Array]) -> Builder:
    """Two integers of 16 bits in a register: add, min, max, with `.relu` where signed."""

    def build(d: Decoder, ins: Instr) -> Step:
        kind = PAIRS[ins.parts[-1]]
        d.only(ins, kind.name, "relu")
        part = np.dtype(np.int16 if kind.signed else np.uint16)

        def both(a: Array, b: Array) -> Array:
            halves = f(*(np.ascontiguousarray(x).view(part).reshape(-1, 2) for x in (a, b)))
            if "relu" in ins.parts:
                halves = np.maximum(halves, part.type(0))
            return np.ascontiguousarray(halves).view(np.uint32).reshape(-1)

        return pointwise(d, ins, both, (kind, kind), kind)

    return build


PAIRS = {name: TYPES[name] for name in ("u16x2", "s16x2")}
PAIR_BUILDERS: dict[str, Builder] = {
    "add": _in_pairs(np.add),
    "min": _in_pairs(np.minimum),
    "max": _in_pairs(np.maximum),
}
BUILDERS: dict[str, Builder] = {
    "add": _sum(np.add),
    "sub": _sum(np.subtract),
    "mul": _product,
    "mad": _product_sum,
    "mul24": _product24,
    "mad24": _product24,
    "div": _plain(divide),
    "rem": _plain(remainder),
    "min": _plain(np.minimum),
    "max": _plain(np.maximum),
    "abs": _plain(np.abs, 1),
    "neg": _plain(np.negative, 1),
    "sad": _plain(_distance, 3),
}
