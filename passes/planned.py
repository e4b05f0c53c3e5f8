"""The plan of a function as the module says it, after `plan-memory` or without."""

from __future__ import annotations

from typing import Any

from mlir import ir

from sexpgpu.dialects.signature import read_graph
from sexpgpu.passes.flow import operations_of, read_flow
from sexpgpu.passes.plan_memory import ARENA, LIVE, OFFSETS, PEAK
from sexpgpu.plan.allocation import Allocation, homes_of, sharing
from sexpgpu.plan.build import build, workspace_of
from sexpgpu.plan.dataflow import Dataflow
from sexpgpu.plan.records import At, GraphPlan, Memory


def plan_of(func: Any) -> GraphPlan:
    """The plan of a `func.func`: in an arena where the module gives offsets, else each value in memory of its own."""
    flow = read_flow(func)
    allocation = _read(func, flow) if ARENA in func.attributes else None
    return build(read_graph(func), flow, allocation)


def _read(func: Any, flow: Dataflow) -> Allocation:
    homes = homes_of(flow, sharing(flow))
    workspaces = []
    for node, op in zip(flow.nodes, operations_of(func), strict=False):
        offsets = list(ir.DenseI64ArrayAttr(op.attributes[OFFSETS])) if OFFSETS in op.attributes else []
        for value, offset in zip(node.outs, offsets, strict=False):
            if offset >= 0:
                homes[value] = At(offset)
        workspaces.append((offsets[-1], workspace_of(node)) if node.bodies and offsets else (0, 0))
    arena, live, peak = (ir.IntegerAttr(func.attributes[name]).value for name in (ARENA, LIVE, PEAK))
    return Allocation(tuple(homes), tuple(workspaces), Memory(arena, live, peak))
