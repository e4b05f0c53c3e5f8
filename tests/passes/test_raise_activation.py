"""GELU, SiLU, sigmoid and softplus in their spellings, and functions that are nearly those."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.passes.raising import Build, outcome

HALF_ROOT = math.sqrt(0.5)
C = math.sqrt(2 / math.pi)
A = 0.044715

ERF: dict[str, Build] = {
    "x phi": lambda b, x: x * ((b("erf", x * HALF_ROOT) + 1) * 0.5),
    "half first": lambda b, x: 0.5 * x * (1 + b("erf", x / math.sqrt(2))),
    "half last": lambda b, x: x * (1 + b("erf", x * HALF_ROOT)) / 2,
    "distributed": lambda b, x: x * 0.5 + x * 0.5 * b("erf", x * HALF_ROOT),
    "halves inside": lambda b, x: (b("erf", x * HALF_ROOT) * 0.5 + 0.5) * x,
}


def cubed(b: Any, x: Any) -> Any:
    return b("pow", x, b.constant(3, x.type))


TANH: dict[str, Build] = {
    "pow": lambda b, x: 0.5 * x * (1 + b("tanh", C * (x + A * cubed(b, x)))),
    "x x x": lambda b, x: 0.5 * (x * (b("tanh", (x + A * x * x * x) * C) + 1)),
    "factored": lambda b, x: x * (0.5 * (1 + b("tanh", C * x * (1 + A * (x * x))))),
    "square": lambda b, x: x * 0.5 * (1 + b("tanh", x * C + x * b("square", x) * (A * C))),
    "distributed": lambda b, x: 0.5 * x + 0.5 * x * b("tanh", C * (x + A * cubed(b, x))),
    "sigmoid": lambda b, x: x * b("sigmoid", 2 * C * (x + A * x * x * x)),
}
SILU: dict[str, Build] = {
    "x sigmoid": lambda b, x: x * b("sigmoid", x),
    "sigmoid x": lambda b, x: b("sigmoid", x) * x,
    "quotient": lambda b, x: x / (1 + b("exp", -x)),
    "spelled sigmoid": lambda b, x: x * (1 / (b("exp", x * -1.0) + 1)),
    "by tanh": lambda b, x: x * (0.5 * (1 + b("tanh", x * 0.5))),
}
SIGMOID: dict[str, Build] = {
    "quotient": lambda b, x: 1 / (1 + b("exp", -x)),
    "reciprocal": lambda b, x: b("reciprocal", b("exp", -x) + 1),
    "powers": lambda b, x: b("exp", x) / (1 + b("exp", x)),
    "tanh": lambda b, x: 0.5 * b("tanh", 0.5 * x) + 0.5,
}
SOFTPLUS: dict[str, Build] = {
    "log1p": lambda b, x: b("log1p", b("exp", x)),
    "log": lambda b, x: b("log", 1 + b("exp", x)),
    "of minus x": lambda b, x: b("log1p", b("exp", -x)),
    "relu": lambda b, x: b("relu", x) + b("log1p", b("exp", -b("abs", x))),
    "maximum": lambda b, x: b("log", b("exp", -b("abs", x)) + 1) + b("maximum", b.constant(0, x.type), x),
}
FAMILIES = {"gelu": ERF | {f"tanh {name}": build for name, build in TANH.items()}, "silu": SILU, "sigmoid": SIGMOID,
            "softplus": SOFTPLUS}  # fmt: skip
CASES = [
    pytest.param(op, build, id=f"{op} {name}")
    for op, spellings in FAMILIES.items()
    for name, build in spellings.items()
]


@pytest.mark.parametrize(("type", "tolerance"), [("f64[3, 5]", 1e-10), ("f32[4, 6]", 1e-5)])
@pytest.mark.parametrize(("op", "build"), CASES)
def test_a_spelling_becomes_one_operation(op: str, build: Build, type: str, tolerance: float) -> None:
    found = outcome(build, type, domain=(-3.0, 3.0))
    assert found.composites == (op,)
    assert found.fell_back == ()
    assert len(found.forms) == 1
    found.require_equal(tolerance)


@pytest.mark.parametrize("build", TANH.values(), ids=TANH.keys())
def test_the_form_with_tanh_is_said(build: Build) -> None:
    assert 'approximate = "tanh"' in outcome(build, "f32[3]").text


NEAR: dict[str, Build] = {
    "another factor in erf": lambda b, x: 0.5 * x * (1 + b("erf", x * 0.7)),
    "half of the erf only": lambda b, x: x * (1 + 0.5 * b("erf", x * HALF_ROOT)),
    "gate of another": lambda b, x: 0.5 * b("exp", x) * (1 + b("erf", x * HALF_ROOT)),
    "another cubic": lambda b, x: 0.5 * x * (1 + b("tanh", C * (x + 0.0447 * x * x * x))),
    "a square for the cube": lambda b, x: 0.5 * x * (1 + b("tanh", C * (x + A * x * x))),
    "one plus exp of x below": lambda b, x: x / (1 + b("exp", x)),
    "two plus exp": lambda b, x: 1 / (2 + b("exp", -x)),
    "log of two plus exp": lambda b, x: b("log", 2 + b("exp", x)),
    "softplus of another part": lambda b, x: b("relu", x * 2.0) + b("log1p", b("exp", -b("abs", x))),
}


@pytest.mark.parametrize("build", NEAR.values(), ids=NEAR.keys())
def test_another_function_stays(build: Build) -> None:
    found = outcome(build, "f64[3, 5]")
    assert not set(found.composites) & {"gelu", "silu", "sigmoid"}
    found.require_equal(1e-10)


def test_a_gate_that_is_read_elsewhere_stays() -> None:
    def build(b: Any, x: Any) -> Any:
        gate = 1 + b("erf", x * HALF_ROOT)
        return 0.5 * x * gate + gate

    found = outcome(build, "f64[3, 5]")
    assert found.composites == ()
    assert found.fell_back == ("gelu: another operation reads the add inside",)


def test_under_bf16_the_island_is_one_operation() -> None:
    def build(b: Any, x: Any, w: Any) -> Any:
        h = b("matmul", x, w)
        return b("matmul", 0.5 * h * (1 + b("erf", h * HALF_ROOT)), w)

    found = outcome(build, "f32[4, 4]", "f32[4, 4]", policy="bf16")
    assert found.composites == ("gelu",)
    assert found.text.count('"sx.cast"') == 5
    found.require_equal(2e-2)
