"""Gradients that products make come with sums of their squares, of which the loop has the norm without reading them.

    func @train(...) -> %g {sx.grad = "w"}         func @train(...) -> (%g {sx.grad = "w"}, %s {sx.squares = "w"})
        attributes {sx.squares}
      %g = call @product_1(%x, %y)           =>      %g, %s = call @product_1(%x, %y)

The group's function says what the numbers are, one for each tile of its kernel. Gradients that another group makes, or
that are sums of several, come without.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import define, field
from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.groups import Group
from sexpgpu.dialects.opdef import Move
from sexpgpu.dialects.read import definition_of
from sexpgpu.dialects.signature import SQUARES, read_inputs, read_outputs, terminator_of, type_of, write_signature
from sexpgpu.experiment import Output
from sexpgpu.passes.gpu.product_squares import SQUARED, Tiles

_WHOLE = frozenset({"reshape", "permute", "same"})
"""Movements that give every element once."""


@define(eq=False)
class GradientSquares:
    """Those of one function, added while its groups become kernels."""

    function: Any
    context: Context
    _gradients: dict[int, str] = field(factory=dict, init=False)  # by their places, where squares are wanted
    _made: list[tuple[str, Any]] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        if SQUARES in self.function.attributes:
            del self.function.attributes[SQUARES]
            outputs = enumerate(read_outputs(self.function))
            self._gradients = {place: output.name for place, output in outputs if output.role == "grad"}

    def place(self, call: Any, group: Group) -> int:
        """The place of the result of a group that is a gradient; -1 where none is, or it comes without squares."""
        if not self._gradients or group.family != "product":
            return -1
        for place, value in enumerate(call.results):
            type = type_of(value)
            if type.size and type.dtype in SQUARED and next(self._names(value), None) is not None:
                return place
        return -1

    def _names(self, value: Any) -> Iterator[str]:
        """The gradients that a value is, seen in whatever order."""
        for use in value.uses:
            op = use.owner.operation
            if op.name == "func.return":
                if use.operand_number in self._gradients:
                    yield self._gradients[use.operand_number]
            elif _moves(op):
                yield from self._names(op.results[0])

    def give(self, call: Any, place: int, tiles: Tiles) -> Any:
        """A call with the sums behind its other results, in the place of one without."""
        names = list(self._names(call.results[place]))
        made = ir.Operation.create(
            call.name,
            results=[*(v.type for v in call.results), self.context.type(tiles.type)],
            operands=list(call.operands),
            attributes={name: call.attributes[name] for name in call.attributes},
            loc=call.location,
            ip=ir.InsertionPoint(call),
        )
        for old, new in zip(call.results, made.results, strict=False):
            old.replace_all_uses_with(new)
        self.context.erase(call)
        self._made += [(name, made.results[len(made.results) - 1]) for name in names]
        return made

    def finish(self) -> None:
        """Have the function return them behind all else."""
        if self._made:
            inputs, outputs = read_inputs(self.function), read_outputs(self.function)
            _return(self.function, [value for _, value in self._made])
            added = [Output("squares", name, type_of(value)) for name, value in self._made]
            write_signature(self.function, inputs, [*outputs, *added])


def _moves(op: Any) -> bool:
    record = definition_of(op)
    return record is not None and isinstance(record.kind, Move) and record.kind.form in _WHOLE


def sum_up(func: Any, place: int, tiles: Tiles, context: Context) -> None:
    """Have a group's function say what the sums are: of the squares of its result at a place."""
    end = terminator_of(func)
    value = end.operands[place]
    builder = Builder(context, ir.InsertionPoint(end), end.location)
    sums = tiles.summed(Val(builder, value, type_of(value)))
    types = [a.type for a in func.regions[0].blocks[0].arguments], [*(v.type for v in end.operands), sums.value.type]
    _return(func, [sums.value])
    function_type = ir.FunctionType.get(*types, context=context.mlir)
    func.attributes["function_type"] = ir.TypeAttr.get(function_type, context=context.mlir)


def _return(func: Any, more: list[Any]) -> None:
    end = terminator_of(func)
    operands = [*end.operands, *more]
    ir.Operation.create("func.return", operands=operands, loc=end.location, ip=ir.InsertionPoint(end))
    end.erase()
