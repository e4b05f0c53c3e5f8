"""Attention on tensor cores against the interpreter, with every check of the simulator and warps in random order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.opdef import Array, parse_type, sample
from sexpgpu.dialects.ops import OPS
from sexpgpu.passes.gpu import attention_tensor
from sexpgpu.sim import Checks
from tests.building import function
from tests.gpu.kernels import ALONE, FUSED, Device
from tests.gpu.test_attention import drawn

FORM: dict[str, Any] = {"scale": 0.3, "causal": False, "window": 0, "rounded": True}


def ran(name: str, types: Sequence[str], **form: Any) -> tuple[list[str], list[Array], list[Array]]:
    """(what the kernels are, what they gave, what the interpreter gives)."""
    record = OPS[name]
    given = sample(*types, **FORM | form)
    saved = ("attention_biased" if "bias" in record.operands else "attention") if "g" in record.operands else ""
    arrays = drawn(given, saved)
    with open_context() as context:
        module = function(context, list(given.types), lambda b, values: b.several(name, *values, **given.attrs))
        device = Device.of(context, module, ALONE, Checks.every(race=5))
        found = device(arrays)
    with np.errstate(all="ignore"):
        wanted = record.numpy(*arrays, **given.attrs)
    return [launch.how for launch in device.launches() if launch.how], found, list(wanted)


def near(found: Array, wanted: Array, share: float) -> None:
    """Equal within a share of the greatest number; NaN and infinities at the same places."""
    most = np.abs(wanted[np.isfinite(wanted)]).max()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=share * most)


def forward(
    batch: int, heads: tuple[int, int], rows: tuple[int, int], dims: tuple[int, int], bias: str = "", **form: Any
) -> list[str]:
    many, shared = heads
    types = [f"bf16[{batch}, {many}, {rows[0]}, {dims[0]}]"]
    types += [f"bf16[{batch}, {shared}, {rows[1]}, {dim}]" for dim in dims]
    name = "attention_biased" if bias else "attention"
    how, (y, lse), (line, logs) = ran(name, [*types, *([f"f32[{bias}]"] if bias else [])], **form)
    near(y, line, 2**-7)
    near(lse, logs, 1e-3)  # a product that is rounded to the other side
    return how


def backward(
    batch: int, heads: tuple[int, int], rows: tuple[int, int], dims: tuple[int, int], bias: str = "", **form: Any
) -> list[str]:
    many, shared = heads
    q, y = (f"bf16[{batch}, {many}, {rows[0]}, {dim}]" for dim in dims)
    k, v = (f"bf16[{batch}, {shared}, {rows[1]}, {dim}]" for dim in dims)
    line = f"f32[{batch}, {many}, {rows[0]}]"
    name = "attention_biased_grad" if bias else "attention_grad"
    how, found, wanted = ran(name, [y, line, q, k, v, y, line, *([f"f32[{bias}]"] if bias else [])], **form)
    for got, want in zip(found, wanted, strict=True):
        near(got, want, 2**-6)
    return how


CASES: list[tuple[Any, ...]] = [
    ((4, 2), (100, 131), (64, 64), "", {"causal": True}),
    ((2, 1), (70, 70), (96, 96), "", {"causal": True, "window": 20}),
    ((2, 2), (70, 90), (128, 128), "", {"window": 30}),
    ((1, 1), (64, 128), (32, 48), "", {"scale": 1.0}),
    ((1, 1), (1, 17), (16, 16), "", {}),
    ((2, 1), (70, 80), (64, 64), "1, 2, 70, 80", {}),
    ((2, 1), (40, 70), (32, 32), "1, 1, 1, 70", {"scale": -0.3, "causal": True}),
]


@pytest.mark.parametrize(("heads", "rows", "dims", "bias", "form"), CASES)
def test_against_the_interpreter(
    heads: tuple[int, int], rows: tuple[int, int], dims: tuple[int, int], bias: str, form: dict[str, Any]
) -> None:
    assert all(how.startswith("mma") for how in forward(1, heads, rows, dims, bias, **form))
    shares, *others = backward(1, heads, rows, dims, bias, **form)
    assert shares == "warps: D"
    assert [how.partition(": ")[2] for how in others if how.startswith("mma")] == ["dq", "dk, dv"]


@pytest.mark.parametrize(("dim", "made"), [(64, "mma 128x64 d64"), (96, "mma 128x32 d96")])
def test_32_rows_a_warp(dim: int, made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_tensor, "MULTIPROCESSORS", 1)
    assert forward(1, (2, 1), (150, 150), (dim, dim), causal=True) == [made]


def test_32_rows_a_warp_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_tensor, "MULTIPROCESSORS", 1)
    how = backward(1, (2, 1), (140, 150), (64, 64), causal=True, window=90)
    assert how[1:] == ["mma 128x32 d64: dq", "mma 128x32 d64: dk, dv"]


def test_rows_of_256() -> None:
    assert forward(1, (1, 1), (17, 40), (256, 256), causal=True) == ["mma 64x32 d256"]
    assert forward(1, (1, 1), (17, 17), (256, 256), "1, 1, 17, 1") == ["mma 64x16 d256"]
    assert backward(1, (1, 1), (8, 8), (256, 256)) == [
        "warps: D",
        "warps: rows of 256: dq",
        "warps: rows of 256: dk, dv",
    ]


def test_rows_that_see_nothing() -> None:
    assert forward(1, (1, 1), (65, 40), (32, 32), causal=True) == ["mma 64x64 d32"]


@pytest.mark.parametrize(
    ("types", "how"),
    [
        (["bf16[1, 1, 4, 24]"] * 3, "warps: rows of 24"),
        (["bf16[1, 1, 4, 320]"] * 3, "warps: rows of 320"),
        (["bf16[1, 1, 4, 16]", "bf16[1, 1, 0, 16]", "bf16[1, 1, 0, 16]"], "warps: k is empty"),
    ],
)
def test_what_cannot_run_there(types: list[str], how: str) -> None:
    given = sample(*types, **FORM)
    with open_context() as context:
        module = function(context, list(given.types), lambda b, values: b.several("attention", *values, **given.attrs))
        (launch,) = Device.of(context, module, ALONE).launches()
    assert launch.how == how


@pytest.mark.parametrize(("first", "how"), [(0, "mma 64x64 d32"), (8, "mma 64x64 d32"), (4, "warps: q is not aligned")])
def test_slices_of_one_tensor(first: int, how: str) -> None:
    batch, rows, heads, dim = 2, 70, 2, 32
    width = heads * dim
    type = parse_type(f"bf16[{batch}, {rows}, {first + 3 * width}]")
    form = FORM | {"causal": True}
    x = round_bf16(np.random.default_rng(0).uniform(-2, 2, type.shape).astype(np.float32))

    def build(b: Any, values: Any) -> Any:
        parts = []
        for low in range(first, first + 3 * width, width):
            part = b("slice", values[0], start=(0, 0, low), stop=(batch, rows, low + width), step=(1, 1, 1))
            parts.append(b("transpose", b("reshape", part, shape=(batch, rows, heads, dim)), perm=(0, 2, 1, 3)))
        y, lse = b.several("attention", *parts, **form)
        return [b("reshape", b("transpose", y, perm=(0, 2, 1, 3)), shape=(batch, rows, width)), lse]

    with open_context() as context:
        device = Device.of(context, function(context, [type], build), FUSED, Checks.every(race=1))
        found = device([x])
    assert [launch.how for launch in device.launches()] == [how]
    q, k, v = x[:, :, first:].reshape(batch, rows, 3, heads, dim).transpose(2, 0, 3, 1, 4)
    y, lse = OPS["attention"].numpy(q, k, v, **form)
    near(found[0], y.transpose(0, 2, 1, 3).reshape(batch, rows, width), 2**-7)
    near(found[1], lse, 1e-3)
