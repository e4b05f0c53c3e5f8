"""Kernels of elements on the simulator: flat tensors of any size, broadcasts, copies into another order of axes."""

from __future__ import annotations

from typing import Any

import pytest

from sexpgpu.dialects.opdef import Move, OpDef, Pointwise, Sample
from sexpgpu.dialects.ops import OPS
from sexpgpu.sim import Checks
from tests.gpu.agreement import agrees, sample_agrees
from tests.gpu.kernels import ALONE

SAMPLES = [
    pytest.param(op, sample, id=f"{op.name}-{i}")
    for op in OPS.values()
    if isinstance(op.kind, Pointwise | Move)
    for i, sample in enumerate(op.samples)
]


@pytest.mark.parametrize(("op", "sample"), SAMPLES)
def test_samples(op: OpDef, sample: Sample) -> None:
    sample_agrees(op, sample, ALONE)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64", "u8"])
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (3, 333), (2, 3, 1031), (4, 64)])
def test_flat_tensors_of_any_size(shape: tuple[int, ...], dtype: str) -> None:
    def build(b: Any, v: Any) -> Any:
        x, y, one = v
        spread = b("broadcast", one, shape=shape)
        return x * y + spread, b("reshape", x - y, shape=(x.type.size,)), b("gt", x, y)

    agrees([f"{dtype}{list(shape)}"] * 2 + [f"{dtype}[]"], build)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64", "u8", "bool"])
@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((33, 70), (1, 0)),
        ((64, 128), (1, 0)),
        ((3, 40, 12), (0, 2, 1)),
        ((5, 3, 48), (2, 1, 0)),
        ((2, 36, 3, 20), (0, 3, 1, 2)),
    ],
)
def test_copies_into_another_order(shape: tuple[int, ...], perm: tuple[int, ...], dtype: str) -> None:
    def build(b: Any, v: Any) -> Any:
        moved = b("transpose", v[0], perm=perm)
        return (b("reshape", moved, shape=(moved.type.size,)),)

    device = agrees([f"{dtype}{list(shape)}"], build, passes=ALONE)
    (launch,) = device.launches()
    assert launch.block[0] == 256


def test_threads_come_in_any_order() -> None:
    def build(b: Any, v: Any) -> Any:
        return (b("reshape", b("transpose", v[0], perm=(1, 0)), shape=(40, 70)),)

    agrees(["f32[70, 40]"], build, passes=ALONE, checks=Checks.every(race=3))


def test_a_join_of_two_operands() -> None:
    """Which of the two a thread reads is a choice between parameters."""
    agrees(["f64[3, 64]", "f64[2, 64]"], lambda b, v: (b("concat", v[0], v[1], axis=0),))


@pytest.mark.parametrize("shape", [(7, 33), (3, 64)])
def test_what_is_costly_and_single_is_computed_once(shape: tuple[int, ...]) -> None:
    def build(b: Any, v: Any) -> Any:
        rate = b("cos", b("cast", v[0], dtype="f32") * 0.1) * 0.5
        step = b("broadcast", rate, shape=shape) * v[1]
        return rate, v[2] - step, step * b("broadcast", v[3], shape=shape)

    types = ["i32[]", f"f32{list(shape)}", f"f32{list(shape)}", f"f32[{shape[-1]}]"]
    first, second = agrees(types, build).launches()
    assert (first.grid[0], first.block[0]) == (1, 32)
    assert first.args == (0, 1, 2, 3, 4)
    assert second.args == (0, 1, 2, 3, 4, 5, 6)
