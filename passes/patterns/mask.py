"""Which keys a row sees, read from the mask: comparisons of places, a constant, or numbers that are added.

A place is an expression in the row's and the column's index. Every comparison of two places that differ by row - column
bounds `column - row` from one side; a conjunction of such bounds is a causal mask or a window.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

from sexpgpu.dialects.opdef import Array
from sexpgpu.passes.patterns.matching import Node, counts, number
from sexpgpu.passes.patterns.polynomial import polynomial

LOWEST = -1e4
"""What is added to hide a score, or put in its place, is this or less: next to a score that is seen its e^x is 0."""

Line = tuple[float, float, float]
"""(a, b, c): the place a row + b column + c."""


@frozen
class Band:
    """A row sees the columns with low <= column - row <= high."""

    low: float = -math.inf
    high: float = math.inf

    def meet(self, other: Band) -> Band:
        return Band(max(self.low, other.low), min(self.high, other.high))


def band(mask: Node, shape: tuple[int, int]) -> Band | None:
    """What a bool tensor [..., rows, columns] that is the same for all axes in front lets be seen, if it is a band."""
    node = _unrepeated(mask)
    if node.name == "constant":
        value = node.attrs["value"]
        return None if value.is_splat or node.shape[-2:] != shape else _band_of_array(value.array())
    match node.name:
        case "logical_and":
            left, right = band(node.ins[0], shape), band(node.ins[1], shape)
            return None if left is None or right is None else left.meet(right)
        case "logical_not":
            inner = node.ins[0]
            opposite = _OPPOSITE.get(inner.name)
            return None if opposite is None else _compared(opposite, inner, shape)
        case "ge" | "gt" | "le" | "lt":
            return _compared(node.name, node, shape)
    return None


def hidden(bias: Node, shape: tuple[int, int]) -> Band | None:
    """The band of what is added to scores, where that is 0 for what is seen and very little for the rest."""
    node = _unrepeated(bias)
    if node.name == "constant":
        value = node.attrs["value"]
        if value.is_splat or node.shape[-2:] != shape:
            return None
        array = value.array()
        return _band_of_array(array == 0) if ((array == 0) | (array <= LOWEST)).all() else None
    if node.name == "where":
        mask, yes, no = node.ins[0], number(node.ins[1]), number(node.ins[2])
        if yes == 0 and no is not None and no <= LOWEST:
            return band(mask, shape)
        if no == 0 and yes is not None and yes <= LOWEST:
            return inverse(mask, shape)
        return None
    return _masked_product(node, shape)


def inverse(mask: Node, shape: tuple[int, int]) -> Band | None:
    """The band of what a mask does not let through."""
    node = _unrepeated(mask)
    if node.name == "logical_not":
        return band(node.ins[0], shape)
    if node.name == "constant" and not node.attrs["value"].is_splat and node.shape[-2:] == shape:
        return _band_of_array(~node.attrs["value"].array())
    opposite = _OPPOSITE.get(node.name)
    return None if opposite is None else _compared(opposite, node, shape)


def _masked_product(node: Node, shape: tuple[int, int]) -> Band | None:
    """(1 - m) * -1e9, (m - 1) * 1e9 and the like, with m the mask as numbers."""
    m = _numbers(node)
    terms = None if m is None else polynomial(node, {m}, set())
    if m is None or terms is None or not set(terms) <= {(), (m,)}:
        return None
    unseen = terms.get((), 0.0)
    seen = unseen + terms.get((m,), 0.0)
    inner = _unrepeated(m).ins[0]
    if seen == 0 and unseen <= LOWEST:
        return band(inner, shape)
    return inverse(inner, shape) if unseen == 0 and seen <= LOWEST else None


def _numbers(node: Node) -> Node | None:
    """The cast of a bool tensor that a product or sum is made from."""
    for _ in range(6):
        if _is_numbers(node):
            return node
        inner = [v for v in node.ins if number(v) is None]
        if node.name not in ("add", "sub", "mul", "neg") or len(inner) != 1:
            return None
        node = inner[0]
    return None


def _is_numbers(node: Node) -> bool:
    cast = _unrepeated(node)
    return cast.name == "cast" and cast.ins[0].type.dtype == "bool"


def _unrepeated(node: Node) -> Node:
    """Behind broadcasts and reshapes that only put axes in front."""
    while node.name in ("broadcast", "reshape"):
        inner = node.ins[0]
        if inner.shape[-2:] != node.shape[-2:] or set(inner.shape[:-2]) - {1}:
            break
        node = inner
    return node


_OPPOSITE = {"ge": "lt", "gt": "le", "le": "gt", "lt": "ge"}


def _compared(name: str, node: Node, shape: tuple[int, int]) -> Band | None:
    """The bound that `left name right` puts on column - row, which is a whole number."""
    left, right = (_place(v, shape) for v in node.ins)
    if left is None or right is None:
        return _within(name, node, shape) if left is None else None
    row, column, rest = (a - b for a, b in zip(left, right, strict=True))
    if row != -column or abs(row) != 1 or node.shape[-2:] != shape:
        return None
    # column * (column - row) + rest >= 0, or > 0 and so on
    strict = name in ("gt", "lt")
    bound = -rest / column
    if (column > 0) == (name in ("ge", "gt")):
        return Band(low=math.floor(bound) + 1 if strict else math.ceil(bound))
    return Band(high=math.ceil(bound) - 1 if strict else math.floor(bound))


def _within(name: str, node: Node, shape: tuple[int, int]) -> Band | None:
    """|row - column| < n."""
    size, limit = node.ins[0], number(node.ins[1])
    if size.name != "abs" or limit is None or name not in ("lt", "le"):
        return None
    line = _place(size.ins[0], shape)
    if line is None or line[0] != -line[1] or abs(line[0]) != 1 or line[2] != 0:
        return None
    reach = math.ceil(limit) - 1 if name == "lt" else math.floor(limit)
    return Band(-reach, reach)


def _place(node: Node, shape: tuple[int, int]) -> Line | None:
    """What a tensor of places holds at (row, column), once it is stretched to `shape`.

    None where its dtype does not have those numbers, as u8 lacks the place 256 and -1.
    """
    constant = number(node)
    line = _line(node, shape) if constant is None else (0.0, 0.0, constant)
    return line if line is not None and _held(line, shape, node) else None


def _held(line: Line, shape: tuple[int, int], node: Node) -> bool:
    """Whether the node's dtype has each number of the line; the halves between whole ones are a float's."""
    row, column, rest = line
    ends = [row * r + column * c + rest for r in (0, max(shape[0] - 1, 0)) for c in (0, shape[1] - 1)]
    if rest.is_integer():
        return counts(node.type.dtype, min(ends), max(ends))
    return node.type.is_float and (2 * rest).is_integer() and counts(node.type.dtype, 2 * min(ends), 2 * max(ends))


def _line(node: Node, shape: tuple[int, int]) -> Line | None:
    """`_place` of what is no constant."""
    match node.name:
        case "iota":
            axis = node.attrs["axis"] - node.type.rank  # -2 rows, -1 columns
            length = node.shape[axis]
            if axis == -2 and length == shape[0]:
                return (1.0, 0.0, 0.0)
            return (0.0, 1.0, 0.0) if axis == -1 and length == shape[1] else None
        case "cast" | "broadcast":
            return _place(node.ins[0], shape)
        case "reshape":
            return _turned(node, shape)
        case "add" | "sub":
            left, right = (_place(v, shape) for v in node.ins)
            if left is None or right is None:
                return None
            sign = 1 if node.name == "add" else -1
            row, column, rest = (a + sign * b for a, b in zip(left, right, strict=True))
            return (row, column, rest)
        case "neg":
            line = _place(node.ins[0], shape)
            return None if line is None else (-line[0], -line[1], -line[2])
    return None


def _turned(node: Node, shape: tuple[int, int]) -> Line | None:
    """A line of places [n] seen as [..., n, 1], which counts rows, or as [..., 1, n]."""
    inner = node.ins[0]
    if node.shape == (*(1,) * (node.type.rank - inner.type.rank), *inner.shape):
        return _place(inner, shape)
    count = inner.shape[-1] if inner.type.rank else 0
    if inner.shape[:-1] != (1,) * (inner.type.rank - 1) or node.shape[-2:] != (count, 1):
        return None
    line = _place(inner, (-1, count)) if count == shape[0] else None
    if line is None or line[0]:
        return None
    return (line[1], 0.0, line[2])


def _band_of_array(seen: Array) -> Band | None:
    """The band that a bool matrix is, the same for all axes in front."""
    matrix = seen[(0,) * (seen.ndim - 2)]
    if not matrix.any() or not (seen == matrix).all():
        return None
    offset = np.arange(matrix.shape[1]) - np.arange(matrix.shape[0])[:, None]
    found = Band(int(offset[matrix].min()), int(offset[matrix].max()))
    if not (matrix == ((offset >= found.low) & (offset <= found.high))).all():
        return None
    low = -math.inf if found.low == offset.min() else found.low
    return Band(low, math.inf if found.high == offset.max() else found.high)
