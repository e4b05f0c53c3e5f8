"""autodiff: reverse mode over every function that has a result marked `sx.loss`.

    func @train(%w {sx.param}, %x {sx.field}) -> (%loss {sx.loss})
    =>
    func @train(%w {sx.param}, %x {sx.field}) -> (%loss {sx.loss}, %dw {sx.grad = "w"})

One gradient is appended for each trained parameter, in argument order. Only operations on a path from a trained
parameter to the loss get a cotangent; what a derivative rule computes beyond that is dead and `simplify` removes it.
Derivative operations carry the location of the operation they come from (`dialects/reverse.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mlir import ir

from sexpgpu.diag import error
from sexpgpu.dialects.builder import Builder
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.locations import span_of
from sexpgpu.dialects.reverse import cotangents
from sexpgpu.dialects.signature import output_roles, read_inputs, read_outputs, type_of, write_signature
from sexpgpu.experiment import Input, Output
from sexpgpu.passes.base import Pass, functions


@dataclass(frozen=True)
class Autodiff(Pass):
    """Appends the gradients of the loss to every function that has one; leaves the others alone."""

    name: ClassVar[str] = "autodiff"

    def run(self, module: Any, context: Context) -> None:
        for func in functions(module):
            roles = output_roles(func)
            if "loss" in roles and "grad" not in roles:
                _differentiate(func, read_inputs(func), read_outputs(func), context)
            _drop_gradient_stops(func)


def _differentiate(func: Any, inputs: list[Input], outputs: list[Output], context: Context) -> None:
    block = func.regions[0].blocks[0]
    ops = [op.operation for op in block.operations]
    terminator = ops.pop()
    loss = terminator.operands[[o.role for o in outputs].index("loss")]
    loss_type = type_of(loss)
    if loss_type.shape or not loss_type.is_float:
        raise error(
            "E-SHAPE-020",
            "the loss is not a scalar",
            span_of(terminator.location),
            expected="f32[]",
            actual=str(loss_type),
        )
    trained = [
        (given, argument)
        for given, argument in zip(inputs, block.arguments, strict=True)
        if given.role == "param" and not given.frozen
    ]
    builder = Builder(context, ir.InsertionPoint(terminator), terminator.location)
    one = builder.constant(1, loss_type)
    found = cotangents(builder, ops, {loss: one}, [argument for _, argument in trained])
    builder.location = terminator.location
    grads = [found.get(argument) or builder.constant(0, given.type) for given, argument in trained]
    returned = [*terminator.operands, *(g.value for g in grads)]
    ir.Operation.create("func.return", operands=returned, loc=terminator.location, ip=ir.InsertionPoint(terminator))
    terminator.erase()
    write_signature(func, inputs, outputs + [Output("grad", given.name, given.type) for given, _ in trained])


def _drop_gradient_stops(func: Any) -> None:
    """A gradient stop is the identity once its function has been differentiated."""
    for op in list(func.regions[0].blocks[0].operations):
        if op.operation.name == "sx.stop_gradient":
            op.operation.results[0].replace_all_uses_with(op.operation.operands[0])
            op.operation.erase()
