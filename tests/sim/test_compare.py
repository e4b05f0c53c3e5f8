"""setp, set, selp, slct, mov and the conversions of addresses."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np
import pytest

from tests.sim.exact import EDGES32
from tests.sim.snippets import lanes, one

PLAIN: dict[str, Callable[[float, float], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
JOIN: dict[str, Callable[[bool, bool], bool]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64", "b32", "b64"])
def test_integers(kind: str) -> None:
    bits = int(kind[1:])
    values = [0, 1, 5, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1]
    a, b = (x.reshape(-1).astype(f"u{bits // 8}") for x in np.meshgrid(*[np.array(values, np.uint64)] * 2))
    x, y = (v.view(f"i{bits // 8}") if kind[0] == "s" else v for v in (a, b))
    names = {"eq": "eq", "ne": "ne"} if kind[0] == "b" else {n: n for n in PLAIN}
    if kind[0] == "u":
        names |= UNSIGNED
    for name, meaning in names.items():
        found = one(f"setp.{name}.{kind} %o, %a, %b;", np.bool_, a=a, b=b)
        assert found.tolist() == [PLAIN[meaning](int(p), int(q)) for p, q in zip(x, y, strict=True)], name


def meaning(name: str, x: float, y: float) -> bool:
    """What a comparison of floats says: false for a NaN, true with a `u` behind its name."""
    unordered = math.isnan(x) or math.isnan(y)
    if name in ("num", "nan"):
        return unordered == (name == "nan")
    if name in PLAIN:
        return not unordered and PLAIN[name](x, y)
    return unordered or PLAIN[name[:-1]](x, y)


@pytest.mark.parametrize("name", [*PLAIN, *(f"{n}u" for n in PLAIN), "num", "nan"])
def test_floats(name: str) -> None:
    a, b = (x.reshape(-1) for x in np.meshgrid(EDGES32, EDGES32))
    x, y = a.view(np.float32), b.view(np.float32)
    wanted = [meaning(name, float(p), float(q)) for p, q in zip(x, y, strict=True)]
    assert one(f"setp.{name}.f32 %o, %a, %b;", np.bool_, a=a, b=b).tolist() == wanted
    wide = [v.astype(np.float64).view(np.uint64) for v in (x, y)]
    assert one(f"setp.{name}.f64 %o, %a, %b;", np.bool_, a=wide[0], b=wide[1]).tolist() == wanted
    half = [(v >> np.uint32(16)).astype(np.uint16) for v in (a, b)]
    cut = [(v.astype(np.uint32) << np.uint32(16)).view(np.float32) for v in half]
    assert one(f"setp.{name}.bf16 %o, %a, %b;", np.bool_, a=half[0], b=half[1]).tolist() == [
        meaning(name, float(p), float(q)) for p, q in zip(*cut, strict=True)
    ]


@pytest.mark.parametrize("join", JOIN)
def test_joined_with_a_predicate(join: str) -> None:
    a, b = np.array([1, 2, 3, 4] * 2, np.uint32), np.array([2, 2, 2, 2] * 2, np.uint32)
    c = np.array([True] * 4 + [False] * 4)
    for text, third in (("%c", c), ("!%c", ~c)):
        found = lanes(f"setp.lt.{join}.u32 %p|%q, %a, %b, {text};", {"p": np.bool_, "q": np.bool_}, a=a, b=b, c=c)
        f = JOIN[join]
        assert found["p"].tolist() == [f(bool(x < y), bool(z)) for x, y, z in zip(a, b, third, strict=True)]
        assert found["q"].tolist() == [f(not x < y, bool(z)) for x, y, z in zip(a, b, third, strict=True)]


def test_both_results_and_logic_of_predicates() -> None:
    a = np.arange(8, dtype=np.uint32)
    text = """
      .reg .pred %u, %v; setp.gt.u32 %p|%q, %a, 3; setp.eq.u32 %u, %a, 5;
      and.pred %x, %p, %u; not.pred %v, %u; xor.pred %y, %p, %v; mov.pred %z, %u; or.pred %z, %z, !%p;
    """
    found = lanes(text, dict.fromkeys("pqxyz", np.bool_), a=a)
    assert found["p"].tolist() == (a > 3).tolist()
    assert found["q"].tolist() == (a <= 3).tolist()
    assert found["x"].tolist() == (a == 5).tolist()
    assert found["y"].tolist() == ((a > 3) ^ (a != 5)).tolist()
    assert found["z"].tolist() == ((a == 5) | (a <= 3)).tolist()


def test_choices() -> None:
    a, b = np.arange(6, dtype=np.uint32), np.arange(6, dtype=np.uint32) * 10
    c = np.array([0, 1, 0, 1, 1, 0], np.bool_)
    assert one("selp.b32 %o, %a, %b, %c;", "u4", a=a, b=b, c=c).tolist() == np.where(c, a, b).tolist()
    assert one("selp.f32 %o, 0f3F800000, 0fBF800000, %c;", "f4", c=c).tolist() == np.where(c, 1, -1).tolist()
    s = np.array([-1, 0, 1, -5, 7, 0], np.int32)
    assert one("slct.b32.s32 %o, %a, %b, %s;", "u4", a=a, b=b, s=s).tolist() == np.where(s >= 0, a, b).tolist()
    f = np.array([-1, -0.0, 1, math.nan, math.inf, -1e-40], np.float32)
    assert one("slct.b32.f32 %o, %a, %b, %f;", "u4", a=a, b=b, f=f).tolist() == np.where(f >= 0, a, b).tolist()
    flushed = one("slct.ftz.b32.f32 %o, %a, %b, %f;", "u4", a=a, b=b, f=f)
    assert flushed[5] == a[5]


def test_set() -> None:
    a = np.array([1.0, 3.0, math.nan], np.float32)
    assert one("set.gt.u32.f32 %o, %a, 0f40000000;", "u4", a=a).tolist() == [0, 0xFFFFFFFF, 0]
    assert one("set.gtu.f32.f32 %o, %a, 0f40000000;", "f4", a=a).tolist() == [0, 1, 1]
    p = np.array([True, True, True])
    assert one("set.gt.xor.s32.f32 %o, %a, 0f40000000, %p;", "i4", a=a, p=p).tolist() == [-1, 0, -1]


def test_parts_of_registers() -> None:
    a = np.array([0x11223344, 0xAABBCCDD], np.uint32)
    text = """
      .reg .b16 %l, %h; .reg .b32 %x, %y;
      mov.b32 {%l, %h}, %a; mov.b32 %s, {%h, %l};
      mov.b64 %w, {%a, %s}; mov.b64 {_, %x}, %w; mov.b32 %t, %x; mov.b32 {%l, _}, %a; cvt.u32.u16 %u, %l;
    """
    found = lanes(text, {"s": "u4", "w": "u8", "t": "u4", "u": "u4"}, a=a)
    assert [hex(x) for x in found["s"]] == ["0x33441122", "0xccddaabb"]
    assert [hex(x) for x in found["w"]] == ["0x3344112211223344", "0xccddaabbaabbccdd"]
    assert found["t"].tolist() == found["s"].tolist()
    assert [hex(x) for x in found["u"]] == ["0x3344", "0xccdd"]


def test_two_comparisons_at_once() -> None:
    a, b = np.array([0x3F80BF80, 0x7FC03F80], np.uint32), np.array([0x3F803F80, 0x00003F80], np.uint32)
    found = lanes("setp.lt.bf16x2 %p|%q, %a, %b;", {"p": np.bool_, "q": np.bool_}, a=a, b=b)
    assert found["p"].tolist() == [True, False]
    assert found["q"].tolist() == [False, False]
    found = lanes("setp.neu.bf16x2 %p|%q, %a, %b;", {"p": np.bool_, "q": np.bool_}, a=a, b=b)
    assert found["q"].tolist() == [False, True]
