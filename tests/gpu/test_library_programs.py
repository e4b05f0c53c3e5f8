"""What is said for libraries of whole programs at their full shapes: each group that is only what one computes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

from sexpgpu.dialects.groups import group_of
from sexpgpu.dialects.opdef import Composite, Contract, Kind, Move, Pointwise, Window
from sexpgpu.dialects.read import definition_of
from sexpgpu.dialects.signature import type_of
from sexpgpu.driver.compile import compiling
from sexpgpu.driver.pipeline import Passes, steps_of
from sexpgpu.gpu.library.cublaslt_layout import described
from sexpgpu.lang.selection import Selection
from sexpgpu.passes.base import graphs
from sexpgpu.passes.flow import operations_of
from sexpgpu.passes.gpu.annotation import read_launches
from sexpgpu.plan.library import AttentionGraph, ConvolutionGraph, Library, ProductGraph, part_of
from sexpgpu.tensortype import TensorType

BENCH = Path(__file__).resolve().parents[2] / "bench" / "gpu"
KERNELS = next(step.number for step in steps_of("shared+cuda") if step.name == "to-gpu")


@frozen
class Said:
    """A call of kernels: kinds of operations, types of operands and results, and what is said for libraries."""

    kinds: tuple[Kind, ...]
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    library: Library | None


def said(name: str) -> Iterator[Said]:
    with compiling(BENCH / name, Selection(), pipeline="shared+cuda", passes=Passes(until=KERNELS)) as done:
        for op in (op for func in graphs(done.module) for op in operations_of(func)):
            group = group_of(op)
            launches = read_launches(group[1]) if group is not None else None
            if group is not None and launches is not None:
                records = [definition_of(inner) for inner in operations_of(group[1])[:-1]]
                kinds = tuple([record.kind for record in records if record is not None])
                operands, results = (tuple(map(type_of, values)) for values in (op.operands, op.results))
                yield Said(kinds, operands, results, launches.library)


def is_plain(kind: Kind) -> bool:
    """What a product and its epilogue without a function may have beside the product."""
    match kind:
        case Contract() | Move(form="reshape" | "same"):
            return True
        case Pointwise(scalar=scalar):
            return scalar in ("cast", "add")
        case _:
            return False


def is_attention(kind: Kind) -> bool:
    return isinstance(kind, Composite) and kind.family == "attention"


def test_attention_and_products_of_a_gpt() -> None:
    found = list(said("gpt.sx"))
    attention = [each for each in found if any(is_attention(kind) for kind in each.kinds)]
    assert attention
    assert all(isinstance(each.library, AttentionGraph) for each in attention)
    products = [each for each in found if any(isinstance(kind, Contract) for kind in each.kinds)]
    graphs_of_products = [each.library for each in products if isinstance(each.library, ProductGraph)]
    assert len(graphs_of_products) > len(products) / 2
    for each in products:
        if isinstance(each.library, ProductGraph):
            told = described(each.library)
            d = part_of(each.library, "d")
            assert d is not None
            assert d.type.size in [type.size for type in each.results]
            assert math.prod((told.d.rows, told.d.columns, told.d.batch)) == d.type.size
        elif len(each.results) == 1 and all(map(is_plain, each.kinds)):
            # What is added has another dtype than the result, or the factors are made in the group.
            assert len({type.dtype for type in (*each.operands, *each.results)}) > 1, each


@pytest.mark.parametrize("side", ["result", "operand", "kernel"])
def test_every_convolution_is_said(side: str) -> None:
    found = [(each, kind) for each in said("conv.sx") for kind in each.kinds if isinstance(kind, Window)]
    mine = [each for each, kind in found if kind.combine == "dot" and kind.side == side]
    assert mine
    large = [each for each in mine if max(type.size for type in (*each.operands, *each.results)) > 1 << 20]
    assert large
    for each in large:
        assert isinstance(each.library, ConvolutionGraph)
        assert each.library.side == side
