"""autodiff: reverse mode over every function that has a result marked `sx.loss`.

    func @train(%w {sx.param}, %x {sx.field}) -> (%loss {sx.loss})
    =>
    func @train(%w {sx.param}, %x {sx.field}) -> (%loss {sx.loss}, %dw {sx.grad = "w"})

One gradient is appended for each trained parameter, in argument order. Only operations on a path from a trained
parameter to the loss get a cotangent; what a derivative rule computes beyond that is dead and `simplify` removes it.
Derivative operations carry the location of the operation they come from. The rules are the `vjp` of the op table
(Griewank & Walther, Evaluating Derivatives, ch. 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mlir import ir

from sexpgpu.diag import error
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.locations import span_of
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import attrs_of, op_name
from sexpgpu.dialects.signature import read_inputs, read_outputs, type_of, write_signature
from sexpgpu.experiment import Input, Output
from sexpgpu.passes.base import Pass, functions


@dataclass(frozen=True)
class Autodiff(Pass):
    """Appends the gradients of the loss to every function that has one; leaves the others alone."""

    name: ClassVar[str] = "autodiff"

    def run(self, module: Any, context: Context) -> None:
        for func in functions(module):
            inputs, outputs = read_inputs(func), read_outputs(func)
            if any(o.role == "loss" for o in outputs) and not any(o.role == "grad" for o in outputs):
                _differentiate(func, inputs, outputs, context)
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
    cotangents = _sweep(builder, ops, loss, [argument for _, argument in trained])
    builder.location = terminator.location
    grads = [cotangents.get(argument) or builder.constant(0, given.type) for given, argument in trained]
    returned = [*terminator.operands, *(g.value for g in grads)]
    ir.Operation.create("func.return", operands=returned, loc=terminator.location, ip=ir.InsertionPoint(terminator))
    terminator.erase()
    write_signature(func, inputs, outputs + [Output("grad", given.name, given.type) for given, _ in trained])


def _sweep(builder: Builder, ops: list[Any], loss: Any, wrt: list[Any]) -> dict[Any, Val]:
    """Cotangents of the values on a path from `wrt` to `loss`, by value."""
    active = _active(ops, wrt)
    cotangents: dict[Any, Val] = {}
    if loss in active:
        cotangents[loss] = builder.constant(1, type_of(loss))
    for op in reversed(ops):
        results = list(op.results)
        received = [cotangents.get(r) for r in results]
        vjp = OPS[op_name(op)].vjp
        if vjp is None or not any(g is not None for g in received):
            continue
        builder.location = op.location
        outs = tuple(Val(builder, r, type_of(r)) for r in results)
        gs = tuple(g or builder.constant(0, out.type) for g, out in zip(received, outs, strict=True))
        operands = list(op.operands)
        ins = [Val(builder, v, type_of(v)) for v in operands]
        single = len(results) == 1
        given = vjp(builder, gs[0] if single else gs, outs[0] if single else outs, *ins, **attrs_of(op))
        for value, cotangent in zip(operands, given, strict=True):
            if cotangent is None or value not in active:
                continue
            before = cotangents.get(value)
            cotangents[value] = cotangent if before is None else before + cotangent
    return cotangents


def _active(ops: list[Any], wrt: list[Any]) -> set[Any]:
    """Float values that depend on `wrt` through differentiable operations."""
    active = set(wrt)
    for op in ops:
        if OPS[op_name(op)].vjp is not None and any(v in active for v in op.operands):
            active.update(r for r in op.results if type_of(r).is_float)
    return active


def _drop_gradient_stops(func: Any) -> None:
    """A gradient stop is the identity once its function has been differentiated."""
    for op in list(func.regions[0].blocks[0].operations):
        if op.operation.name == "sx.stop_gradient":
            op.operation.results[0].replace_all_uses_with(op.operation.operands[0])
            op.operation.erase()
