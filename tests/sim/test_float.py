"""Floating-point instructions against exact rational arithmetic, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.exact import BF16, EDGES32, F16, F32, F64, Format, encode, value
from tests.sim.snippets import Array, one

BITS = st.integers(0, 2**32 - 1) | st.sampled_from([int(x) for x in EDGES32])
MODES = ["rn", "rz", "rm", "rp"]
Number = float | Fraction


def random_bits(n: int, width: int, seed: int = 0) -> Array:
    """Bits of floats whose exponents are near enough to matter to each other, with the edges among them."""
    rng = np.random.default_rng(seed)
    form = {16: BF16, 32: F32, 64: F64}[width]
    exponent = rng.integers(form.bias - 12, form.bias + 12, n).astype(np.uint64)
    fraction = rng.integers(0, 1 << form.fraction, n).astype(np.uint64)
    fraction >>= rng.integers(0, form.fraction, n).astype(np.uint64)
    sign = rng.integers(0, 2, n).astype(np.uint64)
    bits = sign << np.uint64(form.bits - 1) | exponent << np.uint64(form.fraction) | fraction
    return bits.astype(f"u{width // 8}")


def finite(x: Number) -> bool:
    return isinstance(x, Fraction) or x == 0


def exact(op: Callable[..., Fraction], form: Format, mode: str, *bits: int) -> int | None:
    """The bits that an operation gives, None where it is of infinities, NaNs or a division by 0."""
    values = [value(b, form) for b in bits]
    if not all(finite(x) for x in values):
        return None
    fractions = [Fraction(x) if isinstance(x, float) else x for x in values]
    try:
        found = op(*fractions)
    except ZeroDivisionError:
        return None
    if found == 0:
        return -1  # the sign of a zero is looked at elsewhere
    return encode(found, form, mode)


def compare(found: Array, wanted: list[int | None], form: Format) -> None:
    magnitude = (1 << form.bits - 1) - 1
    for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
        if y is not None:
            assert (int(x) & magnitude) == 0 if y == -1 else int(x) == y, (i, hex(int(x)), y if y < 0 else hex(y))


OPS: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OPS)
def test_float32_in_every_rounding(name: str, mode: str) -> None:
    a, b, c = (np.concatenate([random_bits(400, 32, k), np.roll(EDGES32, k)]) for k in range(3))
    rest = {"a": a, "b": b} | ({"c": c} if name == "fma" else {})
    found = one(f"{name}.{mode}.f32 %o, " + ", ".join(f"%{k}" for k in rest) + ";", "u4", **rest)
    compare(found, [exact(OPS[name], F32, mode, *map(int, x)) for x in zip(*rest.values(), strict=True)], F32)


@given(BITS, BITS, BITS)
@settings(max_examples=60)
def test_fma_of_any_bits(a: int, b: int, c: int) -> None:
    rest = {k: np.array([v], np.uint32) for k, v in (("a", a), ("b", b), ("c", c))}
    compare(one("fma.rn.f32 %o, %a, %b, %c;", "u4", **rest), [exact(OPS["fma"], F32, "rn", a, b, c)], F32)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma", "div"])
def test_float64(name: str) -> None:
    a, b, c = (random_bits(400, 64, k) for k in range(3))
    rest = {"a": a, "b": b} | ({"c": c} if name == "fma" else {})
    found = one(f"{name}.rn.f64 %o, " + ", ".join(f"%{k}" for k in rest) + ";", "u8", **rest)
    compare(found, [exact(OPS[name], F64, "rn", *map(int, x)) for x in zip(*rest.values(), strict=True)], F64)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["add", "mul"])
def test_float64_in_every_rounding(name: str, mode: str) -> None:
    a, b = random_bits(400, 64, 3), random_bits(400, 64, 4)
    found = one(f"{name}.{mode}.f64 %o, %a, %b;", "u8", a=a, b=b)
    compare(found, [exact(OPS[name], F64, mode, int(x), int(y)) for x, y in zip(a, b, strict=True)], F64)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_16_bit_floats_alone_and_in_pairs(kind: str, name: str) -> None:
    form = BF16 if kind == "bf16" else F16
    rng = np.random.default_rng(5)
    a, b, c = (rng.integers(0, 1 << 16, 1000).astype(np.uint16) for _ in range(3))
    if kind == "bf16":
        a[:700], b[:700], c[:700] = (random_bits(700, 16, k) for k in range(3))
    rest = {"a": a, "b": b} | ({"c": c} if name == "fma" else {})
    wanted = [exact(OPS[name], form, "rn", *map(int, x)) for x in zip(*rest.values(), strict=True)]
    operands = ", ".join(f"%{k}" for k in rest)
    compare(one(f"{name}.rn.{kind} %o, {operands};", "u2", **rest), wanted, form)
    packed = {k: v.view(np.uint32) for k, v in rest.items()}
    compare(one(f"{name}.rn.{kind}x2 %o, {operands};", "u4", **packed).view(np.uint16), wanted, form)


def as32(x: Array) -> Array:
    return x.view(np.float32)


@given(BITS, BITS)
@settings(max_examples=80)
def test_extremes(a: int, b: int) -> None:
    x, y = (np.array([v], np.uint32) for v in (a, b))
    for name, pick in (("min", min), ("max", max)):
        plain = as32(one(f"{name}.f32 %o, %a, %b;", "u4", a=x, b=y))[0]
        strict = as32(one(f"{name}.NaN.f32 %o, %a, %b;", "u4", a=x, b=y))[0]
        p, q = float(as32(x)[0]), float(as32(y)[0])
        if math.isnan(p) or math.isnan(q):
            assert math.isnan(strict)
            other = q if math.isnan(p) else p
            assert math.isnan(plain) if math.isnan(other) else plain == np.float32(other)
            continue
        ordered = [v for _, v in sorted(((p, math.copysign(1, p)), (q, math.copysign(1, q))))]
        best = pick(p, q)
        assert plain == strict == np.float32(best)
        if p == q == 0:
            assert math.copysign(1, plain) == (ordered[0] if name == "min" else ordered[1])


def test_three_operands_and_signs_of_extremes() -> None:
    a, b, c = (np.array(v, np.float32) for v in ([1, -4, 2], [-3, 3, -2], [2, 1, math.nan]))
    assert as32(one("max.f32 %o, %a, %b, %c;", "u4", a=a, b=b, c=c)).tolist() == [2, 3, 2]
    assert as32(one("min.xorsign.abs.f32 %o, %a, %b;", "u4", a=a, b=b)).tolist() == [-1, -3, -2]


def test_flushed_subnormals_and_saturation() -> None:
    a = np.array([0x00000001, 0x80000001, 0x00800000, 0x3F800000, 0x40000000, 0xBF800000, 0x7FC00000], np.uint32)
    zero = np.zeros(len(a), np.uint32)
    flushed = one("add.ftz.f32 %o, %a, %z;", "u4", a=a, z=zero).tolist()
    assert [x & 0x7FFFFFFF for x in flushed[:2]] == [0, 0]
    assert flushed[2:6] == a[2:6].tolist()
    kept = one("add.f32 %o, %a, %z;", "u4", a=a, z=zero).tolist()
    assert kept[:6] == a[:6].tolist()
    held = as32(one("add.sat.f32 %o, %a, %z;", "u4", a=a, z=zero))
    assert held[2:].tolist() == [as32(a)[2], 1.0, 1.0, 0.0, 0.0]
    small = np.array([0x0D000000], np.uint32)  # 2^-101: its square is far below what there is
    assert one("mul.ftz.f32 %o, %a, %a;", "u4", a=small).tolist() == [0]


def test_signs() -> None:
    a = np.array([0x3F800000, 0x80000000, 0x7FC00001, 0xFF800000], np.uint32)
    assert one("neg.f32 %o, %a;", "u4", a=a).tolist() == [int(x) ^ 0x80000000 for x in a]
    assert one("abs.f32 %o, %a;", "u4", a=a).tolist() == [int(x) & 0x7FFFFFFF for x in a]
    pair = np.array([0x3F80BF80], np.uint32)
    assert one("neg.bf16x2 %o, %a;", "u4", a=pair).tolist() == [0xBF803F80]
    sign, size = np.array([-1.0, 1.0], np.float32), np.array([2.0, -3.0], np.float32)
    assert as32(one("copysign.f32 %o, %s, %m;", "u4", s=sign, m=size)).tolist() == [-2, 3]


def test_classes() -> None:
    a = np.array([0, 1, 0x3F800000, 0x7F800000, 0x7FC00000], np.uint32)
    table = {
        "finite": [1, 1, 1, 0, 0],
        "infinite": [0, 0, 0, 1, 0],
        "number": [1, 1, 1, 1, 0],
        "notanumber": [0, 0, 0, 0, 1],
        "normal": [0, 0, 1, 0, 0],
        "subnormal": [0, 1, 0, 0, 0],
    }
    for name, wanted in table.items():
        assert one(f"testp.{name}.f32 %o, %a;", np.bool_, a=a).tolist() == [bool(x) for x in wanted]


@pytest.mark.parametrize(
    ("text", "f"),
    [
        ("ex2.approx.f32", np.exp2),
        ("ex2.approx.ftz.f32", np.exp2),
        ("lg2.approx.f32", np.log2),
        ("sin.approx.f32", np.sin),
        ("cos.approx.f32", np.cos),
        ("tanh.approx.f32", np.tanh),
        ("rcp.rn.f32", np.reciprocal),
        ("rcp.approx.ftz.f32", np.reciprocal),
        ("sqrt.rn.f32", np.sqrt),
        ("sqrt.approx.f32", np.sqrt),
        ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x)),
        ("rcp.rn.f64", np.reciprocal),
        ("sqrt.rn.f64", np.sqrt),
    ],
)
def test_functions(text: str, f: Callable[[Array], Array]) -> None:
    x = np.random.default_rng(2).uniform(0.01, 6, 500).astype(np.float64 if "f64" in text else np.float32)
    found = one(f"{text} %o, %a;", x.dtype, a=x)
    wanted = f(x.astype(np.float64))
    unit = 2.0 ** (-52 if x.dtype == np.float64 else -23)
    assert np.abs(found - wanted).max() <= 2 * unit * np.abs(wanted).max()


@pytest.mark.parametrize("mode", MODES)
def test_roots_and_reciprocals_round(mode: str) -> None:
    a = random_bits(300, 32, 8) & np.uint32(0x7FFFFFFF)
    found = one(f"rcp.{mode}.f32 %o, %a;", "u4", a=a)
    compare(found, [exact(lambda x: 1 / x, F32, mode, int(v)) for v in a], F32)
    squares = (as32(one("mul.rz.f32 %o, %a, %a;", "u4", a=a & np.uint32(0xFFFFF000)))).copy()
    assert (
        one(f"sqrt.{mode}.f32 %o, %a;", "u4", a=squares.view(np.uint32)).tolist()
        == (a & np.uint32(0xFFFFF000)).tolist()
    )


def test_functions_of_16_bit_floats() -> None:
    x = np.array([0.0, 1.0, -2.0, 0.5], np.float16)
    assert one("ex2.approx.f16 %o, %a;", "u2", a=x.view(np.uint16)).view(np.float16).tolist() == [1, 2, 0.25, 1.4140625]


def test_flushed_subnormals_of_float16() -> None:
    a = np.array([0x0001, 0x8200, 0x0400, 0x3C00], np.uint16)
    zero = np.zeros(4, np.uint16)
    assert one("add.ftz.f16 %o, %a, %z;", "u2", a=a, z=zero).tolist()[2:] == [0x0400, 0x3C00]
    assert [x & 0x7FFF for x in one("add.ftz.f16 %o, %a, %z;", "u2", a=a, z=zero).tolist()[:2]] == [0, 0]
    assert one("add.f16 %o, %a, %z;", "u2", a=a, z=zero).tolist() == a.tolist()


@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_two_float32_in_64_bits(name: str) -> None:
    a, b, c = (random_bits(400, 32, k) for k in range(3))
    rest = {"a": a, "b": b} | ({"c": c} if name == "fma" else {})
    wanted = [exact(OPS[name], F32, "rn", *map(int, x)) for x in zip(*rest.values(), strict=True)]
    packed = {k: v.view(np.uint64) for k, v in rest.items()}
    found = one(f"{name}.rn.f32x2 %o, " + ", ".join(f"%{k}" for k in rest) + ";", "u8", **packed)
    compare(found.view(np.uint32), wanted, F32)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_16_bit_factors_of_float32_sums(kind: str) -> None:
    form = F16 if kind == "f16" else BF16
    a, b = (random_bits(300, 16, k) & np.uint16(0xBFFF) for k in (5, 6))
    c = random_bits(300, 32, 7)
    wide = [[encode(Fraction(value(int(x), form)), F32) for x in v] for v in (a, b)]
    found = one(f"fma.rn.f32.{kind} %o, %a, %b, %c;", "u4", a=a, b=b, c=c)
    compare(found, [exact(OPS["fma"], F32, "rn", x, y, int(z)) for x, y, z in zip(*wide, c, strict=True)], F32)
    for name in ("add", "sub"):
        found = one(f"{name}.rz.f32.{kind} %o, %a, %c;", "u4", a=a, c=c)
        compare(found, [exact(OPS[name], F32, "rz", x, int(z)) for x, z in zip(wide[0], c, strict=True)], F32)


def test_a_product_that_is_the_same_in_all_lanes() -> None:
    """Of two numbers that the code says, to which each lane adds its own."""
    c = np.array([0x0000, 0x3F80, 0xC000], np.uint16)
    found = one("{ .reg .b16 %u; mov.b16 %u, 0x4000; fma.rn.bf16 %o, %u, %u, %c; }", "u2", c=c)
    assert found.tolist() == [0x4080, 0x40A0, 0x4000]


def test_fused_sums_of_float64_between_two_neighbours() -> None:
    """The product's last bits decide: a sum that ends half way between two values, and a little above or below it."""
    rng = np.random.default_rng(9)
    a = 1.0 + rng.integers(0, 1 << 20, 500) * 2.0**-40
    b = 1.0 + rng.integers(0, 1 << 12, 500) * 2.0**-52
    c = np.where(rng.random(500) < 0.5, 1.0, -1.0) * 2.0 ** rng.integers(-2, 60, 500)
    bits = [x.view(np.uint64) for x in (a, b, c)]
    found = one("fma.rn.f64 %o, %a, %b, %c;", "u8", a=bits[0], b=bits[1], c=bits[2])
    compare(found, [exact(OPS["fma"], F64, "rn", *map(int, x)) for x in zip(*bits, strict=True)], F64)


def test_fused_sums_of_float64_at_the_edges() -> None:
    a = np.array([0.0, math.inf, 1e308, 1e-200, math.nan, -0.0, 3.0], np.float64) * 1.0000000000000002
    b = np.array([1.1, 1.1, 10.1, 1.1e-200, 1.0, 5.1, 0.1], np.float64)
    c = np.array([2.0, 1.0, 1.0, 1.0, 1.0, 0.0, math.inf], np.float64)
    found = one("fma.rn.f64 %o, %a, %b, %c;", "f8", a=a, b=b, c=c)
    assert found[[0, 3]].tolist() == [2.0, 1.0]
    assert found[[1, 2, 6]].tolist() == [math.inf] * 3
    assert np.isnan(found[4])
    assert found[5] == 0
