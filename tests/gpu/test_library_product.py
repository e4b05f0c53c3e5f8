"""Products as cublasLt has them: which groups suit, that records say what the kernels do, and what cublasLt is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.opdef import Array, parse_type
from sexpgpu.gpu.choices import Choices
from sexpgpu.gpu.library.choice import Source
from sexpgpu.gpu.library.cublaslt import CublasLt
from sexpgpu.gpu.library.cublaslt_layout import described
from sexpgpu.gpu.library.workspace import Workspace
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.passes import PIPELINES
from sexpgpu.plan.library import ProductGraph, part_of
from sexpgpu.plan.records import DevicePlans
from sexpgpu.sim import Checks
from tests.gpu.devices import compiled
from tests.gpu.libraries import both, everything, graphs_of, ran
from tests.gpu.lt import HANDLE, STREAM, StandInLt

Build = Callable[[Builder, list[Val]], Sequence[Val]]
ROWS, COLUMNS, DEPTH = 12, 24, 20


def turned(b: Builder, x: Val) -> Val:
    return b("transpose", x, perm=(*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2))


def like(b: Builder, x: Val, y: Val) -> Val:
    return b("broadcast", x, shape=y.type.shape)


def matmul(b: Builder, v: list[Val]) -> Val:
    return b("matmul", v[0], v[1])


def biased(b: Builder, v: list[Val]) -> Val:
    y = matmul(b, v)
    return b("add", y, like(b, v[2], y))


def scaled(b: Builder, v: list[Val]) -> list[Val]:
    y = matmul(b, v)
    return [b("add", b("mul", y, b.constant(0.25, y.type)), v[2])]


def in_a_batch(b: Builder, v: list[Val]) -> list[Val]:
    """Heads side by side in rows: [rows, heads, length] as [heads, rows, length]."""
    x, y = (b("transpose", each, perm=(1, 0, 2)) for each in v)
    return [b("matmul", x, turned(b, y))]


def gelu(b: Builder, x: Val) -> Val:
    return b("gelu", x, approximate="tanh")


def residual(b: Builder, v: list[Val]) -> list[Val]:
    y = b("reshape", biased(b, v), shape=(3, 4, COLUMNS))
    return [b("add", v[3], y)]


def with_slope(b: Builder, v: list[Val]) -> list[Val]:
    return [b("gelu_grad", matmul(b, v), v[2], approximate="tanh")]


def of_part(b: Builder, v: list[Val]) -> list[Val]:
    """A product with columns 8 to 28 of a wider matrix."""
    return [b("matmul", b("slice", v[0], start=(0, 8), stop=(ROWS, 28), step=(1, 1)), v[1])]


X, Y, BIAS, WHOLE = f"[{ROWS}, {DEPTH}]", f"[{DEPTH}, {COLUMNS}]", f"[{COLUMNS}]", f"[{ROWS}, {COLUMNS}]"
SUITING: dict[str, tuple[list[str], Build, str]] = {
    "plain": ([X, Y], lambda b, v: [matmul(b, v)], "DEFAULT"),
    "first turned": ([f"[{DEPTH}, {ROWS}]", Y], lambda b, v: [b("matmul", turned(b, v[0]), v[1])], "DEFAULT"),
    "second turned": ([X, f"[{COLUMNS}, {DEPTH}]"], lambda b, v: [b("matmul", v[0], turned(b, v[1]))], "DEFAULT"),
    "both turned": (
        [f"[{DEPTH}, {ROWS}]", f"[{COLUMNS}, {DEPTH}]"],
        lambda b, v: [b("matmul", turned(b, v[0]), turned(b, v[1]))],
        "DEFAULT",
    ),
    "part of a matrix": (["[12, 32]", Y], of_part, "DEFAULT"),
    "batch": (["[5, 12, 20]", "[5, 20, 24]"], lambda b, v: [matmul(b, v)], "DEFAULT"),
    "batch of heads": (["[12, 3, 20]", "[16, 3, 20]"], in_a_batch, "DEFAULT"),
    "bias": ([X, Y, BIAS], lambda b, v: [biased(b, v)], "BIAS"),
    "scale and residual": ([X, Y, WHOLE], scaled, "DEFAULT"),
    "bias and residual": ([X, Y, BIAS, f"[3, 4, {COLUMNS}]"], residual, "BIAS"),
    "relu": ([X, Y], lambda b, v: [b("relu", matmul(b, v))], "RELU"),
    "bias and relu": ([X, Y, BIAS], lambda b, v: [b("relu", biased(b, v))], "RELU_BIAS"),
    "gelu": ([X, Y], lambda b, v: [gelu(b, matmul(b, v))], "GELU"),
    "bias and gelu": ([X, Y, BIAS], lambda b, v: [gelu(b, biased(b, v))], "GELU_BIAS"),
    "gelu and its argument": ([X, Y], lambda b, v: [y := matmul(b, v), gelu(b, y)], "GELU_AUX"),
    "all of these": ([X, Y, BIAS], lambda b, v: [gelu(b, y := biased(b, v)), y], "GELU_AUX_BIAS"),
    "slope of gelu": ([X, Y, WHOLE], with_slope, "DGELU"),
}
UNSUITED: dict[str, tuple[list[str], Build]] = {
    "gelu with erf": ([X, Y], lambda b, v: [b("gelu", matmul(b, v), approximate="none")]),
    "relu before the bias": ([X, Y, BIAS], lambda b, v: [b("add", r := b("relu", matmul(b, v)), like(b, v[2], r))]),
    "product times a matrix": ([X, Y, WHOLE], lambda b, v: [b("mul", matmul(b, v), v[2])]),
    "sum scaled with what was added": (
        [X, Y, WHOLE],
        lambda b, v: [b("mul", s := b("add", matmul(b, v), v[2]), b.constant(0.5, s.type))],
    ),
    "result and what relu is taken of": ([X, Y], lambda b, v: [y := matmul(b, v), b("relu", y)]),
    "bias along the rows": ([X, Y, f"[{ROWS}, 1]"], lambda b, v: [b("add", y := matmul(b, v), like(b, v[2], y))]),
}


@pytest.fixture(autouse=True)
def small_products_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexpgpu.passes.gpu.library_product.LAUNCH", 0)


def plans_of(dtype: str, shapes: list[str], build: Build) -> DevicePlans:
    return compiled([parse_type(dtype + shape) for shape in shapes], build)


def operands(plans: DevicePlans) -> list[Array]:
    rng = np.random.default_rng(5)
    types = [each.type for each in plans.plans["f"].spec.inputs]
    drawn = [rng.standard_normal(type.shape, np.float32) for type in types]
    return [round_bf16(x) if type.dtype == "bf16" else x for x, type in zip(drawn, types, strict=True)]


def agree(found: Sequence[Array], wanted: Sequence[Array], dtype: str) -> None:
    bound = 1e-5 if dtype == "f32" else 2**-6  # two roundings to bf16 where the library rounds once
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=bound, atol=bound * np.abs(want).max())


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", SUITING)
def test_a_record_gives_what_the_kernels_give(name: str, dtype: str) -> None:
    shapes, build, _ = SUITING[name]
    plans = plans_of(dtype, shapes, build)
    wanted, found, calls = both(plans, operands(plans))
    assert calls == ["product"]
    agree(found, wanted, dtype)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", SUITING)
def test_cublaslt_is_told_the_same(name: str, dtype: str) -> None:
    lt, cublas = (pytest.importorskip(f"nvmath.bindings.{each}") for each in ("cublasLt", "cublas"))
    types: Any = pytest.importorskip("nvmath").CudaDataType
    shapes, build, epilogue = SUITING[name]
    plans = plans_of(dtype, shapes, build)
    driver = SimDriver(Checks())
    stand_in = StandInLt(lt, types, driver)
    opened = CublasLt(stand_in.bindings(cublas), HANDLE, "13.1.0", STREAM, Workspace(driver.allocate, 1 << 20))
    libraries = everything(Source("cublasLt 13.1.0", opened.ways), Choices())
    ran(plans, operands(plans), libraries, driver)
    assert set(stand_in.epilogues) == {epilogue}, "measured"
    assert libraries.refused == {}
    stand_in.epilogues.clear()
    (graph,) = graphs_of(plans, ProductGraph)
    libraries.chosen = {graph: next(iter(opened.ways(graph)))}
    found = ran(plans, operands(plans), libraries, driver)
    assert stand_in.epilogues == [epilogue], "and run"
    agree(found, ran(plans, operands(plans), None, SimDriver(Checks())), dtype)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_f32_is_rounded_to_tf32_only_where_that_is_allowed(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lt, cublas = (pytest.importorskip(f"nvmath.bindings.{each}") for each in ("cublasLt", "cublas"))
    types: Any = pytest.importorskip("nvmath").CudaDataType
    shapes, build, _ = SUITING["plain"]
    found = {}
    for allowed in (False, True):
        passes = [spec + "=tf32=true" * (allowed and spec == "sx-to-gpu") for spec in PIPELINES["cuda"]]
        monkeypatch.setitem(PIPELINES, "cuda", tuple(passes))
        plans = plans_of(dtype, shapes, build)
        (graph,) = graphs_of(plans, ProductGraph)
        assert graph.tf32 == (allowed and dtype == "f32")
        driver = SimDriver(Checks())
        opened = CublasLt(
            StandInLt(lt, types, driver).bindings(cublas), HANDLE, "13.1.0", STREAM, Workspace(driver.allocate, 1 << 20)
        )
        libraries = everything(Source("cublasLt 13.1.0", opened.ways), Choices())
        libraries.chosen = {graph: next(iter(opened.ways(graph)))}
        (found[allowed],) = ran(plans, operands(plans), libraries, driver)
    apart = np.abs(found[True] - found[False]).max() / np.abs(found[False]).max()
    assert (2**-14 < apart < 2**-9) == (dtype == "f32")


@pytest.mark.parametrize("name", UNSUITED)
def test_what_is_no_epilogue_has_no_record(name: str) -> None:
    shapes, build = UNSUITED[name]
    plans = plans_of("f32", shapes, build)
    assert len([step for step in plans.plans["f"].steps if step.op == "product"]) == 1
    assert graphs_of(plans, ProductGraph) == []


def test_casts_that_change_numbers_are_not_left_out() -> None:
    def narrowed(b: Builder, v: list[Val]) -> list[Val]:
        return [b("matmul", b("cast", v[0], dtype="bf16"), v[1])]

    def widened(b: Builder, v: list[Val]) -> list[Val]:
        return [b("cast", matmul(b, v), dtype="f32")]

    x, y = parse_type(f"f32{X}"), parse_type(f"bf16{Y}")
    assert graphs_of(compiled([x, y], narrowed), ProductGraph) == []
    (graph,) = graphs_of(compiled([parse_type(f"bf16{X}"), y], widened), ProductGraph)
    d = part_of(graph, "d")
    assert d is not None
    assert d.type.dtype == "f32"


def test_a_bias_of_another_dtype_has_no_record() -> None:
    def build(b: Builder, v: list[Val]) -> list[Val]:
        y = matmul(b, v)
        return [b("add", y, b("cast", like(b, v[2], y), dtype="bf16"))]

    types = [parse_type(f"bf16{X}"), parse_type(f"bf16{Y}"), parse_type(f"f32{BIAS}")]
    assert graphs_of(compiled(types, build), ProductGraph) == []


def test_a_product_that_takes_no_longer_than_a_launch_has_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    sizes = {"small": ["[64, 64]", "[64, 64]"], "large": ["[2048, 2048]", "[2048, 2048]"]}
    found = {name: graphs_of(plans_of("bf16", shapes, lambda b, v: [matmul(b, v)]), ProductGraph)
             for name, shapes in sizes.items()}  # fmt: skip
    assert [name for name, graphs in found.items() if graphs] == ["large"]


def test_alignment_is_what_every_matrix_has() -> None:
    shapes, build, _ = SUITING["part of a matrix"]
    (graph,) = graphs_of(plans_of("f32", shapes, build), ProductGraph)
    assert described(graph).b.alignment == 16
    odd = plans_of("f32", ["[12, 33]", "[20, 24]"], lambda b, v: of_part(b, v))
    (graph,) = graphs_of(odd, ProductGraph)
    assert (described(graph).b.pitch, described(graph).b.alignment) == (33, 4)


def test_what_no_algorithm_computes_is_refused() -> None:
    lt, cublas = (pytest.importorskip(f"nvmath.bindings.{each}") for each in ("cublasLt", "cublas"))
    types: Any = pytest.importorskip("nvmath").CudaDataType
    shapes, build, _ = SUITING["plain"]
    driver = SimDriver(Checks())
    stand_in = StandInLt(lt, types, driver, algorithms=0)
    opened = CublasLt(stand_in.bindings(cublas), HANDLE, "13.1.0", STREAM, Workspace(driver.allocate, 1 << 20))
    (graph,) = graphs_of(plans_of("f32", shapes, build), ProductGraph)
    assert opened.ways(graph) == "no algorithm computes it"
