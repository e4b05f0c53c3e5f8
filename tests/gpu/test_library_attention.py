"""Attention as cuDNN has it: what is said of a step, that it is right, and that cuDNN's frontend takes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.gpu.library.cudnn import Cudnn
from sexpgpu.gpu.library.cudnn_graphs import build_graph
from sexpgpu.gpu.library.workspace import Workspace
from sexpgpu.plan.library import AttentionGraph
from sexpgpu.plan.records import DevicePlans
from sexpgpu.tensortype import DType, TensorType
from tests.gpu.devices import compiled, type_of
from tests.gpu.libraries import both, graphs_of

BATCH, HEADS, ROWS, LENGTH = 2, 3, 24, 16
WIDTH = HEADS * LENGTH
FORM: dict[str, Any] = {"scale": 1 / math.sqrt(LENGTH), "causal": True, "window": 0, "rounded": True}
PACKED = type_of((BATCH, ROWS, 3 * WIDTH), "bf16")
OUTER = type_of((BATCH, HEADS, ROWS, LENGTH), "bf16")
LINES = type_of((BATCH, HEADS, ROWS))


def heads(b: Builder, x: Val, part: int) -> Val:
    """One of q, k and v of a packed tensor, as a view."""
    cut = b("slice", x, start=(0, 0, part * WIDTH), stop=(BATCH, ROWS, (part + 1) * WIDTH), step=(1, 1, 1))
    return b("transpose", b("reshape", cut, shape=(BATCH, ROWS, HEADS, LENGTH)), perm=(0, 2, 1, 3))


def both_passes(b: Builder, values: list[Val]) -> Sequence[Val]:
    """y, lse, dq, dk and dv of packed q, k and v and the cotangent of y."""
    packed, g = values
    operands = [heads(b, packed, part) for part in range(3)]
    y, lse = b.several("attention", *operands, **FORM)
    zero = b.constant(0.0, LINES)
    return [y, lse, *b.several("attention_grad", g, zero, *operands, y, lse, **FORM)]


def plans() -> DevicePlans:
    return compiled([PACKED, OUTER], both_passes)


def one(
    shape: tuple[int, ...] = (1, 2, 16, 16), dtype: DType = "bf16", *, backward: bool = False, **changed: Any
) -> list[AttentionGraph]:
    """What is said of an attention whose operands are the arguments of its graph."""
    form = {**FORM, "rounded": dtype == "bf16", **changed}
    outer, lines = type_of(shape, dtype), type_of(shape[:3])
    if not backward:
        return graphs_of(compiled([outer] * 3, lambda b, v: list(b.several("attention", *v, **form))), AttentionGraph)
    types = [outer, lines, outer, outer, outer, outer, lines]
    return graphs_of(compiled(types, lambda b, v: list(b.several("attention_grad", *v, **form))), AttentionGraph)


def test_a_library_that_follows_the_record_gives_what_the_kernels_give() -> None:
    rng = np.random.default_rng(8)
    arrays = [round_bf16(rng.standard_normal(type.shape, np.float32)) for type in (PACKED, OUTER)]
    wanted, found, calls = both(plans(), arrays)
    assert calls == ["attention", "attention_grad"]
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2**-5, atol=2**-5 * np.abs(want).max())


def test_what_suits() -> None:
    (forward,) = one()
    assert [each.role for each in forward.tensors] == ["q", "k", "v", "y", "lse"]
    assert forward.tensors[3].strides == (16 * 2 * 16, 16, 2 * 16, 1), "rows before heads, as what comes next reads it"
    assert one(dtype="f32") == []
    assert one((1, 2, 16, 12)) == []
    assert one((1, 2, 16, 136)) == []
    assert one(window=4) == []
    assert one(backward=True) == [], "the cotangent of lse is an argument"


def test_cudnn_takes_the_graphs() -> None:
    cudnn = pytest.importorskip("cudnn")
    for library in graphs_of(plans(), AttentionGraph):
        built = build_graph(cudnn, library, sm_version=90, sm_count=132)
        built.graph.validate()
        built.graph.build_operation_graph()
        assert len(built.numbers) == len(library.tensors)


def test_cudnn_refuses_what_does_not_suit() -> None:
    """Else the test above would say nothing."""
    cudnn = pytest.importorskip("cudnn")
    (library,) = one()
    odd = [evolve(each, type=TensorType((1, 2, 16, 15), "bf16")) for each in library.tensors[:-1]]
    graph = build_graph(cudnn, evolve(library, tensors=(*odd, library.tensors[-1])), sm_version=90, sm_count=132).graph
    with pytest.raises(cudnn.cudnnGraphNotSupportedError, match="multiple of 8"):
        graph.validate()


def test_cudnn_says_why_it_refuses() -> None:
    class Refused(Exception):
        pass

    def refuse(**properties: Any) -> Any:
        raise Refused("no engine")

    types = SimpleNamespace(BFLOAT16=0, FLOAT=1)
    module = SimpleNamespace(pygraph=refuse, data_type=types, cudnnGraphNotSupportedError=Refused)
    (library,) = one()
    assert Cudnn(module, None, "9", Workspace(lambda size: 0, 0)).ways(library) == "no engine"
