"""Matrix products on the simulator against the interpreter: every cut, layout and dtype, and what follows a product."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.opdef import Contract
from sexpgpu.dialects.ops import OPS
from sexpgpu.passes.gpu import product, task
from sexpgpu.passes.gpu.product_tiling import TILINGS, Problem, Tiling
from sexpgpu.sim import Checks
from tests.gpu.agreement import Build, agrees, sample_agrees
from tests.gpu.kernels import ALONE

CONTRACTIONS = [op for op in OPS.values() if isinstance(op.kind, Contract)]
SAMPLES = [(op.name, number) for op in CONTRACTIONS for number in range(len(op.samples))]
EVERY = Checks.every(race=5)


def multiplied(swapped: str) -> Build:
    """x times y, with those of them that are named swapped before."""

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        factors = []
        for name, value in zip("xy", values, strict=True):
            rank = value.type.rank
            perm = (*range(rank - 2), rank - 1, rank - 2)
            factors.append(b("transpose", value, perm=perm) if name in swapped else value)
        return [b("matmul", *factors)]

    return build


def factors(dtype: str, rows: int, columns: int, depth: int, swapped: str, batch: str = "") -> list[str]:
    x = f"{depth}, {rows}" if "x" in swapped else f"{rows}, {depth}"
    y = f"{columns}, {depth}" if "y" in swapped else f"{depth}, {columns}"
    return [f"{dtype}[{batch}{x}]", f"{dtype}[{batch}{y}]"]


def cut(monkeypatch: pytest.MonkeyPatch, tiling: Tiling, parts: int = 1) -> None:
    """Cut every product in this way, whatever it costs."""

    def chosen(problem: Problem) -> Tiling:
        return evolve(tiling, parts=parts, type=problem.register)

    monkeypatch.setattr(product, "tiling_of", chosen)


@pytest.mark.parametrize(("name", "number"), SAMPLES)
def test_samples(name: str, number: int) -> None:
    sample_agrees(OPS[name], OPS[name].samples[number], ALONE)


@pytest.mark.parametrize("tiling", TILINGS, ids=str)
@pytest.mark.parametrize("swapped", ["", "xy"])
def test_every_cut_of_ragged_factors(monkeypatch: pytest.MonkeyPatch, tiling: Tiling, swapped: str) -> None:
    cut(monkeypatch, tiling)
    dtype = "f32" if tiling.instruction == "fma" else "bf16"
    rows, columns, depth = tiling.rows + 4, tiling.columns + 12, 2 * tiling.depth + 4
    agrees(factors(dtype, rows, columns, depth, swapped), multiplied(swapped), passes=ALONE, checks=EVERY)


@pytest.mark.parametrize("tiling", [t for t in TILINGS if t.rows * t.columns < 64 * 64], ids=str)
@pytest.mark.parametrize("swapped", ["x", "y"])
def test_cuts_of_whole_tiles(monkeypatch: pytest.MonkeyPatch, tiling: Tiling, swapped: str) -> None:
    cut(monkeypatch, tiling)
    dtype = "f32" if tiling.instruction == "fma" else "bf16"
    agrees(factors(dtype, tiling.rows, tiling.columns, 2 * tiling.depth, swapped), multiplied(swapped), passes=ALONE)


@pytest.mark.parametrize("swapped", ["", "x", "y", "xy"])
@pytest.mark.parametrize("odd", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_lines_that_are_no_whole_vectors(monkeypatch: pytest.MonkeyPatch, dtype: str, odd: int, swapped: str) -> None:
    kind = "fma" if dtype == "f32" else "mma.m16n8k16"
    cut(monkeypatch, next(t for t in TILINGS if t.instruction == kind and (t.rows, t.columns) == (32, 32)))
    agrees(factors(dtype, 32 + odd, 16 + odd, 64 + odd, swapped), multiplied(swapped), passes=ALONE)


@pytest.mark.parametrize("dtype", ["f64", "i64", "i32", "u8", "f32", "bf16"])
def test_dtypes_and_batches(dtype: str) -> None:
    agrees(factors(dtype, 33, 20, 24, "x", "2, 3, "), multiplied("x"), passes=ALONE)


@pytest.mark.parametrize("dtype", ["f64", "i64", "u8", "f32", "bf16"])
def test_sums_by_single_threads(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    cut(monkeypatch, next(t for t in TILINGS if t.instruction == "dot"))
    agrees(factors(dtype, 12, 40, 9, "y", "3, "), multiplied("y"), passes=ALONE, checks=EVERY)


@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(64, 10, 100), (1, 1, 1), (1, 300, 40), (10, 64, 200), (3, 5, 0)]
)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_small(dtype: str, rows: int, columns: int, depth: int) -> None:
    agrees(factors(dtype, rows, columns, depth, ""), multiplied(""), passes=ALONE, checks=EVERY)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("parts", [2, 3])
def test_parts_of_the_sum(monkeypatch: pytest.MonkeyPatch, dtype: str, parts: int) -> None:
    kind = "fma" if dtype == "f32" else "mma.m16n8k16"
    cut(monkeypatch, next(t for t in TILINGS if t.instruction == kind and t.rows == 32), parts)

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w, bias = values
        y = b("matmul", x, w)
        return [b("add", y, b("broadcast", bias, shape=y.type.shape))]

    device = agrees([f"{dtype}[40, 520]", f"{dtype}[520, 36]", f"{dtype}[36]"], build, checks=EVERY)
    assert len(device.launches()) == 2


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
def test_bias_activation_and_residual(dtype: str) -> None:
    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w, bias, residual = values
        y = b("reshape", b("matmul", x, w), shape=(2, 35, 48))
        z = b("add", y, b("broadcast", bias, shape=(2, 35, 48)))
        return [b("add", residual, b("gelu", z, approximate="none"))]

    types = [f"{dtype}[70, 40]", f"{dtype}[40, 48]", f"{dtype}[48]", f"{dtype}[2, 35, 48]"]
    device = agrees(types, build)
    assert len(device.launches()) == 1


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_sum_before_the_activation_is_a_result(dtype: str) -> None:
    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        y = b("matmul", *values)
        return [y, b("gelu", y, approximate="tanh")]

    device = agrees([f"{dtype}[40, 24]", f"{dtype}[24, 50]"], build)
    assert len(device.launches()) == 1


def test_mask_and_results_of_two_shapes() -> None:
    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w, mask = values
        y = b("matmul", x, w)
        z = b("reshape", y, shape=(6, 4, 5))
        return [y, b("where", mask, z, b("neg", z))]

    agrees(["f32[6, 9]", "f32[9, 20]", "bool[6, 4, 5]"], build)


def test_casts_of_factors_and_of_the_result() -> None:
    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w = (b("cast", value, dtype="bf16") for value in values)
        return [b("cast", b("matmul", x, b("transpose", w, perm=(1, 0))), dtype="f32")]

    device = agrees(["f32[70, 64]", "f32[48, 64]"], build)
    assert len(device.launches()) == 1


def test_a_bias_that_is_cast_for_two_products() -> None:
    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w, bias = values
        once = b("cast", b("broadcast", bias, shape=(70, 48)), dtype="bf16")
        y = b("add", b("matmul", x, w), once)
        return [b("add", b("matmul", y, w), once)]

    device = agrees(["bf16[70, 48]", "bf16[48, 48]", "f32[48]"], build)
    assert len(device.launches()) == 2


def test_slices_and_repeated_factors() -> None:
    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w = values
        part = b("slice", x, start=(0, 0, 1, 8), stop=(2, 4, 30, 40), step=(1, 1, 1, 1))
        turned = b("transpose", part, perm=(0, 2, 1, 3))
        whole = b(
            "reshape", b("slice", turned, start=(0, 0, 0, 0), stop=(2, 29, 1, 32), step=(1,) * 4), shape=(2, 29, 32)
        )
        return [b("matmul", whole, b("broadcast", w, shape=(2, 32, 20)))]

    agrees(["bf16[2, 4, 30, 48]", "bf16[32, 20]"], build, passes=ALONE)


def test_function_of_a_factor() -> None:
    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w = values
        return [b("relu", b("matmul", b("neg", x), w))]

    device = agrees(["f32[20, 30]", "f32[30, 10]"], build)
    assert len(device.launches()) == 1


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_indices_of_64_bits(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr(task, "_LARGE", 100)
    device = agrees(factors(dtype, 40, 70, 36, "x", "2, "), multiplied("x"), passes=ALONE)
    assert device.launches()
