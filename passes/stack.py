"""stack: beside a graph of one microbatch, graphs that run several in one call.

    func @train(%w {sx.param = "w"}, %x {sx.field = "x"}) -> (%l {sx.loss}, %g {sx.grad = "w"})
        attributes {sx.graph = "train", sx.stack = array<i64: 2>}
    =>
    func @train(...)
    func @train_stacked_2(%w, %x0 {sx.part = 0}, %x1 {sx.part = 1}) -> (%l0 {sx.part = 0}, %l1 {sx.part = 1}, %g)
        attributes {sx.graph = "train stacked 2", sx.stacked = 2}

The body is repeated, batches are not joined: every value of a microbatch is what a call of its own gives, whatever the
operations do with the axis of records, and masks, normalisations and buffers keep their meaning. What depends on
parameters and other shared arguments alone is computed once. Gradients are added up as the loop adds those of calls,
each right behind its maker. Nothing is simplified afterwards: it would take equal microbatches for one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

from attrs import define, evolve, field
from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.signature import read_inputs, read_outputs, type_of, write_signature
from sexpgpu.experiment import Input, Output
from sexpgpu.passes.base import Pass, graphs

STACK, OWN, STACKED = "sx.stack", "sx.own", "sx.stacked"
"""On a graph: the degrees wanted, and the paths of buffers of which each microbatch has its own. On a stacked one: its
degree.
"""
_CONTEXT = frozenset({"microbatch", "share"})
"""The loop's numbers that differ between the microbatches of a step."""
_KEPT = ("sx.rows", "sx.counters")


@dataclass(frozen=True)
class Stack(Pass):
    """Adds a stacked graph for each degree above 1 in `sx.stack`."""

    name: ClassVar[str] = "stack"

    def run(self, module: Any, context: Context) -> str:
        made = []
        for func in graphs(module):
            if STACK in func.attributes:
                degrees = [degree for degree in ir.DenseI64ArrayAttr(func.attributes[STACK]) if degree > 1]
                own = [ir.StringAttr(path).value for path in func.attributes[OWN]] if OWN in func.attributes else []
                for degree in reversed(degrees):  # each comes right behind its graph
                    _stacked(func.operation, degree, own, context)
                for name in (STACK, OWN):
                    if name in func.attributes:
                        del func.attributes[name]
                made += degrees
        return f"by {', '.join(map(str, made))}" if made else ""


def write_degrees(func: Any, degrees: Collection[int], own: Collection[str]) -> None:
    """Ask for stacked graphs of these degrees; `own` are the paths of buffers kept per microbatch."""
    context = func.context
    func.attributes[STACK] = ir.DenseI64ArrayAttr.get(list(degrees), context=context)
    if own:
        func.attributes[OWN] = ir.ArrayAttr.get([ir.StringAttr.get(p, context=context) for p in own], context=context)


def _stacked(func: Any, degree: int, own: Collection[str], context: Context) -> None:
    inputs, outputs = read_inputs(func), read_outputs(func)
    made = _empty(func, degree)
    block = made.regions[0].blocks.append()
    shared: dict[Any, Any] = {}
    parts: list[dict[Any, Any]] = [{} for _ in range(degree)]
    given: list[Input] = []
    arguments = list(zip(inputs, func.regions[0].blocks[0].arguments, strict=True))
    for slot, argument in arguments:
        if not _differs(slot, own):
            shared[argument] = block.add_argument(argument.type, argument.location)
            given.append(slot)
    for number, values in enumerate(parts):
        for slot, argument in arguments:
            if argument not in shared:
                values[argument] = block.add_argument(argument.type, argument.location)
                given.append(evolve(slot, part=number))
    operations = [op.operation for op in func.regions[0].blocks[0].operations]
    end = operations.pop()
    places: dict[Any, list[int]] = {}
    for value, output in zip(end.operands, outputs, strict=True):
        if output.role == "grad":
            places.setdefault(value, []).append(sum(map(len, places.values())))
    body = _Body(context, block, operations, places, shared)
    for values in parts:
        body.repeat(values)
    results: list[Any] = []
    told: list[Output] = []
    for number, values in enumerate(parts):
        for value, output in zip(end.operands, outputs, strict=True):
            if output.role != "grad":
                results.append(values[value] if value in values else shared[value])
                told.append(evolve(output, part=number))
    told += [output for output in outputs if output.role == "grad"]
    ir.Operation.create("func.return", operands=[*results, *body.totals], loc=end.location, ip=ir.InsertionPoint(block))
    write_signature(made, given, told)


def _differs(slot: Input, own: Collection[str]) -> bool:
    """Whether each microbatch has its own value of an argument."""
    match slot.role:
        case "field":
            return True
        case "ctx":
            return slot.name in _CONTEXT
        case "buffer":
            return slot.name in own
        case _:
            return False


def _empty(func: Any, degree: int) -> Any:
    """A function without a block right behind `func`, with what holds of each of its microbatches."""
    context = func.context
    i64 = ir.IntegerType.get_signless(64, context=context)
    symbol, name = (ir.StringAttr(func.attributes[key]).value for key in ("sym_name", "sx.graph"))
    attributes = {key: func.attributes[key] for key in _KEPT if key in func.attributes}
    attributes |= {
        "sym_name": ir.StringAttr.get(f"{symbol}_stacked_{degree}", context=context),
        "sx.graph": ir.StringAttr.get(f"{name} stacked {degree}", context=context),
        STACKED: ir.IntegerAttr.get(i64, degree),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [], context=context), context=context),
    }
    ip = ir.InsertionPoint.after(func)
    return ir.Operation.create("func.func", attributes=attributes, regions=1, loc=func.location, ip=ip)


@define(eq=False)
class _Body:
    """What is repeated at the end of a block. `places` says of a value which gradients of the graph it is."""

    context: Context
    block: Any
    operations: list[Any]
    places: dict[Any, list[int]]
    shared: dict[Any, Any]  # by an old value the new one, of what is the same for every microbatch
    _sums: dict[int, Any] = field(factory=dict, init=False)
    _begun: bool = field(default=False, init=False)

    def repeat(self, values: dict[Any, Any]) -> None:
        """Append the body for one more microbatch; `values` have what is its own, as `shared` has the rest."""
        ip = ir.InsertionPoint(self.block)
        before = dict(self._sums)
        last = self.operations[-1].location if self.operations else self.block.owner.location
        for argument, value in list(values.items()):
            self._add(argument, value, before, last)
        for op in self.operations:
            alike = all(value in self.shared for value in op.operands)
            if alike and self._begun:
                continue
            copy = op.clone(ip)
            for place, value in enumerate(op.operands):
                copy.operands[place] = self.shared[value] if value in self.shared else values[value]
            (self.shared if alike else values).update(zip(op.results, copy.results, strict=True))
            for old, new in zip(op.results, copy.results, strict=True):
                if not alike:
                    self._add(old, new, before, op.location)
        for value in self.places:
            if value in self.shared:
                self._add(value, self.shared[value], before, last)
        self._begun = True

    def _add(self, gradient: Any, value: Any, before: dict[int, Any], location: Any) -> None:
        """Add a microbatch's gradient to those of the microbatches before it."""
        for place in self.places.get(gradient, ()):
            if place in before:
                builder = Builder(self.context, ir.InsertionPoint(self.block), location)
                terms = [Val(builder, term, type_of(term)) for term in (before[place], value)]
                self._sums[place] = builder("add", *terms).value
            else:
                self._sums[place] = value

    @property
    def totals(self) -> list[Any]:
        """The sums, in the order of the gradients."""
        return [self._sums[place] for place in range(len(self._sums))]
