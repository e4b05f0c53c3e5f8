"""The attribute that says a graph of a library gives the same record back."""

from __future__ import annotations

import pytest
from mlir import ir

from sexpgpu.dialects.context import open_context
from sexpgpu.passes.gpu.library_annotation import decode_library, encode_library
from sexpgpu.plan.library import AttentionGraph, ConvolutionGraph, Library, LibraryTensor, ProductGraph
from sexpgpu.tensortype import TensorType

TENSORS = (
    LibraryTensor("x", 0, TensorType((2, 3), "bf16"), (7, 1), 5),
    LibraryTensor("lse", 3, TensorType((), "f32"), ()),
)
GRAPHS: list[Library] = [
    AttentionGraph(TENSORS, 0.1, True, False),
    AttentionGraph(TENSORS, 0.1, False, True),
    ProductGraph(TENSORS, -1.5, "gelu_slope", True),
    ConvolutionGraph(TENSORS, "kernel", (1, 2), (0, 3), (4, 5), (6, 7), False),
]


@pytest.mark.parametrize("graph", GRAPHS, ids=range(len(GRAPHS)))
def test_round_trip(graph: Library) -> None:
    with open_context() as context:
        said = ir.Attribute.parse(str(encode_library(graph, context.mlir)), context.mlir)
        assert decode_library(ir.DictAttr(said)) == graph
