"""parameter-results: what graphs compute of a parameter alone is computed once a step, where the parameter changes.

    func @train(%w {sx.param = "w"}, %x)             func @train(%w {sx.param = "w"}, %x, %n {sx.narrow = "w"})
      %n = sx.cast %w : bf16                           ... %n
      ... %n                                   =>
    func @update(%w {sx.param = "param"}, %g)        func @update(%w, %g) -> (%u, %n {sx.narrow = "param"})
      -> %u {sx.param = "param"}                       %n = sx.cast %u : bf16
                                                     func @narrow_1(%w {sx.param = "param"}) -> %n {sx.narrow = "param"}

Casts of parameters to a narrower dtype become arguments of the graphs that read them, so that they are read in that
dtype by every microbatch and evaluation. The updates of a type of which the train graph has all parameters narrow give
them beside the parameters; what no update has written, after the start or in an optimizer's view, the device makes by
the graphs that only cast. Which it keeps is the device's own affair: the loop sees none of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.function import write_function
from sexpgpu.dialects.opdef import Pointwise
from sexpgpu.dialects.read import definition_of
from sexpgpu.dialects.signature import (
    input_roles,
    output_roles,
    read_inputs,
    read_outputs,
    terminator_of,
    type_of,
    write_signature,
)
from sexpgpu.experiment import Input, Output
from sexpgpu.passes.base import Pass, graphs
from sexpgpu.tensortype import TensorType

Narrow = dict[TensorType, TensorType]
"""Types of parameters, and the narrow ones that graphs read of them."""


@dataclass(frozen=True)
class ParameterResults(Pass):
    """Narrow parameters of every graph that reads parameters and does not change them."""

    name: ClassVar[str] = "parameter-results"

    def run(self, module: Any, context: Context) -> str:
        found = graphs(module)
        reading = [f for f in found if "param" in input_roles(f) and "grad" not in input_roles(f)]
        types: Narrow = {}
        made = 0
        for func in reading:
            made += _read_narrow(func, context, types)
        written = _whole(reading, types)
        for func in found:
            if "grad" in input_roles(func):
                _write_narrow(func, context, {t: types[t] for t in written})
        taken = {ir.StringAttr(op.operation.attributes["sym_name"]).value for op in module.body.operations}
        free = (name for n in count(1) if (name := f"narrow_{n}") not in taken)
        for symbol, (wide, type) in zip(free, types.items(), strict=False):
            _narrowing(module, context, symbol, wide, type)
        return f"{made} narrow parameters" if made else ""


def _read_narrow(func: Any, context: Context, types: Narrow) -> int:
    """Give the graph narrow parameters instead of its casts; how many.

    Parameters of a type have one narrow type, that of the first cast of such: it is added to `types`. Other casts stay.
    """
    block = func.regions[0].blocks[0]
    inputs, outputs = read_inputs(func), read_outputs(func)
    count = len(inputs)
    for given, argument in list(zip(inputs, block.arguments, strict=True)):
        if given.role != "param":
            continue
        made = None
        for cast in dict.fromkeys(use.owner.operation for use in argument.uses):
            if not _narrows(cast):
                continue
            narrow = type_of(cast.results[0])
            if types.setdefault(given.type, narrow) != narrow:
                continue
            if made is None:
                made = block.add_argument(cast.results[0].type, argument.location)
                inputs.append(Input("narrow", given.name, narrow))
            cast.results[0].replace_all_uses_with(made)
            context.erase(cast)
    if len(inputs) > count:
        write_signature(func, inputs, outputs)
    return len(inputs) - count


def _narrows(op: Any) -> bool:
    """Whether an operation casts to a narrower float type."""
    record = definition_of(op)
    if record is None or not isinstance(record.kind, Pointwise) or record.kind.scalar != "cast":
        return False
    before, after = type_of(op.operands[0]), type_of(op.results[0])
    return after.is_float and after.nbytes < before.nbytes


def _whole(reading: Iterable[Any], types: Narrow) -> list[TensorType]:
    """The types of which the graphs with a loss read no parameter that is not narrow, too."""
    narrow: set[str] = set()
    names: dict[TensorType, set[str]] = {}
    for func in reading:
        if "loss" in output_roles(func):
            for given in read_inputs(func):
                if given.role == "narrow":
                    narrow.add(given.name)
                elif given.role == "param" and not given.frozen:
                    names.setdefault(given.type, set()).add(given.name)
    return [type for type in types if type in names and names[type] <= narrow]


def _write_narrow(func: Any, context: Context, types: Narrow) -> None:
    """Have an update give the narrow parameter, too."""
    inputs, outputs = read_inputs(func), read_outputs(func)
    end = terminator_of(func)
    builder = Builder(context, ir.InsertionPoint(end), end.location)
    returned = list(end.operands)
    added: list[Output] = []
    for output, value in zip(outputs, list(returned), strict=True):
        if output.role == "param" and output.type in types:
            narrow = types[output.type]
            builder.location = value.owner.location if not isinstance(value.owner, ir.Block) else end.location
            added.append(Output("narrow", output.name, narrow))
            returned.append(builder("cast", Val(builder, value, output.type), dtype=narrow.dtype).value)
    if added:
        ir.Operation.create("func.return", operands=returned, loc=end.location, ip=ir.InsertionPoint(end))
        end.erase()
        write_signature(func, inputs, [*outputs, *added])


def _narrowing(module: Any, context: Context, symbol: str, wide: TensorType, narrow: TensorType) -> None:
    """A graph that casts a parameter."""

    def cast(b: Builder, given: list[Val]) -> list[Val]:
        return [b("cast", given[0], dtype=narrow.dtype)]

    func = write_function(module, context, symbol, [("param", wide)], cast, "narrow", ("param", "param"))
    func.attributes["sx.graph"] = ir.StringAttr.get(f"narrow {wide}", context.mlir)
