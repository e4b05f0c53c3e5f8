"""Floating-point instructions: sums and products with their rounding modes, extremes, signs, and the approximations.

The approximate instructions (`ex2.approx`, `rcp.approx`, …) give the value rounded to their type: nearer to the truth
than the hardware, whose last bits PTX leaves open.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attrs import frozen

from sexpgpu.sim import floats
from sexpgpu.sim.decode import Decoder, Step
from sexpgpu.sim.pointwise import Builder, count, pointwise, typed
from sexpgpu.sim.source import Instr
from sexpgpu.sim.types import PRED, TYPES, Array, Scalar

KINDS = {name: TYPES[name] for name in ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2", "f32x2")}
SINGLE = {name: kind for name, kind in KINDS.items() if name != "f32x2"}
MODES = ("rn", "rz", "rm", "rp")
Function = Callable[..., Array]


@frozen
class Flags:
    """What stands between the name of an instruction and its type."""

    mode: str
    ftz: bool
    sat: bool
    relu: bool


def flags_of(d: Decoder, ins: Instr, kind: Scalar, *more: str) -> Flags:
    d.only(ins, kind.name, *MODES, "ftz", "sat", "relu", *more)
    mode = next((p for p in ins.parts if p in MODES), "rn")
    return Flags(mode, "ftz" in ins.parts, "sat" in ins.parts, "relu" in ins.parts)


def finished(f: Function, flags: Flags, kind: Scalar) -> Function:
    """`f` on floats, with subnormals of `kind` flushed and the result held in [0, 1], where asked."""
    g = f
    if flags.ftz:
        inner = g
        flush = flush16 if kind.name.startswith("f16") else floats.flush
        g = lambda *xs: flush(inner(*[flush(x) for x in xs]))  # noqa: E731
    if flags.sat:
        free = g
        g = lambda *xs: floats.saturate(free(*xs))  # noqa: E731
    if flags.relu:
        signed = g
        g = lambda *xs: floats.maximum(signed(*xs), np.zeros(1, np.float32), nan=True)  # noqa: E731
    return g


def flush16(x: Array) -> Array:
    """Values that float16 has only as subnormals to zero of their sign."""
    return np.where(np.abs(x) < np.float32(2.0**-14), np.copysign(np.float32(0), x), x)


def in_halves(f: Function, kind: Scalar) -> Function:
    """`f` of float32 as a function of 16-bit floats, or of pairs of them in 32 bits."""
    half = kind.name.startswith("f16")
    widen = floats.f16_to_f32 if half else floats.bf16_to_f32
    narrow = floats.f32_to_f16 if half else floats.f32_to_bf16
    if kind.bits == 16:
        return lambda *xs: narrow(f(*[widen(x) for x in xs]))

    def pairs(*xs: Array) -> Array:
        wide = [widen(np.ascontiguousarray(x).view(np.uint16).reshape(-1, 2)) for x in xs]
        return np.ascontiguousarray(narrow(f(*wide))).view(np.uint32).reshape(-1)

    return pairs


def in_pairs(f: Function) -> Function:
    """`f` of float32 as a function of two of them in 64 bits."""

    def pairs(*xs: Array) -> Array:
        wide = [np.ascontiguousarray(x).view(np.float32).reshape(-1, 2) for x in xs]
        return np.ascontiguousarray(f(*wide)).view(np.uint64).reshape(-1)

    return pairs


def _mixed(d: Decoder, ins: Instr, f32: Callable[[str], Function], n: int) -> Step:
    """`fma.f32.bf16`, `add.f32.f16`: factors, or the first summand, of 16 bits, the rest of float32."""
    narrow = KINDS[ins.parts[-1]]
    rest = tuple(p for p in ins.parts if p != narrow.name)
    mode = next((p for p in rest if p in MODES), "rn")
    if set(rest) - {"f32", "sat", *MODES} or narrow.bits != 16:
        raise d.refuse(ins)
    widen = floats.f16_to_f32 if narrow.name == "f16" else floats.bf16_to_f32
    wide = KINDS["f32"]
    f = finished(f32(mode), Flags(mode, False, "sat" in rest, False), wide)
    if n == 3:
        return pointwise(d, ins, lambda a, b, c: f(widen(a), widen(b), c), (narrow, narrow, wide), wide)
    return pointwise(d, ins, lambda a, c: f(widen(a), c), (narrow, wide), wide)


def _arithmetic(f32: Callable[[str], Function], f64: Callable[[str], Function], f16: Function, n: int) -> Builder:
    def build(d: Decoder, ins: Instr) -> Step:
        kind = typed(d, ins, KINDS)
        if ins.op in ("add", "sub", "fma") and "f32" in ins.parts[:-1]:
            return _mixed(d, ins, f32, n)
        flags = flags_of(d, ins, kind)
        if kind.name == "f32":
            f = finished(f32(flags.mode), flags, kind)
        elif kind.name == "f32x2":
            f = in_pairs(finished(f32(flags.mode), flags, kind))
        elif kind.name == "f64":
            f = f64(flags.mode)
        else:
            f = in_halves(finished(f16, flags, kind), kind)
        return pointwise(d, ins, f, (kind,) * n, kind)

    return build


def _directed(op: Callable[[Array, Array], tuple[Array, Array]], plain: Function) -> Callable[[str], Function]:
    def choose(mode: str) -> Function:
        return plain if mode == "rn" else lambda a, b: floats.directed_f64(op, a, b, mode)

    return choose


def _fma64(mode: str) -> Function:
    return floats.fma_f64


def _fma(d: Decoder, ins: Instr) -> Step:
    if ins.parts[-1] == "f64" and set(ins.parts) & {"rz", "rm", "rp"}:
        raise d.refuse(ins, "of .f64 in another rounding than .rn")
    build = _arithmetic(lambda mode: lambda a, b, c: floats.fma_f32(a, b, c, mode), _fma64, floats.fma_16, 3)
    return build(d, ins)


def _div(d: Decoder, ins: Instr) -> Step:
    kind = typed(d, ins, {k: KINDS[k] for k in ("f32", "f64")})
    flags = flags_of(d, ins, kind, "approx", "full")
    if kind.name == "f64" and flags.mode != "rn":
        raise d.refuse(ins, f"of .f64 with .{flags.mode}")
    return pointwise(d, ins, finished(lambda a, b: floats.div_f32(a, b, flags.mode), flags, kind), (kind, kind), kind)


def _extreme(f: Callable[[Array, Array, bool], Array]) -> Builder:
    def build(d: Decoder, ins: Instr) -> Step:
        kind = typed(d, ins, SINGLE)
        d.only(ins, kind.name, "ftz", "NaN", "xorsign", "abs")
        nan, swapped = "NaN" in ins.parts, "xorsign" in ins.parts
        flags = Flags("rn", "ftz" in ins.parts, False, False)

        def both(a: Array, b: Array) -> Array:
            if not swapped:
                return f(a, b, nan)
            one = a.dtype.type(1)
            sign = np.copysign(one, a) * np.copysign(one, b)
            signed: Array = np.copysign(f(np.abs(a), np.abs(b), nan), sign)
            return signed

        g: Function = lambda a, b, *more: both(both(a, b), more[0]) if more else both(a, b)  # noqa: E731
        g = finished(g, flags, kind)
        n = len(ins.operands) - 1
        if n not in (2, 3):
            raise d.refuse(ins, f"{n} operands")
        if kind.bits == 16 or kind.name.endswith("x2"):
            g = in_halves(g, kind)
        return pointwise(d, ins, g, (kind,) * n, kind)

    return build


def _sign(f: Function) -> Builder:
    """neg, abs: of the bits of the sign alone."""

    def build(d: Decoder, ins: Instr) -> Step:
        kind = typed(d, ins, SINGLE)
        d.only(ins, kind.name, "ftz")
        count(d, ins, 2)
        signs = 0x80008000 if kind.name.endswith("x2") else 1 << kind.bits - 1
        raw = Scalar(kind.name, "bits", kind.bits, kind.storage, kind.storage)
        bit = np.array([signs], kind.storage)
        if "ftz" in ins.parts and kind.name == "f32":
            return pointwise(d, ins, lambda a: f(floats.flush(a).view(np.uint32), bit), (raw,), raw)
        return pointwise(d, ins, lambda a: f(a, bit), (raw,), raw)

    return build


def _copysign(d: Decoder, ins: Instr) -> Step:
    kind = typed(d, ins, {k: KINDS[k] for k in ("f32", "f64")})
    d.only(ins, kind.name)
    return pointwise(d, ins, lambda a, b: np.copysign(b, a), (kind, kind), kind)


CLASSES: dict[str, Function] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: a == a,
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny),
    "subnormal": lambda a: (np.abs(a) < np.finfo(a.dtype).tiny) & (a != 0),
}


def _testp(d: Decoder, ins: Instr) -> Step:
    kind = typed(d, ins, {k: KINDS[k] for k in ("f32", "f64")})
    if len(ins.parts) != 2 or ins.parts[0] not in CLASSES:
        raise d.refuse(ins)
    return pointwise(d, ins, CLASSES[ins.parts[0]], (kind,), PRED)


def reciprocal_root(x: Array) -> Array:
    found: Array = (x.dtype.type(1) / np.sqrt(x.astype(np.float64))).astype(x.dtype)
    return found


def _function(f: Function, *kinds: str) -> Builder:
    """A function of one operand; `.approx` or a rounding mode before its type."""

    def build(d: Decoder, ins: Instr) -> Step:
        kind = typed(d, ins, {k: KINDS[k] for k in kinds})
        flags = flags_of(d, ins, kind, "approx")
        if flags.mode != "rn":
            raise d.refuse(ins, f"with .{flags.mode}")
        ftz = Flags("rn", flags.ftz and kind.name != "f64", False, False)
        g = finished(f, ftz, kind)
        if kind.bits == 16 or kind.name.endswith("x2"):
            g = in_halves(g, kind)
        return pointwise(d, ins, g, (kind,), kind)

    return build


def _rooted(d: Decoder, ins: Instr) -> Step:
    """sqrt and rcp of float32 round in every mode; the others of it come from there."""
    kind = typed(d, ins, {k: KINDS[k] for k in ("f32", "f64")})
    flags = flags_of(d, ins, kind, "approx")
    if kind.name == "f64" and flags.mode != "rn":
        raise d.refuse(ins, f"of .f64 with .{flags.mode}")
    ftz = Flags("rn", flags.ftz and kind.name == "f32", False, False)
    if ins.op == "rcp":
        one = np.ones(1, kind.dtype)
        return pointwise(d, ins, finished(lambda a: floats.div_f32(one, a, flags.mode), ftz, kind), (kind,), kind)
    if flags.mode == "rn":
        return pointwise(d, ins, finished(np.sqrt, ftz, kind), (kind,), kind)
    root: Function = lambda a: floats.f64_to_f32(np.sqrt(a.astype(np.float64)), flags.mode)  # noqa: E731
    return pointwise(d, ins, finished(root, ftz, kind), (kind,), kind)


def _sub32(mode: str) -> Function:
    return lambda a, b: floats.add_f32(a, -b, mode)


BUILDERS: dict[str, Builder] = {
    "add": _arithmetic(
        lambda mode: lambda a, b: floats.add_f32(a, b, mode), _directed(floats.two_sum, np.add), np.add, 2
    ),
    "sub": _arithmetic(
        _sub32, lambda mode: lambda a, b: _directed(floats.two_sum, np.add)(mode)(a, -b), np.subtract, 2
    ),
    "mul": _arithmetic(
        lambda mode: lambda a, b: floats.mul_f32(a, b, mode), _directed(floats.two_product, np.multiply), np.multiply, 2
    ),
    "fma": _fma,
    "mad": _fma,
    "div": _div,
    "min": _extreme(floats.minimum),
    "max": _extreme(floats.maximum),
    "neg": _sign(np.bitwise_xor),
    "abs": _sign(lambda a, bit: a & ~bit),
    "copysign": _copysign,
    "testp": _testp,
    "rcp": _rooted,
    "sqrt": _rooted,
    "rsqrt": _function(reciprocal_root, "f32", "f64"),
    "ex2": _function(np.exp2, "f32", "f16", "bf16", "f16x2", "bf16x2"),
    "lg2": _function(np.log2, "f32"),
    "sin": _function(np.sin, "f32"),
    "cos": _function(np.cos, "f32"),
    "tanh": _function(np.tanh, "f32", "f16", "bf16", "f16x2", "bf16x2"),
}
