"""Sums of squares that come with gradients: from every kind of product's kernels, and what the loop makes of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context, open_context
from sexpgpu.dialects.opdef import Array, parse_type
from sexpgpu.dialects.signature import SQUARES, read_inputs, read_outputs, write_signature
from sexpgpu.driver.pipeline import steps_of
from sexpgpu.gpu.choices import Choices
from sexpgpu.gpu.library.choice import Source
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.interp.reference import evaluate
from sexpgpu.passes import PASSES
from sexpgpu.passes.base import graphs, parse_pass, run_pipeline
from sexpgpu.passes.gpu import library_product, product
from sexpgpu.passes.gpu.plans import device_plans_of
from sexpgpu.passes.gpu.product_tiling import TILINGS, WARPGROUP, Problem, Tiling, tiling_of
from sexpgpu.sim import Checks
from sexpgpu.tensortype import TensorType
from tests.building import function
from tests.gpu.agreement import Build, drawn
from tests.gpu.devices import Simulated
from tests.gpu.kernels import Device
from tests.gpu.libraries import StandIn, everything, libraries_of
from tests.gpu.test_product import cut, factors, multiplied

PLAIN = ("sx-fuse=target=cuda", "sx-to-gpu", "sx-to-nvvm", "sx-to-ptx")
TF32 = ("sx-fuse=target=cuda", "sx-to-gpu=tf32=true", "sx-to-nvvm", "sx-to-ptx")
WARPGROUPS = ("sx-fuse=target=cuda", "sx-to-gpu=chip=sm_90a", "sx-to-nvvm=chip=sm_90a", "sx-to-ptx")
TOLERANCE = {"f32": 2e-3, "f64": 1e-12}
"""Of tf32 and bf16 too, relative to the largest number beside it."""


def widened(swapped: str) -> Build:
    """The product as a gradient of parameters in f32."""
    build = multiplied(swapped)

    def wide(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        (made,) = build(b, values)
        return [b("cast", made, dtype="f32")]

    return wide


def asked(context: Context, kinds: list[TensorType], build: Build) -> Any:
    """A module of one graph, whose result is a gradient of which the norm is wanted."""
    module = function(context, kinds, build)
    (func,) = graphs(module)
    write_signature(func, read_inputs(func), [evolve(o, role="grad", name="w") for o in read_outputs(func)])
    func.attributes[SQUARES] = ir.UnitAttr.get(context=context.mlir)
    return module


def squared(
    types: Sequence[str], build: Build, passes: Sequence[str] = PLAIN, arrays: Sequence[Array] | None = None
) -> tuple[Device, Array, Array]:
    """What a graph gives of which the result is a gradient, and the sums of squares that come with it: as many as the
    group's function says, of the tiles that it says.
    """
    kinds = [parse_type(type) for type in types]
    inputs = drawn(kinds) if arrays is None else list(arrays)
    with open_context() as context:
        module = asked(context, kinds, build)
        run_pipeline(module, context, [parse_pass(spec, PASSES) for spec in passes[:2]])
        (func,) = graphs(module)
        assert SQUARES not in func.attributes
        with np.errstate(all="ignore"):
            wanted = [np.array(value) for value in evaluate(graphs(module)[0], inputs)]
        device = Device.of(context, module, passes[2:], Checks.every())
    assert [(output.role, output.name) for output in device.plan.spec.outputs] == [("grad", "w"), ("squares", "w")]
    gradient, sums = device(inputs)
    for got, want in zip((gradient, sums), wanted, strict=True):
        assert got.shape == want.shape
        bound = TOLERANCE[device.plan.spec.outputs[0].type.dtype]
        np.testing.assert_allclose(
            got, want, rtol=bound, atol=bound * float(np.abs(want[np.isfinite(want)]).max(initial=0))
        )
    return device, gradient, sums


def adds_up(gradient: Array, sums: Array) -> None:
    exact = math.fsum(np.square(gradient.astype(np.float64)).reshape(-1).tolist())
    assert math.fsum(sums.tolist()) == pytest.approx(exact, rel=1e-6 if gradient.dtype == np.float32 else 1e-14)


@pytest.mark.parametrize("tiling", TILINGS, ids=str)
def test_every_cut_of_ragged_factors(monkeypatch: pytest.MonkeyPatch, tiling: Tiling) -> None:
    cut(monkeypatch, tiling)
    dtype = "f32" if tiling.instruction == "fma" else "bf16"
    types = factors(dtype, tiling.rows + 4, 2 * tiling.columns + 12, 2 * tiling.depth + 4, "x")
    _, gradient, sums = squared(types, multiplied("x") if dtype == "f32" else widened("x"))
    assert sums.size == (11 if tiling.instruction == "dot" else 6)
    adds_up(gradient, sums)


@pytest.mark.parametrize("swapped", ["", "x"])
def test_sums_in_parts_are_squared_when_they_are_whole(monkeypatch: pytest.MonkeyPatch, swapped: str) -> None:
    cut(monkeypatch, next(t for t in TILINGS if t.instruction == "fma" and t.rows == 32), parts=3)
    device, gradient, sums = squared(factors("f32", 50, 60, 400, swapped), multiplied(swapped))
    assert len(list(device.launches())) == 2
    assert sums.size == 3
    adds_up(gradient, sums)


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "depth", "batch"),
    [
        ("f64", 40, 24, 33, ""),
        ("f64", 3, 5, 2, ""),
        ("f32", 1, 1, 1, ""),
        ("f32", 7, 300, 4, ""),
        ("f32", 40, 50, 64, "3, "),
        ("f32", 5, 6, 0, ""),
    ],
)
def test_sizes(dtype: str, rows: int, columns: int, depth: int, batch: str) -> None:
    """Batches too, sums of nothing, and those that single threads make."""
    _, gradient, sums = squared(factors(dtype, rows, columns, depth, "", batch), multiplied(""))
    adds_up(gradient, sums)


def test_on_tensor_cores_in_tf32() -> None:
    _, gradient, sums = squared(factors("f32", 132, 200, 64, "x"), multiplied("x"), TF32)
    adds_up(gradient, sums)


@pytest.mark.parametrize("tiling", WARPGROUP[:2], ids=str)
def test_by_warpgroups(monkeypatch: pytest.MonkeyPatch, tiling: Tiling) -> None:
    def chosen(problem: Problem) -> Tiling:
        return evolve(tiling, type=problem.register) if problem.bulk else tiling_of(problem)

    monkeypatch.setattr(product, "tiling_of", chosen)
    types = factors("bf16", tiling.rows + 8, tiling.columns + 24, 2 * tiling.depth, "x")
    device, gradient, sums = squared(types, widened("x"), WARPGROUPS)
    assert any(launch.maps for launch in device.launches())
    assert sums.size == 4
    adds_up(gradient, sums)


def test_a_view_of_the_result_is_the_gradient() -> None:
    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        (made,) = multiplied("x")(b, values)
        return [b("reshape", b("transpose", made, perm=(1, 0)), shape=(30, 10, 4))]

    _, gradient, sums = squared(factors("f32", 40, 30, 16, "x"), build)
    adds_up(gradient, sums)


def test_a_square_too_large_for_the_gradients_dtype_is_infinite() -> None:
    """As it is where the host takes the norm: the step is refused, though the gradient is finite."""
    arrays = [np.full((40, 8), 1e18, np.float32), np.full((8, 40), 1e3, np.float32)]
    _, gradient, sums = squared(["f32[40, 8]", "f32[8, 40]"], multiplied(""), arrays=arrays)
    assert np.isfinite(gradient).all()
    assert math.isinf(sums.sum())


def test_what_a_library_makes_comes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_product, "is_small", lambda problem: False)
    kinds = [parse_type(type) for type in factors("f32", 64, 32, 48, "x")]
    x, y = drawn(kinds)
    with open_context() as context:
        module = asked(context, kinds, multiplied("x"))
        run_pipeline(module, context, [parse_pass(step.spec, PASSES) for step in steps_of("cuda")])
        plans = device_plans_of(module)
    driver = SimDriver(Checks.every())
    device = Simulated(driver)
    (made,) = device.program(plans)([x, y])
    assert made.squares is not None
    adds_up(made.numpy(), made.squares.numpy())
    stand_in = StandIn(driver)
    driver.libraries = everything(Source("stand-in 1", stand_in.ways), Choices())
    driver.libraries.chosen = dict.fromkeys(libraries_of(plans), "library")
    (other,) = device.program(plans)([x, y])
    assert stand_in.calls == ["product"]
    assert other.squares is None
    np.testing.assert_allclose(other.numpy(), made.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", ["read again", "another family", "not asked", "bf16"])
def test_others_come_without(form: str) -> None:
    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, y = values
        if form == "another family":
            return [b("sum", x, axes=(0,), keepdims=False)]
        made = b("matmul", x, y)
        return [b("cumsum", made, axis=0) if form == "read again" else made]

    kinds = [parse_type(f"{'bf16' if form == 'bf16' else 'f32'}[64, 64]")] * 2
    with open_context() as context:
        module = asked(context, kinds, build)
        (func,) = graphs(module)
        if form == "not asked":
            del func.attributes[SQUARES]
        run_pipeline(module, context, [parse_pass(spec, PASSES) for spec in PLAIN[:2]])
        assert [output.role for output in read_outputs(func)] == ["grad"]
