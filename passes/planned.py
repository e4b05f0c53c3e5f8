"""The plan of a function as the module says it, after `plan-memory` or without."""

from __future__ import annotations

from typing import Any

from mlir import ir

from sexpgpu.dialects.signature import read_graph
from sexpgpu.passes.flow import operations_of, read_flow
from sexpgpu.passes.plan_memory import ARENA, LIVE, OFFSETS, PEAK, TARGET
from sexpgpu.plan.allocation import SIZES, Allocation, Sizes, homes_of, sharing
from sexpgpu.plan.build import build, has_workspace, workspace_of
from sexpgpu.plan.dataflow import Dataflow
from sexpgpu.plan.records import At, GraphPlan, Memory


def plan_of(func: Any, found: tuple[Dataflow, Allocation] | None = None) -> GraphPlan:
    """The plan of a `func.func`: in an arena where the module gives offsets, else each value in memory of its own.

    `found` is what `plan-memory` has just read and laid out, where it has: the same as the module says.
    """
    spec = read_graph(func)
    sizes = SIZES[ir.StringAttr(func.attributes[TARGET]).value if TARGET in func.attributes else "cpu"]
    if found is not None:
        return build(spec, *found, sizes)
    flow = read_flow(func)
    return build(spec, flow, _read(func, flow, sizes) if ARENA in func.attributes else None, sizes)


def _read(func: Any, flow: Dataflow, sizes: Sizes) -> Allocation:
    homes = homes_of(flow, sharing(flow))
    workspaces = []
    for node, op in zip(flow.nodes, operations_of(func), strict=False):
        offsets = list(ir.DenseI64ArrayAttr(op.attributes[OFFSETS])) if OFFSETS in op.attributes else []
        for value, offset in zip(node.outs, offsets, strict=False):
            if offset >= 0:
                homes[value] = At(offset)
        workspaces.append((offsets[-1], workspace_of(node, sizes)) if has_workspace(node) and offsets else (0, 0))
    arena, live, peak = (ir.IntegerAttr(func.attributes[name]).value for name in (ARENA, LIVE, PEAK))
    return Allocation(tuple(homes), tuple(workspaces), Memory(arena, live, peak))
