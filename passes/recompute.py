"""recompute: what `(checkpoint ...)` marked is computed again where the backward pass reads it, instead of being kept.

    %a = sx.exp %x {sx.checkpoint = 1}                 %a = sx.exp %x
    ...                                                ...
    %g = sx.mul %c, %a {sx.backward}             =>    %b = sx.exp %x {sx.recompute = 1}
                                                       %g = sx.mul %c, %b

A region's values that later forward operations read stay as they are; the clones stand before the first gradient
operation that reads one of them (Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost). Runs after
autodiff, which says what is backward; without this pass the marks cost memory and change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mlir import ir

from sexpgpu.dialects.context import Context
from sexpgpu.passes.base import Pass, functions

REGION, CLONE, BACKWARD = "sx.checkpoint", "sx.recompute", "sx.backward"


@dataclass(frozen=True)
class Recompute(Pass):
    """Clones every marked region for its gradients."""

    name: ClassVar[str] = "recompute"

    def run(self, module: Any, context: Context) -> None:
        for func in functions(module):
            ops = [op.operation for op in func.regions[0].blocks[0].operations]
            regions: dict[int, list[Any]] = {}
            for op in ops:
                if REGION in op.attributes:
                    regions.setdefault(ir.IntegerAttr(op.attributes[REGION]).value, []).append(op)
            order = {op: i for i, op in enumerate(ops)}
            for number in sorted(regions, reverse=True):
                _recompute(regions[number], order)
            for op in ops:
                for mark in (REGION, BACKWARD):
                    if mark in op.attributes:
                        del op.attributes[mark]


def _recompute(region: list[Any], order: dict[Any, int]) -> None:
    inside = set(region)
    readers: dict[Any, list[Any]] = {}
    for op in region:
        for result in op.results:
            users = [use.owner.operation for use in result.uses]
            if not any(user not in inside and BACKWARD not in user.attributes for user in users):
                readers[result] = [user for user in users if BACKWARD in user.attributes]
    wanted = {value for value, users in readers.items() if users}
    if not wanted:
        return
    needed = set(wanted)
    clones = []
    for op in reversed(region):
        if any(result in needed for result in op.results):
            clones.append(op)
            needed.update(v for v in op.operands if v in readers)
    first = min((user for value in wanted for user in readers[value]), key=lambda op: order[op])
    values: dict[Any, Any] = {}
    ip = ir.InsertionPoint(first)
    for op in reversed(clones):
        clone = op.clone(ip)
        clone.attributes[CLONE] = clone.attributes[REGION]
        del clone.attributes[REGION]
        for i, operand in enumerate(op.operands):
            if operand in values:
                clone.operands[i] = values[operand]
        values.update(zip(op.results, clone.results, strict=True))
    for value in wanted:
        for user in readers[value]:
            for i, operand in enumerate(user.operands):
                if operand == value:
                    user.operands[i] = values[value]
