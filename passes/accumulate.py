"""accumulate: a product that feeds nothing but a gradient writes f32, as it has summed.

    %g = sx.matmul %a, %b : bf16
    %h = sx.cast %g : f32               =>    %h = sx.matmul_wide %a, %b : f32
    return %h {sx.grad = "w"}

Rounding a gradient to bf16 between the product and the f32 accumulator would lose what the product knows. Movements
between the product and the cast become f32 movements. Runs after autodiff.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.loops import CALL
from sexpgpu.dialects.opdef import Contract, Move, Window
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import attrs_of, op_name
from sexpgpu.dialects.signature import output_roles, type_of
from sexpgpu.passes.base import Pass, graphs


@dataclass(frozen=True)
class Accumulate(Pass):
    """Widens the products of gradients in every function that gives some."""

    name: ClassVar[str] = "accumulate"

    def run(self, module: Any, context: Context) -> None:
        for func in graphs(module):
            roles = output_roles(func)
            if "grad" in roles:
                ops = [op.operation for op in func.regions[0].blocks[0].operations]
                feeding = _feeding(ops, roles)
                for op in ops[:-1]:
                    if op.name == "sx.cast" and op.results[0] in feeding and type_of(op.operands[0]).dtype == "bf16":
                        _widen(op, context)


def _feeding(ops: list[Any], roles: Sequence[str]) -> set[Any]:
    """Values whose every reader adds or moves them into a gradient."""
    terminator = ops[-1]
    feeding = {v for v, role in zip(terminator.operands, roles, strict=True) if role == "grad"}
    for op in reversed(ops[:-1]):
        if op.name != CALL and op.results[0] in feeding:
            record = OPS[op_name(op)]
            if record.name == "add" or isinstance(record.kind, Move):
                feeding.update(v for v in op.operands if sum(1 for _ in v.uses) == 1)
    return feeding


def _widen(cast: Any, context: Context) -> None:
    moves: list[Any] = []
    value = cast.operands[0]
    while True:
        if isinstance(value.owner, ir.Block) or sum(1 for _ in value.uses) != 1 or value.owner.operation.name == CALL:
            return
        op = value.owner.operation
        kind = OPS[op_name(op)].kind
        if not isinstance(kind, Move):
            break
        moves.append(op)
        value = op.operands[0]
    if not isinstance(kind, Contract | Window) or kind.wide is None:
        return
    builder = Builder(context, ir.InsertionPoint(op), op.location)
    wide = builder(kind.wide, *(Val(builder, v, type_of(v)) for v in op.operands), **attrs_of(op))
    value.replace_all_uses_with(wide.value)
    op.erase()
    for move in reversed(moves):
        inferred = OPS[op_name(move)].infer(*[type_of(v) for v in move.operands], **attrs_of(move))
        move.results[0].set_type(context.type(inferred))
    if cast.results[0].type == cast.operands[0].type:  # else it widens further, from f32 to f64
        cast.results[0].replace_all_uses_with(cast.operands[0])
        cast.erase()
