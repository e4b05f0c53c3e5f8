"""The least and the greatest of integers that are known when they are traced."""

from __future__ import annotations

from typing import Any

from mlir import ir

from sexpgpu.dialects.read import attrs_of, op_name

MOVES = ("broadcast", "reshape", "transpose", "flip")
"""Operations whose results have the elements of their operand."""


FARTHEST = 8
"""How many operations a value is followed through."""


def extremes(value: Any, depth: int = FARTHEST) -> tuple[int, int] | None:
    """The least and the greatest element, both there; None where they are not known or there is no element.

    Constants are known, counts, their moves, and sums and products with one number.
    """
    made = value.owner
    if depth == 0 or isinstance(made, ir.Block) or 0 in ir.RankedTensorType(value.type).shape:
        return None
    op = op_name(made)
    if op == "constant":
        array = attrs_of(made)["value"].array()
        return int(array.min()), int(array.max())
    if op == "iota":
        attributes = attrs_of(made)
        return 0, attributes["shape"][attributes["axis"]] - 1
    if op in MOVES:
        return extremes(made.operands[0], depth - 1)
    if op in ("add", "mul"):
        first, second = (extremes(operand, depth - 1) for operand in made.operands)
        if first is None or second is None or (first[0] != first[1] and second[0] != second[1]):
            return None  # the extremes of two that vary need not meet
        ends = [a + b if op == "add" else a * b for a in first for b in second]
        return min(ends), max(ends)
    return None
