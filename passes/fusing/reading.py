"""A function of the module read once into plain lists: everything `fuse` decides, it decides on these numbers.

Operations and values are numbered in program order. A value that a view makes (a reshape, a transpose, ...) has the
value it looks into as its `root`; views and constants cost nothing and go wherever they are read.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from mlir import ir

from sexpgpu.dialects.opdef import Constant, Kind, Move
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import attrs_of
from sexpgpu.dialects.signature import type_of
from sexpgpu.passes.fusing.lines import Ints, Treatment, leading, treatments
from sexpgpu.passes.recomputing.marks import CLONE
from sexpgpu.tensortype import TensorType

ARGUMENT = -1


@define(eq=False)
class Reading:
    """A function as lists, by operation: the operation, its kind and attributes, numbers of operands and results.

    By value: the MLIR value, its type, which operation made it (ARGUMENT for none), which read it, its root, how many
    leading axes the views between root and value pass on, and the bytes that reading it moves. `end` is the number of
    the terminator; `rank` orders the operations of a set; groups will be `cut` into parts, or not. `treatments` is
    empty where an operation belongs to no group; `clone` is the region that an operation computes again, 0 for none;
    `view` and `free` say whether it is a view of its operand, and whether it is that or a constant, and so computes
    nothing.
    """

    function: Any
    ops: list[Any]
    end: int
    rank: list[int]
    cut: bool = True
    kinds: list[Kind | None] = field(factory=list)
    attrs: list[dict[str, Any]] = field(factory=list)
    operands: list[list[int]] = field(factory=list)
    results: list[list[int]] = field(factory=list)
    treatments: list[tuple[Treatment, ...]] = field(factory=list)
    clone: list[int] = field(factory=list)
    view: list[bool] = field(factory=list)
    free: list[bool] = field(factory=list)
    values: list[Any] = field(factory=list)
    types: list[TensorType] = field(factory=list)
    maker: list[int] = field(factory=list)
    readers: list[list[int]] = field(factory=list)
    root: list[int] = field(factory=list)
    passed: list[int] = field(factory=list)
    moved: list[int] = field(factory=list)

    def is_constant(self, op: int) -> bool:
        return self.free[op] and not self.view[op]

    def maker_of(self, value: int) -> int:
        """The operation whose result `value` looks into, ARGUMENT for none."""
        return self.maker[self.root[value]]

    def outer_readers(self, value: int) -> list[int]:
        """The operations that read a value or a view of it, views themselves left out."""
        found = []
        for reader in self.readers[value]:
            if self.view[reader]:
                found += self.outer_readers(self.results[reader][0])
            else:
                found.append(reader)
        return found


def shape_of(reading: Reading, value: int) -> Ints:
    return reading.types[value].shape


def read(func: Any, *, cut: bool = True) -> Reading:
    """The lists of a `func.func`, whose groups will be `cut` into parts or not."""
    block = func.regions[0].blocks[0]
    ops = [op.operation for op in block.operations]
    reading = Reading(func, ops, len(ops) - 1, list(range(len(ops))), cut)
    numbers: dict[Any, int] = {}
    for argument in block.arguments:
        numbers[argument] = add_value(reading, argument, ARGUMENT)
    for i, op in enumerate(ops):
        ins = [numbers[v] for v in op.operands]
        outs = []
        for result in op.results:
            numbers[result] = add_value(reading, result, i)
            outs.append(numbers[result])
        for v in ins:
            reading.readers[v].append(i)
        name: str = op.name
        if name.startswith("sx."):
            kind: Kind | None = OPS[name[3:]].kind
            add_operation(reading, kind, attrs_of(op), ins, outs)
        else:
            add_operation(reading, None, {}, ins, outs)
        if CLONE in op.attributes:
            reading.clone[i] = ir.IntegerAttr(op.attributes[CLONE]).value
    return reading


def add_operation(reading: Reading, kind: Kind | None, attrs: dict[str, Any], ins: list[int], outs: list[int]) -> None:
    """Add what follows from an operation's kind and numbers; its values are there already."""
    types = reading.types
    view = isinstance(kind, Move) and kind.views
    constant = isinstance(kind, Constant) and not ins
    reading.kinds.append(kind)
    reading.attrs.append(attrs)
    reading.operands.append(ins)
    reading.results.append(outs)
    reading.clone.append(0)
    reading.view.append(view)
    reading.free.append(view or constant)
    if view:
        assert isinstance(kind, Move)
        _look_through(reading, ins[0], outs[0], leading(kind, attrs, types[ins[0]].shape, types[outs[0]].shape))
    elif constant:
        dense = attrs.get("value")
        reading.moved[outs[0]] = 0 if dense is None or dense.is_splat else types[outs[0]].nbytes
    computes = not reading.free[-1] and kind is not None
    shapes = [types[v].shape for v in ins], [types[v].shape for v in outs]
    roots = [reading.root[v] for v in ins]
    found = treatments(kind, attrs, *shapes, reading.cut) if computes else ()
    reading.treatments.append(tuple(t for t in found if _apart(t, roots)))


def _apart(treatment: Treatment, roots: list[int]) -> bool:
    """Whether an operation whose operands look into `roots` reads nothing in full that it reads by parts too."""
    whole = {roots[i] for i in treatment.whole}
    return whole.isdisjoint(root for i, root in enumerate(roots) if i not in treatment.whole)


def add_value(reading: Reading, value: Any, maker: int) -> int:
    """Add a value that nothing reads yet; its number."""
    number = len(reading.values)
    type = type_of(value)
    reading.values.append(value)
    reading.types.append(type)
    reading.maker.append(maker)
    reading.readers.append([])
    reading.root.append(number)
    reading.passed.append(len(type.shape))
    reading.moved.append(type.nbytes)
    return number


def _look_through(reading: Reading, source: int, view: int, passed: int) -> None:
    reading.root[view] = reading.root[source]
    reading.passed[view] = min(reading.passed[source], passed)
    reading.moved[view] = min(reading.moved[source], reading.moved[view])
