"""cvt of every pair of types and every rounding, against exact values; cvt.pack."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.exact import BF16, EDGES32, F16, F32, F64, Format, encode, is_nan, value
from tests.sim.snippets import Array, lanes, one

INTEGERS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
FLOATS: dict[str, Format] = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
REGISTER = {8: "u2", 16: "u2", 32: "u4", 64: "u8"}


def width(kind: str) -> int:
    return int(kind.lstrip("usbf"))


def integer(x: int, kind: str) -> int:
    bits = width(kind)
    x &= (1 << bits) - 1
    return x - (1 << bits) if kind[0] == "s" and x >> bits - 1 else x


def limits(kind: str) -> tuple[int, int]:
    bits = width(kind)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def samples(bits: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    edges = [0, 1, 127, 128, 255, 32767, 32768, 65535, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1]
    found = [x for x in edges if x < 1 << bits]
    found += [int(x) >> int(n) for x, n in zip(rng.integers(0, 1 << 63, 200), rng.integers(0, 63, 200), strict=True)]
    return np.array([x & (1 << bits) - 1 for x in found], np.uint64).astype(REGISTER[bits])


def floats(kind: str) -> Array:
    """Edges, values around the limits of the integer types and halves between two integers, in a format."""
    form = FLOATS[kind]
    found = [int(x) for x in EDGES32] if kind == "f32" else []
    around = [
        0.5,
        1.5,
        2.5,
        0.49,
        0.99,
        127.5,
        128.5,
        255.5,
        32767.5,
        65535.5,
        2.0**31,
        2.0**32,
        2.0**63,
        2.0**64,
        1e30,
    ]
    for x in around:
        for sign in (1, -1):
            bits = encode(Fraction(x) * sign, form)
            found += [bits, bits + 1, bits - 1]
    found += [0, 1, 1 << form.bits - 1, ((1 << form.exponent) - 1) << form.fraction]
    found += [(1 << form.bits - 1) | ((1 << form.exponent) - 1) << form.fraction, (1 << form.bits - 1) - 1]
    return np.array([x & (1 << form.bits) - 1 for x in found], np.uint64).astype(REGISTER[form.bits])


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("result", INTEGERS)
def test_between_integers(result: str, source: str) -> None:
    a = samples(width(source))
    x = [integer(int(v), source) for v in a]
    bits = np.dtype(REGISTER[width(result)]).itemsize * 8
    low, high = limits(result)
    found = one(f"cvt.{result}.{source} %o, %a;", f"u{bits // 8}", a=a)
    assert [integer(int(v), result) for v in found] == [integer(v, result) for v in x]
    assert [int(v) for v in found] == [integer(v, result) & (1 << bits) - 1 for v in x]  # extended in the register
    found = one(f"cvt.sat.{result}.{source} %o, %a;", f"u{bits // 8}", a=a)
    assert [integer(int(v), result) for v in found] == [min(max(v, low), high) for v in x]


ROUND: dict[str, Callable[[Fraction], int]] = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("mode", ROUND)
@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("result", INTEGERS)
def test_floats_to_integers(result: str, source: str, mode: str) -> None:
    a = floats(source)
    low, high = limits(result)
    bits = np.dtype(REGISTER[width(result)]).itemsize * 8
    found = one(f"cvt.{mode}.{result}.{source} %o, %a;", f"u{bits // 8}", a=a)
    for given_, out in zip(a, found, strict=True):
        x = value(int(given_), FLOATS[source])
        if isinstance(x, float) and math.isnan(x):
            strange = source == "f64" or result in ("s64", "u64")
            wanted = 0 if not strange else low if result[0] == "s" else (high + 1) // 2
        elif isinstance(x, float) and math.isinf(x):
            wanted = high if x > 0 else low
        else:
            wanted = min(max(ROUND[mode](Fraction(x)), low), high)
        assert integer(int(out), result) == wanted, (hex(int(given_)), out)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("result", FLOATS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integers_to_floats(source: str, result: str, mode: str) -> None:
    a, form = samples(width(source)), FLOATS[result]
    found = one(f"cvt.{mode}.{result}.{source} %o, %a;", REGISTER[form.bits], a=a)
    assert found.tolist() == [encode(Fraction(integer(int(v), source)), form, mode) for v in a]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(
    ("source", "result"), [("f64", "f32"), ("f64", "f16"), ("f32", "f16"), ("f32", "bf16"), ("f64", "bf16")]
)
def test_to_narrower_floats(source: str, result: str, mode: str) -> None:
    rng = np.random.default_rng(1)
    form, target = FLOATS[source], FLOATS[result]
    exponent = rng.integers(form.bias - 30, form.bias + 20, 500).astype(np.uint64)
    fraction = rng.integers(0, 1 << form.fraction, 500).astype(np.uint64)
    cut = rng.integers(0, form.fraction, 500).astype(np.uint64)
    bits = exponent << np.uint64(form.fraction) | (fraction >> cut) << cut
    a = np.concatenate([bits.astype(REGISTER[form.bits]), floats(source)])
    found = one(f"cvt.{mode}.{result}.{source} %o, %a;", REGISTER[target.bits], a=a)
    for given_, out in zip(a, found, strict=True):
        x = value(int(given_), form)
        if isinstance(x, Fraction):
            assert int(out) == encode(x, target, mode), (hex(int(given_)), hex(int(out)))
        elif math.isnan(x):
            assert is_nan(int(out), target)
        else:
            assert value(int(out), target) == x
            assert math.copysign(1, float(value(int(out), target))) == math.copysign(1, x)


@pytest.mark.parametrize(("source", "result"), [("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("f32", "f64")])
def test_to_wider_floats(source: str, result: str) -> None:
    a = floats(source)
    found = one(f"cvt.{result}.{source} %o, %a;", REGISTER[FLOATS[result].bits], a=a)
    for given_, out in zip(a, found, strict=True):
        x, y = value(int(given_), FLOATS[source]), value(int(out), FLOATS[result])
        assert x == y or (isinstance(x, float) and math.isnan(x) and isinstance(y, float) and math.isnan(y))


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_pairs(a: int, b: int) -> None:
    x, y = np.array([a], np.uint32), np.array([b], np.uint32)
    for kind in ("bf16", "f16"):
        for mode in ("rn", "rz"):
            parts = [int(one(f"cvt.{mode}.{kind}.f32 %o, %a;", "u2", a=v)[0]) for v in (x, y)]
            assert one(f"cvt.{mode}.{kind}x2.f32 %o, %a, %b;", "u4", a=x, b=y)[0] == parts[0] << 16 | parts[1]


def test_modifiers() -> None:
    x = np.array([-1.5, 0.5, 2.0, math.nan, 1e-40, math.inf], np.float32)
    assert one("cvt.sat.f32.f32 %o, %a;", "f4", a=x).tolist() == pytest.approx([0, 0.5, 1, 0, 1e-40, 1])
    assert one("cvt.ftz.sat.f32.f32 %o, %a;", "f4", a=x)[4] == 0
    assert one("cvt.rni.f32.f32 %o, %a;", "f4", a=x)[:3].tolist() == [-2, 0, 2]
    assert one("cvt.rmi.f32.f32 %o, %a;", "f4", a=x)[:3].tolist() == [-2, 0, 2]
    assert one("cvt.rpi.f32.f32 %o, %a;", "f4", a=x)[:3].tolist() == [-1, 1, 2]
    relu = one("cvt.rn.relu.bf16x2.f32 %o, %a, %a;", "u4", a=x)
    assert [int(v) & 0xFFFF for v in relu[:4]] == [0, 0x3F00, 0x4000, 0x7FFF]
    assert one("cvt.rn.satfinite.f16.f32 %o, %a;", "u2", a=np.array([1e6, -1e6], np.float32)).tolist() == [
        0x7BFF,
        0xFBFF,
    ]


def test_tf32() -> None:
    a = np.array([0x3F801000, 0x3F803000, 0x3F800FFF, 0x3F801001], np.uint32)
    assert one("cvt.rna.tf32.f32 %o, %a;", "u4", a=a).tolist() == [0x3F802000, 0x3F804000, 0x3F800000, 0x3F802000]
    assert one("cvt.rn.tf32.f32 %o, %a;", "u4", a=a).tolist() == [0x3F800000, 0x3F804000, 0x3F800000, 0x3F802000]


def test_packs_of_integers() -> None:
    a, b = np.array([70000, -70000, 5], np.int32), np.array([-5, 300, 40000], np.int32)
    c = np.array([0x11112222] * 3, np.uint32)
    found = lanes(
        "cvt.pack.sat.u16.s32 %u, %a, %b; cvt.pack.sat.s16.s32 %s, %a, %b; cvt.pack.sat.u8.s32.b32 %q, %a, %b, %c;",
        {"u": "u4", "s": "u4", "q": "u4"},
        a=a,
        b=b,
        c=c,
    )
    assert [hex(x) for x in found["u"]] == ["0xffff0000", "0x12c", "0x59c40"]
    assert [hex(x) for x in found["s"]] == ["0x7ffffffb", "0x8000012c", "0x57fff"]
    assert [hex(x) for x in found["q"]] == ["0x2222ff00", "0x222200ff", "0x222205ff"]
