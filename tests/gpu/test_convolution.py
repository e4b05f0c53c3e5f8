"""Convolutions and their derivatives on the simulator against the interpreter, as products of more than one tile."""

from __future__ import annotations

from typing import Any

import pytest

from sexpgpu.dialects.opdef import parse_type
from sexpgpu.dialects.ops import OPS
from sexpgpu.sim import Checks
from tests.gpu.agreement import agrees
from tests.gpu.kernels import ALONE

PLAIN: dict[str, Any] = {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "dilation": (1, 1), "groups": 1}
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("2, 5, 8, 11", "34, 5, 3, 3", {}),
    ("2, 6, 13, 12", "8, 6, 3, 4", {"low": (1, 2), "high": (2, 1), "stride": (2, 3)}),
    ("2, 8, 12, 9", "12, 4, 3, 2", {"groups": 2, "dilation": (2, 3), "low": (2, 0)}),
    ("2, 6, 7, 7", "6, 1, 3, 3", {"groups": 6, "low": (1, 1), "high": (1, 1)}),
    ("3, 16, 4, 8", "24, 16, 1, 1", {}),
)


def check(which: str, x: str, w: str, dtype: str, given: dict[str, Any]) -> None:
    attrs = PLAIN | given
    image, filters = (parse_type(f"{dtype}[{shape}]") for shape in (x, w))
    made = OPS["conv"].infer(image, filters, **attrs)
    match which:
        case "conv":
            types = image, filters
        case "conv_input_grad":
            types = made, filters
            attrs["size"] = image.shape[2:]
        case _:
            types = image, made
            attrs["kernel"] = filters.shape[2:]
    agrees(types, lambda b, values: [b(which, *values, **attrs)], passes=ALONE, checks=Checks.every(race=1))


@pytest.mark.parametrize(("x", "w", "given"), CASES)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("which", ["conv", "conv_input_grad", "conv_weight_grad"])
def test_two_axes(which: str, dtype: str, x: str, w: str, given: dict[str, Any]) -> None:
    check(which, x, w, dtype, given)


@pytest.mark.parametrize("which", ["conv", "conv_input_grad", "conv_weight_grad"])
def test_one_axis(which: str) -> None:
    given = {"stride": (2,), "low": (3,), "high": (0,), "dilation": (1,), "groups": 1}
    check(which, "4, 3, 40", "5, 3, 4", "f64", given)


def test_wide_weight_gradient() -> None:
    check("conv_weight_grad_wide", "4, 3, 9, 9", "5, 3, 2, 2", "bf16", {})
