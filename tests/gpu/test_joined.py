"""Gradients of attention that are parts of one tensor: written there, where they are all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.opdef import sample
from sexpgpu.interp.reference import evaluate
from sexpgpu.passes.base import graphs
from sexpgpu.sim import Checks
from tests.building import function
from tests.gpu.agreement import agrees
from tests.gpu.kernels import FUSED, Device
from tests.gpu.test_attention import drawn

OWN = 3
"""Kernels of the gradients themselves."""


def launched(dtype: str, shared: int, starts: Sequence[int], width: int, *, read: bool = False) -> int:
    """How many kernels give the gradients of attention of 4 heads of 16 side by side, each from its start on.

    With `read` something else reads one of them as well.
    """
    q, k, line = f"{dtype}[2, 4, 37, 16]", f"{dtype}[2, {shared}, 37, 16]", "f32[2, 4, 37]"
    form: dict[str, Any] = {"scale": 0.3, "causal": True, "window": 0, "rounded": dtype == "bf16"}
    given = sample(q, line, q, k, k, q, line, **form)
    arrays = drawn(given, "attention")

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        total = None
        made = b.several("attention_grad", *values, **given.attrs)
        for value, start in zip(made, starts, strict=True):
            rows = b("transpose", value, perm=(0, 2, 1, 3))
            wide = rows.type.shape[2] * rows.type.shape[3]
            flat = b("reshape", rows, shape=(2, 37, wide))
            part = b("pad", flat, low=(0, 0, start), high=(0, 0, width - start - wide), value=0.0)
            total = part if total is None else total + part
        assert total is not None
        return [total, b("neg", made[0])] if read else [total]

    with open_context() as context:
        module = function(context, list(given.types), build)
        wanted = [np.array(value) for value in evaluate(graphs(module)[0], arrays)]
        device = Device.of(context, module, FUSED, Checks.every(race=3))
        found = device(arrays)
    share = 2**-6 if dtype == "bf16" else 1e-5
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=share * np.abs(want).max())
    return len(device.launches())


@pytest.mark.parametrize(
    ("dtype", "shared", "starts", "width"),
    [
        ("bf16", 4, (0, 64, 128), 192),
        ("bf16", 2, (64, 32, 0), 128),
        ("f32", 4, (0, 128, 64), 192),
        ("f32", 1, (16, 0, 80), 96),
    ],
)
def test_parts_of_one_tensor(dtype: str, shared: int, starts: tuple[int, ...], width: int) -> None:
    assert launched(dtype, shared, starts, width) == OWN


@pytest.mark.parametrize(("starts", "width"), [((0, 64, 136), 200), ((0, 64, 128), 200), ((0, 56, 120), 184)])
def test_parts_that_leave_a_gap_or_overlap(starts: tuple[int, ...], width: int) -> None:
    assert launched("bf16", 4, starts, width) > OWN


def test_a_gradient_that_something_else_reads() -> None:
    assert launched("bf16", 4, (0, 64, 128), 192, read=True) > OWN


def test_parts_whose_axes_lie_apart_in_it_are_joined_afterwards() -> None:
    """Rows of heads that are parted once more before they are joined: no strides say where an element of one lies."""
    types = ["f32[2, 4, 5, 8]", "f32[2, 4, 5]", *["f32[2, 4, 5, 8]"] * 4, "f32[2, 4, 5]"]
    form: dict[str, Any] = {"scale": 0.3, "causal": True, "window": 0, "rounded": False}

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        total = None
        for number, value in enumerate(b.several("attention_grad", *values, **form)):
            parted = b("reshape", value, shape=(2, 4, 5, 2, 4))
            ends: dict[str, Any] = {"low": (0, 0, 0, 0, 4 * number), "high": (0, 0, 0, 0, 8 - 4 * number)}
            part = b("pad", parted, **ends, value=0.0)
            total = part if total is None else total + part
        assert total is not None
        return [total]

    agrees(types, build)
