"""Convolutions as cuDNN has them: that records say what the kernels do, and what its frontend keeps of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.opdef import Array, parse_type
from sexpgpu.gpu.library.cudnn_graphs import Built, build_graph
from sexpgpu.plan.library import ConvolutionGraph
from sexpgpu.plan.records import DevicePlans
from tests.gpu.devices import compiled
from tests.gpu.libraries import both, graphs_of

Form = dict[str, tuple[int, ...]]
PLANE: Form = {"stride": (2, 1), "low": (1, 0), "high": (2, 1), "dilation": (1, 2)}
LINE: Form = {"stride": (2,), "low": (0,), "high": (3,), "dilation": (2,)}
CASES: dict[str, tuple[str, str, Form, int]] = {
    "plane": ("[2, 6, 9, 8]", "[4, 6, 3, 2]", PLANE, 1),
    "plane in groups": ("[2, 6, 9, 8]", "[8, 3, 3, 2]", PLANE, 2),
    "line": ("[3, 4, 11]", "[5, 4, 3]", LINE, 1),
}
SIDES = ("result", "operand", "kernel")


@pytest.fixture(autouse=True)
def small_products_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexpgpu.passes.gpu.library_product.LAUNCH", 0)


def counts(x: tuple[int, ...], w: tuple[int, ...], form: Form) -> tuple[int, ...]:
    spans = zip(x[2:], w[2:], form["stride"], form["low"], form["high"], form["dilation"], strict=True)
    return tuple([(n + a + z - d * (k - 1) - 1) // s + 1 for n, k, s, a, z, d in spans])


def plans_of(name: str, side: str, dtype: str) -> DevicePlans:
    x, w, form, groups = CASES[name]
    x_type, w_type = parse_type(dtype + x), parse_type(dtype + w)
    y = (x_type.shape[0], w_type.shape[0], *counts(x_type.shape, w_type.shape, form))
    y_type = parse_type(f"{dtype}[{', '.join(map(str, y))}]")

    def build(b: Builder, v: list[Val]) -> Sequence[Val]:
        match side:
            case "result":
                return [b("conv", *v, groups=groups, **form)]
            case "operand":
                return [b("conv_input_grad", *v, size=x_type.shape[2:], groups=groups, **form)]
            case _:
                return [b("conv_weight_grad", *v, kernel=w_type.shape[2:], groups=groups, **form)]

    types = {"result": [x_type, w_type], "operand": [y_type, w_type], "kernel": [x_type, y_type]}
    return compiled(types[side], build)


def operands(plans: DevicePlans) -> list[Array]:
    rng = np.random.default_rng(3)
    types = [each.type for each in plans.plans["f"].spec.inputs]
    drawn = [rng.standard_normal(type.shape, np.float32) for type in types]
    return [round_bf16(x) if type.dtype == "bf16" else x for x, type in zip(drawn, types, strict=True)]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", CASES)
def test_a_record_gives_what_the_kernels_give(name: str, side: str, dtype: str) -> None:
    plans = plans_of(name, side, dtype)
    wanted, found, calls = both(plans, operands(plans))
    assert calls == [{"result": "conv", "operand": "conv_input_grad", "kernel": "conv_weight_grad"}[side]]
    bound = 1e-5 if dtype == "f32" else 2**-7
    np.testing.assert_allclose(found[0], wanted[0], rtol=bound, atol=bound * np.abs(wanted[0]).max())


def kept(built: Built, graph: ConvolutionGraph) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
    """The parameters of the convolution in a graph of cuDNN's frontend, and the axes of its tensors by our parts."""
    (node,) = built.graph.nodes
    by_number = {tensor.uid: tensor for tensor in (*node.inputs.values(), *node.outputs.values())}
    parts = {each.role: by_number[number] for each, number in zip(graph.tensors, built.numbers, strict=True)}
    return dict(node.params), {role: tuple(tensor.dim) for role, tensor in parts.items()}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", CASES)
def test_windows_of_cudnn_are_ours(name: str, side: str) -> None:
    """By the frontend's own parameters, as cuDNN's documentation counts windows: as many as y has places."""
    cudnn = pytest.importorskip("cudnn")
    (graph,) = graphs_of(plans_of(name, side, "f32"), ConvolutionGraph)
    params, shapes = kept(build_graph(cudnn, graph, sm_version=90, sm_count=132), graph)
    form = {ours: tuple(params[theirs]) for ours, theirs in (
        ("stride", "stride"), ("low", "pre_padding"), ("high", "post_padding"), ("dilation", "dilation"))}  # fmt: skip
    assert shapes["y"][2:] == counts(shapes["x"], shapes["w"], form)
    assert [len(shape) for shape in shapes.values()] == [4, 4, 4]
    lines = shapes["x"][1] // shapes["w"][1]
    assert lines == CASES[name][3], "cuDNN tells groups from the channels"


@pytest.mark.parametrize("name", CASES)
def test_the_frontend_infers_the_same_result(name: str) -> None:
    cudnn = pytest.importorskip("cudnn")
    (graph,) = graphs_of(plans_of(name, "result", "bf16"), ConvolutionGraph)
    wanted = next(each.type.shape for each in graph.tensors if each.role == "y")
    plain = cudnn.pygraph(io_data_type=cudnn.data_type.BFLOAT16)
    params, shapes = kept(build_graph(cudnn, graph), graph)
    x, w = (plain.tensor(dim=list(shapes[role]), stride=[1] * 4) for role in ("x", "w"))
    kinds = ("pre_padding", "post_padding", "stride", "dilation")
    y = plain.conv_fprop(image=x, weight=w, **{kind: params[kind] for kind in kinds})
    assert [n for n in y.dim if n > 1] == [n for n in wanted if n > 1]


def test_f32_takes_tensor_cores_only_where_tf32_is_allowed() -> None:
    cudnn = pytest.importorskip("cudnn")
    from sexpgpu.gpu.library.cudnn import Cudnn
    from sexpgpu.gpu.library.workspace import Workspace

    opened = Cudnn(cudnn, None, "9.13.0", Workspace(lambda size: 0, 0))
    notes = cudnn.numerical_note
    for dtype, tf32, tensor_cores in (("f32", False, False), ("f32", True, True), ("bf16", False, True)):
        (graph,) = graphs_of(plans_of("plane", "result", dtype), ConvolutionGraph)
        graph = evolve(graph, tf32=tf32)
        deselected = opened._deselected(graph)
        assert (notes.TENSOR_CORE not in deselected) == tensor_cores
        assert notes.NONDETERMINISTIC in deselected
