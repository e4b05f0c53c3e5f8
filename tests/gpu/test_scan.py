"""Kernels of running sums on the simulator: along any axis, short lines and long ones, few and many."""

from __future__ import annotations

from typing import Any

import pytest

from sexpgpu.dialects.opdef import OpDef, Sample, Scan
from sexpgpu.dialects.ops import OPS
from sexpgpu.sim import Checks
from tests.gpu.agreement import agrees, sample_agrees
from tests.gpu.kernels import ALONE

SAMPLES = [
    pytest.param(op, sample, id=f"{op.name}-{i}")
    for op in OPS.values()
    if isinstance(op.kind, Scan)
    for i, sample in enumerate(op.samples)
]
SHAPES = [
    ((5, 20), 1),
    ((3, 64), 1),
    ((2, 77), 1),
    ((140, 130), 1),
    ((133, 128), 1),
    ((2, 3000), 1),
    ((20000,), 0),
    ((8197,), 0),
    ((70, 5), 0),
    ((3, 11, 40), 1),
    ((1500, 6), 0),
    ((3, 1, 2), 1),
]


def scan(axis: int) -> Any:
    return lambda b, v: (b("cumsum", v[0], axis=axis),)


@pytest.mark.parametrize(("op", "sample"), SAMPLES)
def test_samples(op: OpDef, sample: Sample) -> None:
    sample_agrees(op, sample, ALONE)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i64"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_lines_of_any_length(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    agrees([f"{dtype}{list(shape)}"], scan(axis))


def test_a_view_is_read_where_it_lies() -> None:
    agrees(["f64[40, 70]"], lambda b, v: (b("cumsum", b("transpose", v[0], perm=(1, 0)), axis=1),))


def test_few_long_lines_are_shared_by_blocks() -> None:
    device = agrees(["f32[2, 9000]"], scan(1))
    assert [launch.grid[0] for launch in device.launches()] == [4, 4]


@pytest.mark.parametrize(("shape", "axis"), [((2, 600), 1), ((8200,), 0), ((1100, 3), 0)])
def test_threads_come_in_any_order(shape: tuple[int, ...], axis: int) -> None:
    agrees([f"f32{list(shape)}"], scan(axis), checks=Checks.every(race=4))
