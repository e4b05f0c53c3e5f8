"""cvt: between integers, floats and integers, floats of two widths, and two floats into a pair; cvt.pack."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sexpgpu.sim import floats
from sexpgpu.sim.decode import Decoder, Step
from sexpgpu.sim.pointwise import Builder, count, pointwise
from sexpgpu.sim.source import Instr
from sexpgpu.sim.types import B32, F32, S32, TYPES, Array, Scalar

One = Callable[[Array], Array]
TO_FLOAT = ("rn", "rz", "rm", "rp", "rna")
TO_INTEGRAL = ("rni", "rzi", "rmi", "rpi")
WIDEN: dict[str, One] = {"f16": floats.f16_to_f32, "bf16": floats.bf16_to_f32}


def _cvt(d: Decoder, ins: Instr) -> Step:
    if "pack" in ins.parts:
        return _pack(d, ins)
    names = [p for p in ins.parts if p in TYPES]
    if len(names) != 2:
        raise d.refuse(ins)
    result, source = TYPES[names[0]], TYPES[names[1]]
    d.only(ins, *names, *TO_FLOAT, *TO_INTEGRAL, "ftz", "sat", "relu", "satfinite")
    if result.name in ("f16x2", "bf16x2"):
        return _pair(d, ins, result, source)
    if {result.name, source.name} & {"e4m3x2", "e5m2x2", "f16x2", "bf16x2", "u16x2", "s16x2"}:
        raise d.refuse(ins, "no conversion of these types")
    f = conversion(result, source, frozenset(ins.parts))
    if f is None:
        raise d.refuse(ins, "no conversion of these types in this mode")
    count(d, ins, 2)
    target = B32 if result.name == "tf32" else result
    return pointwise(d, ins, f, (source,), target)


def conversion(result: Scalar, source: Scalar, parts: frozenset[str]) -> One | None:
    """The function that converts `source` to `result` as the parts of a cvt say; None where there is none."""
    if result.kind != "float" and source.kind != "float":
        return _integers(result, source, "sat" in parts)
    if result.kind != "float":
        return _float_to_integer(result, source, parts)
    if source.kind != "float":
        return _integer_to_float(result, source, parts)
    return _floats(result, source, parts)


def _integers(result: Scalar, source: Scalar, sat: bool) -> One:
    dtype = result.dtype
    if not sat:
        return lambda a: a.astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    most = np.iinfo(source.dtype)
    floor, ceiling = source.dtype.type(max(low, int(most.min))), source.dtype.type(min(high, int(most.max)))
    return lambda a: np.clip(a, floor, ceiling).astype(dtype)


def _float_to_integer(result: Scalar, source: Scalar, parts: frozenset[str]) -> One | None:
    mode = next((p for p in TO_INTEGRAL if p in parts), None)
    if mode is None:
        return None
    widen, ftz = WIDEN.get(source.name), "ftz" in parts
    info = np.iinfo(result.dtype)
    low, high = float(info.min), 2.0 ** (result.bits - (1 if result.signed else 0))
    strange = source.name == "f64" or result.bits == 64  # what a NaN becomes, as the PTX table of cvt has it
    nan = info.dtype.type((1 << result.bits - 1) if not result.signed else info.min) if strange else info.dtype.type(0)

    def f(a: Array) -> Array:
        x = widen(a) if widen else floats.flush(a) if ftz else a
        whole = floats.round_integral(x.astype(np.float64), mode)
        inside = np.where((whole >= low) & (whole < high), whole, 0.0).astype(result.dtype)
        out = np.where(whole >= high, info.max, np.where(whole < low, info.min, inside)).astype(result.dtype)
        wrong = x != x
        return np.where(wrong, nan, out) if wrong.any() else out

    return f


def _integer_to_float(result: Scalar, source: Scalar, parts: frozenset[str]) -> One | None:
    mode = next((p for p in TO_FLOAT if p in parts), None)
    if mode is None:
        return None
    sat = "sat" in parts
    if result.name == "f64":
        return lambda a: _near(a, np.float64, mode)
    if result.name == "f32":
        return lambda a: floats.saturate(_near(a, np.float32, mode)) if sat else _near(a, np.float32, mode)
    narrow = floats.f32_to_f16 if result.name == "f16" else floats.f32_to_bf16

    def f(a: Array) -> Array:
        odd = floats.odd_f32(_odd_f64(a))
        return narrow(floats.saturate(odd) if sat else odd, mode)

    return f


def _near(a: Array, dtype: type[np.floating], mode: str) -> Array:
    near = a.astype(dtype)
    if mode == "rn":
        return near
    exact, wide = a.astype(np.longdouble), near.astype(np.longdouble)  # 64 bits of fraction at least
    low, high = dtype(-np.inf), dtype(np.inf)
    if mode == "rm":
        return np.where(wide > exact, np.nextafter(near, low), near)
    if mode == "rp":
        return np.where(wide < exact, np.nextafter(near, high), near)
    return np.where(np.abs(wide) > np.abs(exact), np.nextafter(near, dtype(0)), near)


def _odd_f64(a: Array) -> Array:
    """An integer as float64, rounded to odd."""
    cut = _near(a, np.float64, "rz")
    lost = cut.astype(np.longdouble) != a.astype(np.longdouble)
    odd: Array = (cut.view(np.uint64) | lost.astype(np.uint64)).view(np.float64)
    return odd


def _floats(result: Scalar, source: Scalar, parts: frozenset[str]) -> One | None:
    integral = next((p for p in TO_INTEGRAL if p in parts), None)
    mode = next((p for p in TO_FLOAT if p in parts), "rn")
    ftz, sat, relu = "ftz" in parts, "sat" in parts, "relu" in parts
    finite = "satfinite" in parts
    if result.name == "tf32":
        if source.name != "f32":
            return None
        to_tf32: One = lambda a: floats.tf32(a, mode == "rna").view(np.uint32)  # noqa: E731
        if relu:
            return lambda a: to_tf32(floats.maximum(a, np.zeros(1, np.float32), nan=True))
        return to_tf32
    widen = WIDEN.get(source.name)

    def f(a: Array) -> Array:
        x = widen(a) if widen else a
        if ftz and x.dtype == np.float32:
            x = floats.flush(x)
        if integral:
            x = floats.round_integral(x, integral)
        if relu:
            x = floats.maximum(x, np.zeros(1, x.dtype), nan=True)
        if sat:
            x = floats.saturate(x)
        return _narrowed(x, result, mode, ftz, finite)

    return f


def _narrowed(x: Array, result: Scalar, mode: str, ftz: bool, finite: bool) -> Array:
    """float32 or float64 `x` in the type `result`."""
    if result.name == "f64":
        return x.astype(np.float64)
    if result.name == "f32":
        if x.dtype == np.float64:
            x = floats.f64_to_f32(x, mode)
        return floats.flush(x) if ftz else x
    if x.dtype == np.float64:
        x = floats.odd_f32(x)
    narrow = floats.f32_to_f16 if result.name == "f16" else floats.f32_to_bf16
    out = narrow(x, mode)
    if not finite:
        return out
    top = np.uint16(0x7BFF if result.name == "f16" else 0x7F7F)
    over = (out & np.uint16(0x7FFF)) == top + np.uint16(1)
    return np.where(over, out & np.uint16(0x8000) | top, out)


def _pair(d: Decoder, ins: Instr, result: Scalar, source: Scalar) -> Step:
    """cvt.rn.bf16x2.f32 d, a, b: `a` in the upper half."""
    if source.name != "f32":
        raise d.refuse(ins)
    part = TYPES[result.name.removesuffix("x2")]
    f = _floats(part, source, frozenset(ins.parts))
    assert f is not None

    def pack(a: Array, b: Array) -> Array:
        return (f(a).astype(np.uint32) << np.uint32(16)) | f(b)

    return pointwise(d, ins, pack, (F32, F32), B32)


def _pack(d: Decoder, ins: Instr) -> Step:
    """cvt.pack.sat: two s32, saturated; of bytes, with a third operand whose lower half moves up."""
    names = [p for p in ins.parts if p in TYPES]
    d.only(ins, "pack", "sat", "u16", "s16", "u8", "s8", "s32", "b32")
    part = TYPES[names[0]]
    info = np.iinfo(part.dtype)
    mask = np.uint32((1 << part.bits) - 1)

    def cut(a: Array) -> Array:
        return np.clip(a, info.min, info.max).astype(np.int32).view(np.uint32) & mask

    if part.bits == 16:
        return pointwise(d, ins, lambda a, b: cut(a) << np.uint32(16) | cut(b), (S32, S32), B32)
    eight, sixteen = np.uint32(8), np.uint32(16)
    return pointwise(d, ins, lambda a, b, c: c << sixteen | cut(a) << eight | cut(b), (S32, S32, B32), B32)


BUILDERS: dict[str, Builder] = {"cvt": _cvt}
