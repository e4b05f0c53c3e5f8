"""A context for the tests of the dialect, operands drawn for a sample, and graphs evaluated op by op."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from attrs import frozen
from mlir import ir
from numpy.typing import NDArray

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context, open_context
from sexpgpu.dialects.opdef import OpDef, Sample, numpy_dtype
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import attrs_of, check_op, op_name
from sexpgpu.tensortype import TensorType

Array = NDArray[Any]


@pytest.fixture(scope="session")
def context() -> Iterator[Context]:
    with open_context() as opened:
        yield opened


@frozen
class Graph:
    """A function built with the Builder and its evaluation by `OpDef.numpy`, one operation after the
    other.
    """

    module: ir.Module
    block: ir.Block
    results: list[Val | None]

    def evaluate(self, inputs: Sequence[Array]) -> list[Array | None]:
        values: dict[ir.Value, Array] = dict(zip(self.block.arguments, inputs, strict=True))
        for op in self.block.operations:
            if op_name(op) == "func.return":
                break
            assert check_op(op) is None
            found = OPS[op_name(op)].numpy(*[values[v] for v in op.operands], **attrs_of(op))
            values.update(zip(op.results, found if isinstance(found, tuple) else (found,), strict=True))
        return [None if result is None else values[result.value] for result in self.results]


Build = Callable[..., Sequence[Val | None]]


@pytest.fixture
def graph(context: Context) -> Callable[[Sequence[TensorType], Build], Graph]:
    """graph(types, build): `build(b, *arguments)` fills the function and gives what it computes."""

    def make(types: Sequence[TensorType], build: Build) -> Graph:
        arguments = ", ".join(f"%{i}: {context.type(type)}" for i, type in enumerate(types))
        module = context.parse_module(f"func.func @graph({arguments}) {{ return }}", "graph.mlir")
        block = module.body.operations[0].regions[0].blocks[0]
        b = Builder(context, ir.InsertionPoint.at_block_terminator(block))
        results = build(b, *(Val(b, value, type) for value, type in zip(block.arguments, types, strict=True)))
        return Graph(module, block, list(results))

    return make


@pytest.fixture
def draw() -> Callable[[OpDef, Sample], list[Array]]:
    """Operands for a sample, always the same ones."""

    def operands(op: OpDef, sample: Sample) -> list[Array]:
        rng = np.random.default_rng(20)
        return [_draw(rng, name, t, sample) for name, t in zip(op.operands, sample.types, strict=True)]

    return operands


def _draw(rng: np.random.Generator, name: str, type: TensorType, sample: Sample) -> Array:
    dtype = numpy_dtype(type.dtype)
    low, high = sample.domain
    drawn: Array
    if name in ("indices", "labels"):
        drawn = rng.integers(0, sample.below, type.shape)
    elif name == "counter":
        drawn = rng.integers(0, 5, type.shape)
    elif type.dtype == "bool":
        drawn = rng.integers(0, 2, type.shape)
    elif type.is_float:
        drawn = rng.uniform(low, high, type.shape)
    else:
        drawn = rng.integers(0 if type.dtype == "u8" else round(low), round(high) + 1, type.shape)
    array = np.asarray(drawn).astype(dtype)
    return round_bf16(array) if type.dtype == "bf16" else array
