"""schedule: the operations of a graph in an order that keeps less alive at once.

    %a = sx.exp %x          %a = sx.exp %x
    %b = sx.exp %y    =>    %s = sx.sum %a
    %s = sx.sum %a          %b = sx.exp %y
    %t = sx.sum %b          %t = sx.sum %b

List scheduling by the bytes that an operation makes less those that it frees; where that is no better than the order
as it was written, the order stays. Deterministic. What `recompute` cloned never moves before the operation that it was
put behind: its values exist to be made late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mlir import ir

from sexpgpu.dialects.context import Context
from sexpgpu.dialects.groups import group_of
from sexpgpu.dialects.loops import module_of
from sexpgpu.passes.base import Pass, graphs
from sexpgpu.passes.flow import operations_of, read_flow
from sexpgpu.passes.recomputing.marks import CLONE
from sexpgpu.plan.order import better_order


@dataclass(frozen=True)
class Schedule(Pass):
    """Reorders every graph that reads something."""

    name: ClassVar[str] = "schedule"

    def run(self, module: Any, context: Context) -> str:
        moved = 0
        for func in graphs(module):
            if len(func.regions[0].blocks[0].arguments):
                moved += _schedule(func)
        return f"{moved} graph{'s' * (moved > 1)} in another order" if moved else ""


def _schedule(func: Any) -> bool:
    flow = read_flow(func, bodies=False)
    ops = operations_of(func)
    order = better_order(flow, _behind(ops[:-1], ir.SymbolTable(module_of(func))))
    if order == list(range(len(order))):
        return False
    for number in order:
        ops[number].move_before(ops[-1])
    return True


def _behind(ops: list[Any], symbols: ir.SymbolTable) -> dict[int, int]:
    """For each clone the last operation before it that is none."""
    behind = {}
    before = None
    for number, op in enumerate(ops):
        if not _is_clone(op, symbols):
            before = number
        elif before is not None:
            behind[number] = before
    return behind


def _is_clone(op: Any, symbols: ir.SymbolTable) -> bool:
    grouped = group_of(op, symbols)
    return CLONE in op.attributes if grouped is None else any(CLONE in o.attributes for o in operations_of(grouped[1]))
