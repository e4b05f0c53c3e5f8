"""Integer and bit instructions against Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.snippets import Array, lanes, one

EDGES = (0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 127, 128, 255, 32767, 32768, 65535, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
WIDE = (*EDGES, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 0x123456789ABCDEF0)


def signed(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> bits - 1 else x


def held(x: int, low: int, high: int) -> int:
    return max(low, min(high, x))


def towards_zero(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


Meaning = Callable[..., int]
SUM: dict[str, Meaning] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": min,
    "max": max,
    "div": towards_zero,
    "rem": lambda a, b: a if b == 0 else a - b * towards_zero(a, b),
}


def pairs(bits: int) -> tuple[Array, Array]:
    values = [x for x in WIDE if x < 1 << bits]
    values += [(1 << bits) - x for x in (1, 2, 3, 7)]
    a, b = np.meshgrid(np.array(values, np.uint64), np.array(values, np.uint64))
    kind = f"u{bits // 8}"
    return a.reshape(-1).astype(kind), b.reshape(-1).astype(kind)


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("name", SUM)
def test_arithmetic(name: str, kind: str) -> None:
    bits = int(kind[1:])
    a, b = pairs(bits)
    found = one(f"{name}.{kind} %o, %a, %b;", a.dtype, a=a, b=b)
    view = (lambda x: signed(x, bits)) if kind[0] == "s" else int
    wanted = [SUM[name](view(int(x)), view(int(y))) & (1 << bits) - 1 for x, y in zip(a, b, strict=True)]
    assert found.tolist() == wanted


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_the_upper_half_and_the_whole_of_a_product(kind: str) -> None:
    bits = int(kind[1:])
    a, b = pairs(bits)
    view = (lambda x: signed(x, bits)) if kind[0] == "s" else int
    whole = [view(int(x)) * view(int(y)) for x, y in zip(a, b, strict=True)]
    assert one(f"mul.hi.{kind} %o, %a, %b;", a.dtype, a=a, b=b).tolist() == [
        (x >> bits) & (1 << bits) - 1 for x in whole
    ]
    assert one(f"mad.lo.{kind} %o, %a, %b, %a;", a.dtype, a=a, b=b).tolist() == [
        (x + int(y)) & (1 << bits) - 1 for x, y in zip(whole, a, strict=True)
    ]
    if bits < 64:
        wide = f"u{bits // 4}"
        assert one(f"mul.wide.{kind} %o, %a, %b;", wide, a=a, b=b).tolist() == [x & (1 << 2 * bits) - 1 for x in whole]
        c = np.arange(len(a)).astype(wide)
        assert one(f"mad.wide.{kind} %o, %a, %b, %c;", wide, a=a, b=b, c=c).tolist() == [
            (x + int(y)) & (1 << 2 * bits) - 1 for x, y in zip(whole, c, strict=True)
        ]


def test_saturation_and_distance() -> None:
    a, b = pairs(32)
    x, y = [signed(int(v), 32) for v in a], [signed(int(v), 32) for v in b]
    low, high = -(1 << 31), (1 << 31) - 1
    assert one("add.sat.s32 %o, %a, %b;", "i4", a=a, b=b).tolist() == [
        held(p + q, low, high) for p, q in zip(x, y, strict=True)
    ]
    assert one("sub.sat.s32 %o, %a, %b;", "i4", a=a, b=b).tolist() == [
        held(p - q, low, high) for p, q in zip(x, y, strict=True)
    ]
    assert one("sad.u32 %o, %a, %b, 5;", "u4", a=a, b=b).tolist() == [
        (abs(int(p) - int(q)) + 5) & 0xFFFFFFFF for p, q in zip(a, b, strict=True)
    ]
    assert one("abs.s32 %o, %a;", "u4", a=a).tolist() == [abs(p) & 0xFFFFFFFF for p in x]
    assert one("neg.s32 %o, %a;", "u4", a=a).tolist() == [-p & 0xFFFFFFFF for p in x]


def test_24_bits() -> None:
    a, b = pairs(32)
    wanted = [signed(int(x), 24) * signed(int(y), 24) for x, y in zip(a, b, strict=True)]
    assert one("mul24.lo.s32 %o, %a, %b;", "u4", a=a, b=b).tolist() == [x & 0xFFFFFFFF for x in wanted]
    assert one("mul24.hi.s32 %o, %a, %b;", "u4", a=a, b=b).tolist() == [(x >> 16) & 0xFFFFFFFF for x in wanted]
    assert one("mad24.lo.u32 %o, %a, %b, 3;", "u4", a=a, b=b).tolist() == [
        ((int(x) & 0xFFFFFF) * (int(y) & 0xFFFFFF) + 3) & 0xFFFFFFFF for x, y in zip(a, b, strict=True)
    ]


@pytest.mark.parametrize("kind", ["b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64"])
def test_shifts_by_any_count(kind: str) -> None:
    bits = int(kind[1:])
    a, _ = pairs(bits)
    n = np.resize(np.array([0, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 65536, 1 << 31], np.uint32), len(a))
    x = [signed(int(v), bits) if kind[0] == "s" else int(v) for v in a]
    right = [p >> min(int(q), bits) & (1 << bits) - 1 for p, q in zip(x, n, strict=True)]
    assert one(f"shr.{kind} %o, %a, %n;", a.dtype, a=a, n=n).tolist() == right
    if kind[0] == "b":
        left = [int(p) << min(int(q), bits) & (1 << bits) - 1 for p, q in zip(a, n, strict=True)]
        assert one(f"shl.{kind} %o, %a, %n;", a.dtype, a=a, n=n).tolist() == left


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shifts(mode: str) -> None:
    a, b = pairs(32)
    n = np.resize(np.array([0, 1, 16, 31, 32, 33, 40], np.uint32), len(a))
    both = [(int(y) << 32) | int(x) for x, y in zip(a, b, strict=True)]
    by = [int(q) & 31 if mode == "wrap" else min(int(q), 32) for q in n]
    assert one(f"shf.l.{mode}.b32 %o, %a, %b, %n;", "u4", a=a, b=b, n=n).tolist() == [
        (x << q) >> 32 & 0xFFFFFFFF for x, q in zip(both, by, strict=True)
    ]
    assert one(f"shf.r.{mode}.b32 %o, %a, %b, %n;", "u4", a=a, b=b, n=n).tolist() == [
        (x >> q) & 0xFFFFFFFF for x, q in zip(both, by, strict=True)
    ]


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_fields(kind: str) -> None:
    bits = int(kind[1:])
    a, b = pairs(bits)
    c = np.resize(np.array([0, 1, 8, 31, 32, 40, 63, 64, 255, 257], np.uint32), len(a))
    d = np.resize(np.array([0, 1, 4, 8, 31, 32, 33, 64, 255], np.uint32), len(a))

    def extracted(x: int, pos: int, size: int) -> int:
        pos, size = pos & 255, size & 255
        top = min(pos + size - 1, bits - 1)
        sign = 0 if kind[0] == "u" or size == 0 else x >> top & 1
        out = 0
        for i in range(bits):
            out |= (x >> pos + i & 1 if i < size and pos + i < bits else sign) << i
        return out

    def inserted(x: int, y: int, pos: int, size: int) -> int:
        pos, size = pos & 255, size & 255
        for i in range(min(size, max(bits - pos, 0))):
            y = y & ~(1 << pos + i) | (x >> i & 1) << pos + i
        return y

    assert one(f"bfe.{kind} %o, %a, %c, %d;", a.dtype, a=a, c=c, d=d).tolist() == [
        extracted(*map(int, x)) for x in zip(a, c, d, strict=True)
    ]
    if kind[0] == "u":
        assert one(f"bfi.b{bits} %o, %a, %b, %c, %d;", a.dtype, a=a, b=b, c=c, d=d).tolist() == [
            inserted(*map(int, x)) for x in zip(a, b, c, d, strict=True)
        ]


@pytest.mark.parametrize("bits", [32, 64])
def test_counts(bits: int) -> None:
    a, _ = pairs(bits)
    x = [int(v) for v in a]
    assert one(f"popc.b{bits} %o, %a;", "u4", a=a).tolist() == [v.bit_count() for v in x]
    assert one(f"clz.b{bits} %o, %a;", "u4", a=a).tolist() == [bits - v.bit_length() for v in x]
    assert one(f"brev.b{bits} %o, %a;", a.dtype, a=a).tolist() == [int(f"{v:0{bits}b}"[::-1], 2) for v in x]
    found = one(f"bfind.u{bits} %o, %a;", "u4", a=a).tolist()
    assert found == [v.bit_length() - 1 if v else 0xFFFFFFFF for v in x]
    flipped = [~v & (1 << bits) - 1 if v >> bits - 1 else v for v in x]
    found = one(f"bfind.shiftamt.s{bits} %o, %a;", "u4", a=a).tolist()
    assert found == [bits - v.bit_length() if v else 0xFFFFFFFF for v in flipped]


def test_logic_and_tables() -> None:
    a, b = pairs(32)
    c = np.roll(a, 7)
    rows = list(zip(*(map(int, x) for x in (a, b, c)), strict=True))
    assert one("and.b32 %o, %a, %b;", "u4", a=a, b=b).tolist() == [x & y for x, y, _ in rows]
    assert one("or.b32 %o, %a, %b;", "u4", a=a, b=b).tolist() == [x | y for x, y, _ in rows]
    assert one("xor.b32 %o, %a, %b;", "u4", a=a, b=b).tolist() == [x ^ y for x, y, _ in rows]
    assert one("not.b32 %o, %a;", "u4", a=a).tolist() == [~x & 0xFFFFFFFF for x, _, _ in rows]
    assert one("cnot.b32 %o, %a;", "u4", a=a).tolist() == [int(x == 0) for x, _, _ in rows]
    assert one("lop3.b32 %o, %a, %b, %c, 0x96;", "u4", a=a, b=b, c=c).tolist() == [x ^ y ^ z for x, y, z in rows]
    assert one("lop3.b32 %o, %a, %b, %c, 0xE4;", "u4", a=a, b=b, c=c).tolist() == [
        (y & ~z | x & z) & 0xFFFFFFFF for x, y, z in rows
    ]
    assert one("bmsk.clamp.b32 %o, %a, %b;", "u4", a=a % 40, b=b % 40).tolist() == [
        ((1 << min(y % 40, 32)) - 1) << min(x % 40, 32) & 0xFFFFFFFF for x, y, _ in rows
    ]


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1))
@settings(max_examples=30)
def test_permuted_bytes(a: int, b: int, c: int) -> None:
    source = a.to_bytes(4, "little") + b.to_bytes(4, "little")

    def byte(selector: int) -> int:
        found = source[selector & 7]
        return (255 if found & 128 else 0) if selector & 8 else found

    wanted = int.from_bytes(bytes(byte(c >> 4 * i & 15) for i in range(4)), "little")
    given_ = {k: np.array([v], np.uint32) for k, v in (("a", a), ("b", b), ("c", c))}
    assert one("prmt.b32 %o, %a, %b, %c;", "u4", **given_)[0] == wanted


@pytest.mark.parametrize(
    ("mode", "rows"),
    [
        ("f4e", ["0123", "1234", "2345", "3456"]),
        ("b4e", ["0765", "1076", "2107", "3210"]),
        ("rc8", ["0000", "1111", "2222", "3333"]),
        ("ecl", ["0123", "1123", "2223", "3333"]),
        ("ecr", ["0000", "0111", "0122", "0123"]),
        ("rc16", ["0101", "2323", "0101", "2323"]),
    ],
)
def test_modes_of_permutation(mode: str, rows: list[str]) -> None:
    a, b = np.full(4, 0x33221100, np.uint32), np.full(4, 0x77665544, np.uint32)
    found = one(f"prmt.b32.{mode} %o, %a, %b, %c;", "u4", a=a, b=b, c=np.arange(4, dtype=np.uint32))
    assert [f"{int(x):08x}" for x in found] == ["".join(2 * n for n in reversed(row)) for row in rows]


def test_sums_of_several_words() -> None:
    a, b = pairs(64)
    text = """
      .reg .b32 %al, %ah, %bl, %bh, %l, %h;
      mov.b64 {%al, %ah}, %a; mov.b64 {%bl, %bh}, %b;
      add.cc.u32 %l, %al, %bl; addc.u32 %h, %ah, %bh; mov.b64 %sum, {%l, %h};
      sub.cc.u32 %l, %al, %bl; subc.u32 %h, %ah, %bh; mov.b64 %rest, {%l, %h};
      mul.lo.u32 %l, %al, %bl; mul.hi.u32 %h, %al, %bl;
      mad.lo.cc.u32 %l, %al, %bl, 1; madc.hi.u32 %h, %al, %bl, 2; mov.b64 %product, {%l, %h};
    """
    found = lanes(text, {"sum": "u8", "rest": "u8", "product": "u8"}, a=a, b=b)
    rows = list(zip(map(int, a), map(int, b), strict=True))
    mask, low = (1 << 64) - 1, 0xFFFFFFFF
    assert found["sum"].tolist() == [(x + y) & mask for x, y in rows]
    assert found["rest"].tolist() == [(x - y) & mask for x, y in rows]
    assert found["product"].tolist() == [((x & low) * (y & low) + 1 + (2 << 32)) & mask for x, y in rows]


@pytest.mark.parametrize("kind", ["u16x2", "s16x2"])
def test_pairs_of_16_bits(kind: str) -> None:
    a, b = pairs(16)
    view = (lambda x: signed(x, 16)) if kind[0] == "s" else int
    for name in ("add", "min", "max"):
        wanted = [SUM[name](view(int(x)), view(int(y))) & 0xFFFF for x, y in zip(a, b, strict=True)]
        given_ = {"a": a[: len(a) // 2 * 2].view(np.uint32), "b": b[: len(b) // 2 * 2].view(np.uint32)}
        assert one(f"{name}.{kind} %o, %a, %b;", "u4", **given_).view(np.uint16).tolist() == wanted[: len(a) // 2 * 2]
    relu = one(
        "max.relu.s16x2 %o, %a, %b;", "u4", a=np.array([0xFFFF0003], np.uint32), b=np.array([0xFFFE0001], np.uint32)
    )
    assert relu.tolist() == [0x00000003]
