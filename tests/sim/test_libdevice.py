"""Every function of the mathematical library that kernels link, on what LLVM makes of it, against exact values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from sexpgpu.sim import Checks, Machine, Module
from tests.sim.compiled import SIZE, ptx
from tests.sim.snippets import Array

RNG = np.random.default_rng(11)
WIDE = np.concatenate([RNG.normal(0, 3, SIZE // 2), RNG.uniform(-80, 80, SIZE // 2)])
POSITIVE = np.exp(RNG.uniform(-80, 80, SIZE))
HUGE = np.concatenate([RNG.uniform(-1e5, 1e5, SIZE // 2), RNG.uniform(1e6, 1e30, SIZE // 2)])

UNARY: dict[str, tuple[Array, Callable[[float], float]]] = {
    "exp": (WIDE, math.exp),
    "exp2": (WIDE, lambda x: 2.0**x),
    "expm1": (np.concatenate([WIDE[: SIZE // 2], WIDE[SIZE // 2 :] * 1e-4]), math.expm1),
    "log": (POSITIVE, math.log),
    "log2": (POSITIVE, math.log2),
    "log1p": (np.concatenate([POSITIVE[: SIZE // 2], RNG.uniform(-0.9, 1e-3, SIZE // 2)]), math.log1p),
    "tanh": (WIDE, math.tanh),
    "erf": (WIDE, math.erf),
    "sin": (HUGE, math.sin),
    "cos": (HUGE, math.cos),
    "tan": (WIDE, math.tan),
    "atan": (WIDE, math.atan),
    "sqrt": (POSITIVE, math.sqrt),
    "rsqrt": (POSITIVE, lambda x: 1 / math.sqrt(x)),
    "floor": (WIDE, math.floor),
    "ceil": (WIDE, math.ceil),
    "roundeven": (np.round(WIDE * 2) / 2, round),
    "absf": (WIDE, abs),
    "cbrt": (WIDE, math.cbrt),
    "sinh": (WIDE, math.sinh),
    "cosh": (WIDE, math.cosh),
    "asin": (RNG.uniform(-1, 1, SIZE), math.asin),
    "acos": (RNG.uniform(-1, 1, SIZE), math.acos),
    "asinh": (WIDE, math.asinh),
    "erfc": (RNG.uniform(-3, 3, SIZE), math.erfc),
}
LOOSE = {
    "sqrt": 4,
    "rsqrt": 4,
    "tan": 6,
    "erfc": 8,
    "cosh": 6,
    "sinh": 6,
    "log1p": 6,
    "asinh": 6,
}  # in units of the last place


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER: dict[str, Callable[[int, int], int]] = {
    "divsi": quotient,
    "remsi": lambda a, b: a - b * quotient(a, b),
    "muli": lambda a, b: a * b,
    "minsi": min,
    "maxsi": max,
    "shli": lambda a, b: a << (b & 7),
}


def kernels() -> dict[str, tuple[str, str, str]]:
    found = {name: ("f32", "f32", f"%r = math.{name} %a : f32") for name in UNARY}
    found |= {f"{name}_64": ("f64", "f64", f"%r = math.{name} %a : f64") for name in DOUBLE}
    found["powf"] = ("f32 f32", "f32", "%r = math.powf %a, %b : f32")
    found["atan2"] = ("f32 f32", "f32", "%r = math.atan2 %a, %b : f32")
    found["divf"] = ("f32 f32", "f32", "%r = arith.divf %a, %b : f32")
    found["remf"] = ("f32 f32", "f32", "%r = arith.remf %a, %b : f32")
    found["fast"] = ("f32", "f32", "%e = math.exp %a fastmath<afn> : f32\n%r = math.log %e fastmath<afn> : f32")
    for name in INTEGER:
        for bits in (32, 64):
            kind = f"i{bits}"
            body = f"%r = arith.{name} %a, %b : {kind}"
            if name == "shli":
                body = (
                    f"%s = arith.constant 7 : {kind}\n%n = arith.andi %b, %s : {kind}\n%r = arith.shli %a, %n : {kind}"
                )
            found[f"{name}_{bits}"] = (f"{kind} {kind}", kind, body)
    found["halves"] = (
        "bf16 f32",
        "bf16",
        "%w = arith.extf %a : bf16 to f32\n%x = math.fma %w, %b, %w : f32\n%r = arith.truncf %x : f32 to bf16",
    )
    return found


DOUBLE = ("exp", "log", "tanh", "erf", "sin", "cos", "sqrt", "expm1", "log1p")


@pytest.fixture(scope="module", params=["sm_80", "sm_100"])
def loaded(request: pytest.FixtureRequest) -> tuple[Machine, Module]:
    machine = Machine(Checks(uninitialised=True))
    return machine, machine.load(ptx(kernels(), request.param), "libdevice")


def run(loaded: tuple[Machine, Module], name: str, *inputs: Array, result: type[np.generic] | None = None) -> Array:
    machine, module = loaded
    kind = np.dtype(result or inputs[0].dtype)
    addresses = [machine.allocate(x.nbytes, "input") for x in inputs] + [machine.allocate(SIZE * kind.itemsize, "out")]
    for address, x in zip(addresses, inputs, strict=False):
        machine.write(address, x)
    machine.launch(module.kernel(name), (SIZE // 256, 1, 1), (256, 1, 1), addresses)
    found = machine.read(addresses[-1], SIZE * kind.itemsize).view(kind).copy()
    for address in addresses:
        machine.free(address)
    return found


def ulps(found: Array, wanted: Array) -> float:
    """The largest distance, in units of the last place of what is wanted."""
    unit = np.spacing(np.maximum(np.abs(wanted.astype(found.dtype)), np.finfo(found.dtype).tiny))
    return float(np.max(np.abs(found.astype(np.float64) - wanted) / unit))


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_float32(loaded: tuple[Machine, Module], name: str) -> None:
    given, f = UNARY[name]
    x = given.astype(np.float32)
    wanted = np.array([f(float(v)) for v in x])
    assert ulps(run(loaded, name, x), wanted) <= LOOSE.get(name, 3)


@pytest.mark.parametrize("name", DOUBLE)
def test_functions_of_float64(loaded: tuple[Machine, Module], name: str) -> None:
    given, f = UNARY[name]
    x = given if name not in ("sin", "cos") else given[:SIZE] % 1e9
    wanted = np.array([f(float(v)) for v in x])
    assert ulps(run(loaded, f"{name}_64", x), wanted) <= 4


def test_edges(loaded: tuple[Machine, Module]) -> None:
    x = np.resize(np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, 88.8, -104, 1e38], np.float32), SIZE)
    with np.errstate(all="ignore"):
        for name, f in (("exp", np.exp), ("log", np.log), ("tanh", np.tanh), ("sqrt", np.sqrt), ("expm1", np.expm1)):
            found, wanted = run(loaded, name, x)[:9], f(x.astype(np.float64)).astype(np.float32)[:9]
            assert np.allclose(found, wanted, rtol=1e-5, atol=1e-44, equal_nan=True), name


def test_functions_of_two(loaded: tuple[Machine, Module]) -> None:
    a, b = np.exp(RNG.uniform(-8, 8, SIZE)).astype(np.float32), RNG.uniform(-4, 4, SIZE).astype(np.float32)
    x, y = a.astype(np.float64), b.astype(np.float64)
    assert ulps(run(loaded, "powf", a, b), x**y) <= 8
    assert ulps(run(loaded, "atan2", b, a), np.arctan2(y, x)) <= 4
    assert run(loaded, "divf", a, b).tolist() == (a / b).tolist()
    assert run(loaded, "remf", a, b).tolist() == np.fmod(a, b).tolist()
    assert np.allclose(run(loaded, "fast", b), b, atol=1e-6)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", INTEGER)
def test_integers(loaded: tuple[Machine, Module], name: str, bits: int) -> None:
    kind = np.dtype(f"i{bits // 8}")
    a = RNG.integers(-(1 << bits - 1), (1 << bits - 1) - 1, SIZE, dtype=kind) >> RNG.integers(
        0, bits - 1, SIZE, dtype=kind
    )
    b = RNG.integers(-(1 << bits - 1), (1 << bits - 1) - 1, SIZE, dtype=kind) >> RNG.integers(
        0, bits - 1, SIZE, dtype=kind
    )
    b[b == 0] = 3
    wanted = [INTEGER[name](int(x), int(y)) & (1 << bits) - 1 for x, y in zip(a, b, strict=True)]
    assert run(loaded, f"{name}_{bits}", a, b).view(f"u{bits // 8}").tolist() == wanted


def test_bfloat16(loaded: tuple[Machine, Module]) -> None:
    a = (RNG.normal(size=SIZE).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    b = RNG.normal(size=SIZE).astype(np.float32)
    wide = (a.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    found = (run(loaded, "halves", a, b).astype(np.uint32) << 16).view(np.float32)
    wanted = wide * b + wide
    assert (np.abs(found - wanted) <= np.abs(wanted) * 2.0**-8).all()
