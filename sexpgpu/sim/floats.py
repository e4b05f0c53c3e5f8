"""Floating-point arithmetic as PTX defines it, on NumPy arrays: fused products, rounding modes, 16-bit formats.

A result that needs more than one rounding in NumPy's own types is computed in the wider type *rounded to odd*
(Boldo, Melquiond, "Emulation of FMA and correctly rounded sums", 2008): the last bit then remembers that something was
lost, and the second rounding is as good as a first one.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from sexpgpu.sim.types import Array

Mode = Literal["rn", "rz", "rm", "rp", "rna"]
NAN16 = np.uint16(0x7FFF)  # the NaN that 16-bit results are
_HALF27, _UPPER26 = np.uint64(1 << 26), np.uint64(0xFFFFFFFFF8000000)
_ONE64 = np.uint64(1)
SHORT = 0x1FFFFFFF  # the bits of a float64 that a float32 has not


def bf16_to_f32(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f16_to_f32(bits: Array) -> Array:
    return bits.view(np.float16).astype(np.float32)


def f32_to_bf16(x: Array, mode: str = "rn") -> Array:
    """The bits of float32 `x` as bfloat16; a NaN becomes the canonical one."""
    u = x.view(np.uint32)
    if mode == "rn":
        r = u + (np.uint32(0x7FFF) + ((u >> np.uint32(16)) & np.uint32(1)))
    elif mode == "rna":
        r = u + np.uint32(0x8000)
    elif mode == "rz":
        r = u
    else:
        negative = (u >> np.uint32(31)).astype(np.bool_)
        away = ((u & np.uint32(0xFFFF)) != 0) & (negative if mode == "rm" else ~negative)
        r = u + (away.astype(np.uint32) << np.uint32(16))
    out = (r >> np.uint32(16)).astype(np.uint16)
    wrong = x != x
    if wrong.any():
        out[wrong] = NAN16
    return out


def f32_to_f16(x: Array, mode: str = "rn") -> Array:
    """The bits of float32 `x` as float16."""
    near = x.astype(np.float16)
    if mode not in ("rn", "rna"):
        near = _toward(near, x, mode)
    out = near.view(np.uint16).copy()
    wrong = x != x
    if wrong.any():
        out[wrong] = NAN16
    return out


def _toward(near: Array, exact: Array, mode: str) -> Array:
    """`near`, a neighbour of `exact` in a narrower type, moved by one step where `mode` asks for the other one."""
    wide = near.astype(exact.dtype)
    if mode == "rm":
        return _stepped(near, wide > exact, up=False)
    if mode == "rp":
        return _stepped(near, wide < exact, up=True)
    return _stepped(_stepped(near, (wide > exact) & (wide > 0), up=False), (wide < exact) & (wide < 0), up=True)


def _stepped(x: Array, where: Array, up: bool) -> Array:
    """The next value of the type above or below, where asked; `nextafter` by the bits, several times as fast."""
    kind = np.dtype(f"u{x.dtype.itemsize}").type
    u = x.view(kind)
    top = kind(1 << 8 * x.dtype.itemsize - 1)
    negative = (u & top) != 0
    grows = negative != up  # away from zero
    moved = np.where(grows, u + kind(1), u - kind(1))
    zero = x == 0
    if zero.any():
        moved = np.where(zero, kind(1) if up else top | kind(1), moved)
    found: Array = np.where(where, moved, u).view(x.dtype)
    return found


def f64_to_f32(x: Array, mode: str = "rn") -> Array:
    near: Array = x.astype(np.float32)
    return near if mode == "rn" else _toward(near, x, mode)


def odd_f32(x: Array) -> Array:
    """float64 to float32, rounded to odd."""
    cut = f64_to_f32(x, "rz")
    lost = (cut.astype(np.float64) != x) & np.isfinite(x)
    odd: Array = (cut.view(np.uint32) | lost.astype(np.uint32)).view(np.float32)
    return odd


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The sum and what it lost, exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _upper(x: Array) -> Array:
    """The upper 26 bits of float64, rounded, so that the rest has 26 as well."""
    upper: Array = ((x.view(np.uint64) + _HALF27) & _UPPER26).view(np.float64)
    return upper


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The product of float64 and what it lost, exactly (Dekker), short of overflow."""
    p = a * b
    ah, bh = _upper(a), _upper(b)
    al, bl = a - ah, b - bh
    lost = ah * bh
    lost -= p
    lost += ah * bl
    lost += al * bh
    lost += al * bl
    return p, lost


def odd_sum(a: Array, b: Array) -> Array:
    """The sum of two float64, rounded to odd."""
    s, lost = two_sum(a, b)
    bits = s.view(np.uint64)
    inexact = (lost != 0) & np.isfinite(s) & ((bits & _ONE64) == 0)
    if not inexact.any():
        return s
    up = (lost > 0) == (s > 0)  # away from zero where what was lost has the sign of the sum
    moved = np.where(up, bits + _ONE64, bits - _ONE64)
    return np.where(inexact, moved, bits).view(np.float64)


def fma_f32(a: Array, b: Array, c: Array, mode: str = "rn") -> Array:
    """a·b + c of float32, rounded once."""
    product = a.astype(np.float64) * b
    s = product + c
    if mode == "rn":
        near = s.astype(np.float32)
        halfway = (s.view(np.uint64) & np.uint64(SHORT)) == np.uint64(0x10000000)
        subnormal = (near.view(np.uint32) & np.uint32(0x7F800000)) == 0
        if not halfway.any() and not (subnormal.any() and (subnormal & (s != 0)).any()):
            return near
    return f64_to_f32(odd_sum(product, np.broadcast_to(c, product.shape).astype(np.float64)), mode)


def fma_f64(a: Array, b: Array, c: Array) -> Array:
    """a·b + c of float64, rounded once; where the product's parts overflow or vanish, rounded twice.

    What the product and the sum lose is added to the sum. That addition rounds too, which shows only where it ends
    exactly between two neighbours: those sums are done again, rounded to odd.
    """
    if not (int(np.bitwise_or.reduce(a.view(np.uint64))) | int(np.bitwise_or.reduce(b.view(np.uint64)))) & SHORT:
        return a * b + c  # float32 values: their product is exact
    p, lost = two_product(a, b)
    s, rest = two_sum(p, c)
    both = rest + lost
    fused: Array = s + both
    twice = (both - (fused - s)) * 2
    between = ((fused + twice) - fused == twice) & (twice != 0)
    if between.any():
        high, low = two_sum(c + np.zeros_like(p), lost)
        high, middle = two_sum(p, high)
        fused = np.where(between, high + odd_sum(low, middle), fused)
    tiny = np.abs(p) < 2.0**-960
    if np.isfinite(fused).all() and not (tiny.any() and (tiny & (p != 0)).any()):
        return fused
    return np.where(np.isfinite(fused) & ~tiny, fused, a * b + c)


def fma_16(a: Array, b: Array, c: Array) -> Array:
    """a·b + c of 16-bit values widened to float32, as a float32 that one rounding to 16 bits makes exact."""
    product, term = np.broadcast_arrays(a.astype(np.float64) * b, c.astype(np.float64))
    return odd_f32(odd_sum(product, term))


def add_f32(a: Array, b: Array, mode: str) -> Array:
    if mode == "rn":
        return a + b
    return f64_to_f32(odd_sum(a.astype(np.float64), b.astype(np.float64)), mode)


def mul_f32(a: Array, b: Array, mode: str) -> Array:
    return a * b if mode == "rn" else f64_to_f32(a.astype(np.float64) * b, mode)


def div_f32(a: Array, b: Array, mode: str) -> Array:
    if mode == "rn":
        return a / b
    x, y = a.astype(np.float64), b.astype(np.float64)
    q = x / y
    p, lost = two_product(q, y)
    rest = (x - p) - lost  # exact: q is within an ulp
    sign = np.where((rest > 0) == (y > 0), np.inf, -np.inf)
    inexact = (rest != 0) & np.isfinite(q) & ((q.view(np.uint64) & _ONE64) == 0)
    return f64_to_f32(np.where(inexact, np.nextafter(q, sign), q), mode)


def directed_f64(op: Any, a: Array, b: Array, mode: str) -> Array:
    """add, mul of float64 in a rounding mode."""
    x, y = np.broadcast_arrays(a, b)
    s, lost = op(x, y)
    if mode == "rn":
        return np.asarray(s)
    down = (lost < 0) & np.isfinite(s)
    up = (lost > 0) & np.isfinite(s)
    if mode == "rz":
        down, up = down & (s > 0), up & (s < 0)
    elif mode == "rm":
        up = np.zeros_like(up)
    else:
        down = np.zeros_like(down)
    moved: Array = np.where(down, np.nextafter(s, -np.inf), np.where(up, np.nextafter(s, np.inf), s))
    return moved


def flush(x: Array) -> Array:
    """Subnormal float32 to zero of their sign."""
    u = x.view(np.uint32)
    small = (u & np.uint32(0x7F800000)) == 0
    if not small.any():
        return x
    return np.where(small, u & np.uint32(0x80000000), u).view(np.float32)


def saturate(x: Array) -> Array:
    """Into [0, 1]; a NaN becomes 0 (`.sat`)."""
    kind = x.dtype.type
    held: Array = np.where(x > 0, np.minimum(x, kind(1)), kind(0))
    return held


def minimum(a: Array, b: Array, nan: bool) -> Array:
    """The smaller; −0 < +0. A NaN wins where `nan`, else loses."""
    return _extreme(a, b, np.minimum if nan else np.fmin, np.bitwise_or)


def maximum(a: Array, b: Array, nan: bool) -> Array:
    """The larger; +0 > −0. A NaN wins where `nan`, else loses."""
    return _extreme(a, b, np.maximum if nan else np.fmax, np.bitwise_and)


def _extreme(a: Array, b: Array, pick: Any, zero: Any) -> Array:
    bits = np.uint32 if a.dtype.itemsize == 4 else np.uint64
    picked = pick(a, b)
    out = np.where(a == b, zero(a.view(bits), b.view(bits)), picked.view(bits))
    wrong = picked != picked
    if wrong.any():
        out[wrong] = bits(0x7FFFFFFF) if bits is np.uint32 else bits(0x7FFFFFFFFFFFFFFF)
    found: Array = out.view(a.dtype)
    return found


def round_integral(x: Array, mode: str) -> Array:
    """To an integral value: rni, rzi, rmi, rpi."""
    if mode == "rni":
        return np.rint(x)
    if mode == "rzi":
        return np.trunc(x)
    return np.floor(x) if mode == "rmi" else np.ceil(x)


def tf32(x: Array, away: bool) -> Array:
    """float32 with 10 bits of fraction, to nearest: ties away from zero, or to even."""
    u = x.view(np.uint32)
    half = np.uint32(0x1000) if away else np.uint32(0xFFF) + ((u >> np.uint32(13)) & np.uint32(1))
    r = (u + half) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(x), np.uint32(0x7FFFFFFF), r).view(np.float32)
