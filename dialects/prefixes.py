"""The marks of what is a scan with an associative function, beside the operations that compute it.

    %s = sx.slice %x {sx.places = [@combine, 0, 1]}          a slice of tensor 0 of a scan along axis 1
    %y = sx.reshape ... {sx.prefixes = [@combine, 0, 1]}     the prefixes of tensor 0 along axis 1

`@combine` takes one place of all tensors, their axis being of size 1, twice: the left ones and the right ones.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen
from mlir import ir

PLACES, PREFIXES = "sx.places", "sx.prefixes"


@frozen
class Mark:
    """Which tensor of which scan a value belongs to, and the axis that it goes along."""

    combine: str
    number: int
    axis: int


def read_mark(op: Any, name: str) -> Mark | None:
    """The mark of that name on an operation."""
    if name not in op.attributes:
        return None
    combine, number, axis = ir.ArrayAttr(op.attributes[name])
    return Mark(ir.FlatSymbolRefAttr(combine).value, ir.IntegerAttr(number).value, ir.IntegerAttr(axis).value)


def write_mark(op: Any, name: str, mark: Mark) -> None:
    mlir = op.context
    i64 = ir.IntegerType.get_signless(64, context=mlir)
    numbers = [ir.IntegerAttr.get(i64, given) for given in (mark.number, mark.axis)]
    symbol = ir.FlatSymbolRefAttr.get(mark.combine, context=mlir)
    op.attributes[name] = ir.ArrayAttr.get([symbol, *numbers], context=mlir)
