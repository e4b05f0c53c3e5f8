"""step-sums: a graph that needs totals over the whole step is split from the graph that gives its share of them.

    func @train(..., %n {sx.step_sum = "s"}) -> (%loss {sx.loss}, %k {sx.step_term = "s"}) {sx.graph = "train"}
    =>
    func @train(..., %n {sx.step_sum = "s"}) -> (%loss {sx.loss})
    func @train_sums(...) -> (%k {sx.step_term = "s"}) {sx.graph = "train sums"}

The loop runs the second over every microbatch first and feeds the totals to the first. Runs before autodiff.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mlir import ir

from sexpgpu.diag import error
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.locations import span_of
from sexpgpu.dialects.signature import output_roles, read_inputs, read_outputs, terminator_of, write_signature
from sexpgpu.experiment import Output
from sexpgpu.passes.base import Pass, functions
from sexpgpu.passes.simplify import remove_dead
from sexpgpu.passes.stack import OWN, STACK


@dataclass(frozen=True)
class StepSums(Pass):
    """Gives every graph with step terms a `<graph> sums` beside it; E-FLOW-006 when a term reads a parameter."""

    name: ClassVar[str] = "step-sums"

    def run(self, module: Any, context: Context) -> None:
        for func in functions(module):
            roles = output_roles(func)
            if "step_term" in roles and "loss" in roles:
                sums = func.operation.clone(ir.InsertionPoint(module.body))
                mlir = context.mlir
                for key in ("sym_name", "sx.graph"):
                    joint = "_" if key == "sym_name" else " "
                    before = ir.StringAttr(func.attributes[key]).value
                    sums.attributes[key] = ir.StringAttr.get(f"{before}{joint}sums", context=mlir)
                for key in (STACK, OWN):  # the sums are those of one microbatch
                    if key in sums.attributes:
                        del sums.attributes[key]
                _keep(sums, [role == "step_term" for role in roles])
                _keep(func, [role != "step_term" for role in roles])
                _require_no_parameter(sums)


def _keep(func: Any, wanted: list[bool]) -> None:
    """Return only the wanted results, and take only the arguments that they need."""
    block = func.regions[0].blocks[0]
    inputs, outputs = read_inputs(func), read_outputs(func)
    terminator = terminator_of(func)
    kept = [v for v, keep in zip(terminator.operands, wanted, strict=True) if keep]
    ir.Operation.create("func.return", operands=kept, loc=terminator.location, ip=ir.InsertionPoint(terminator))
    terminator.erase()
    remove_dead(block)
    for index in reversed(range(len(inputs))):
        if next(iter(block.arguments[index].uses), None) is None:
            block.erase_argument(index)
            del inputs[index]
    remaining: list[Output] = [o for o, keep in zip(outputs, wanted, strict=True) if keep]
    write_signature(func, inputs, remaining)


def _require_no_parameter(func: Any) -> None:
    for given, argument in zip(read_inputs(func), func.regions[0].blocks[0].arguments, strict=True):
        if given.role in ("param", "step_sum"):
            raise error(
                "E-FLOW-006",
                "`step-sum` of a value that depends on a parameter: it is not known before the step",
                span_of(argument.location),
                expected="a value of the batch alone",
                actual=f"it reads `{given.name}`",
            )
