"""plan-memory: an offset in one arena for every value that a graph makes.

    %a = sx.exp %x                      %a = sx.exp %x {sx.at = array<i64: 0>}
    %b = sx.neg %a               =>     %b = sx.neg %a {sx.at = array<i64: 0>}
    %c = sx.add %b, %a0                 %c = sx.add %b, %a0 {sx.at = array<i64: 4096>}

A value lives from the operation that makes it to its last reader, views included. A result may be written over an
operand that dies there, where the operation allows it. Arguments, constants, views and results of the graph have no
offset (-1); an operation with a body has one more number, where its workspace begins. The function says what the
arena takes (`sx.arena`), the live set's peak, below which no arena can be (`sx.live`), and the operation at that peak
(`sx.peak`). Without this pass every value has memory of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mlir import ir

from sexpgpu.diag import error
from sexpgpu.dialects.context import Context
from sexpgpu.passes.base import Pass, graphs
from sexpgpu.passes.flow import operations_of, read_flow
from sexpgpu.plan.allocation import SIZES, Allocation
from sexpgpu.plan.build import allocation_of, has_workspace
from sexpgpu.plan.dataflow import Dataflow
from sexpgpu.plan.records import At

OFFSETS, ARENA, LIVE, PEAK = "sx.at", "sx.arena", "sx.live", "sx.peak"
TARGET = "sx.target"
"""On a function whose values have the sizes that they have on a target other than the CPU."""


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Lays out an arena for every graph that reads something."""

    name: ClassVar[str] = "plan-memory"
    target: str = "cpu"

    def run(self, module: Any, context: Context) -> str:
        if self.target not in SIZES:
            raise error(
                "E-IR-011",
                f"`sx-plan-memory`: `{self.target}` is no value for `target`",
                expected=" or ".join(SIZES),
            )
        sizes = SIZES[self.target]
        largest = live = count = 0
        for func in graphs(module):
            if len(func.regions[0].blocks[0].arguments) == 0:
                continue  # an initializer runs once
            flow = read_flow(func)
            found = allocation_of(flow, sizes)
            _write(func, flow, found, context.mlir)
            if self.target != "cpu":
                func.attributes[TARGET] = ir.StringAttr.get(self.target, context=context.mlir)
            context.found[module, ir.StringAttr(func.attributes["sym_name"]).value] = flow, found
            assert found.memory is not None
            count += sum(isinstance(home, At) for home in found.homes)
            if found.memory.arena > largest:
                largest, live = found.memory.arena, found.memory.live
        return f"{count} values in arenas, the largest of {largest:,} bytes ({live:,} live at once)"


def _write(func: Any, flow: Dataflow, found: Allocation, mlir: Any) -> None:
    ops = operations_of(func)
    for node, workspace, op in zip(flow.nodes, found.workspaces, ops, strict=False):
        homes = [found.homes[value] for value in node.outs]
        offsets = [home.offset if isinstance(home, At) else -1 for home in homes]
        if has_workspace(node):
            offsets.append(workspace[0])
        if any(offset >= 0 for offset in offsets):
            op.attributes[OFFSETS] = ir.DenseI64ArrayAttr.get(offsets, context=mlir)
    assert found.memory is not None
    i64 = ir.IntegerType.get_signless(64, context=mlir)
    func.attributes[ARENA] = ir.IntegerAttr.get(i64, found.memory.arena)
    func.attributes[LIVE] = ir.IntegerAttr.get(i64, found.memory.live)
    func.attributes[PEAK] = ir.IntegerAttr.get(i64, found.memory.step)
