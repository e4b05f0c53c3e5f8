"""The operands of attention's products as [batch, heads, time, dim], behind scale, repetition and moved axes."""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import evolve, frozen

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.passes.patterns.matching import Node, number, operands_of

_MOVES = ("reshape", "transpose")
_MOST = 6

Move = tuple[str, tuple[int, ...]]
"""A reshape with its shape, or a transpose with its order."""


@frozen
class Side:
    """A node, and the moves that make [batch, heads, time, dim] of it, rounded to bf16 where `narrow`."""

    node: Node
    moves: tuple[Move, ...]
    heads: int
    scale: float = 1.0
    narrow: bool = False

    def build(self, b: Builder, val: Callable[[Node], Val]) -> Val:
        found = val(self.node)
        if self.narrow:
            found = b("cast", found, dtype="bf16")
        for name, argument in self.moves:
            if name == "reshape":
                found = found if found.type.shape == argument else b("reshape", found, shape=argument)
            else:
                still = argument == tuple(range(len(argument)))
                found = found if still else b("transpose", found, perm=argument)
        return found


def side(node: Node, front: tuple[int, int, int], *, swapped: bool, exact: bool, repeated: bool) -> Side:
    """An operand of a product as [batch, heads, time, dim]; `front` is the first three of these.

    `swapped`: the product holds [..., dim, time]. `exact`: only a scale that rounds nothing may be taken out.
    `repeated`: the heads may be fewer, each repeated for a group.
    """
    batch, heads, time = front
    dim = node.shape[-2] if swapped else node.shape[-1]
    wanted: tuple[int, ...] = (batch, heads, dim, time) if swapped else (batch, heads, time, dim)
    moves: list[Move] = [("transpose", (0, 1, 3, 2))] if swapped else []
    scale = 1.0
    for _ in range(_MOST):
        if (by := _factor(node, exact=exact)) is not None:
            node, scale = by[0], scale * by[1]
        elif node.name == "reshape" and node.shape != wanted and node.ins[0].shape == wanted:
            node = node.ins[0]
        elif repeated and node.shape == wanted and (few := _unrepeated(node, 1)) is not None:
            node, heads, wanted = few, few.shape[1], few.shape
        else:
            break
    if repeated and node.name == "cast":
        inner = side(node.ins[0], front, swapped=swapped, exact=True, repeated=True)
        if inner.heads < heads and inner.scale == 1:  # the few heads are rounded, not their repetitions
            return evolve(inner, scale=scale, narrow=True)
    if node.shape != wanted:
        moves.insert(0, ("reshape", wanted))
    elif node.name == "transpose":
        perm = node.attrs["perm"]
        perm = tuple(perm[i] for i in moves[0][1]) if moves else perm
        node, moves = node.ins[0], [("transpose", perm)]
        if repeated and (few := _unrepeated(node, perm[1])) is not None:
            node, heads = few, few.shape[perm[1]]
    return _scaled_before(Side(node, tuple(moves), heads, scale), exact=exact)


def _factor(node: Node, *, exact: bool) -> tuple[Node, float] | None:
    """(x, factor) of a product with a number, or a quotient by one."""
    if node.name == "div":
        by = number(node.ins[1])
        found = [(node.ins[0], 1 / by)] if by else []
    else:
        found = [(one, by) for one, other in operands_of(node, "mul") if (by := number(other))]
    if not found or (exact and abs(math.frexp(found[0][1])[0]) != 0.5):
        return None
    return found[0]


def _unrepeated(node: Node, axis: int) -> Node | None:
    """x with fewer places along the axis, each of which the node has several times, neighbours."""
    shape = node.shape
    if node.name == "broadcast":
        inner = node.ins[0]
        return inner if inner.shape == (*shape[:axis], 1, *shape[axis + 1 :]) else None
    wide = node.ins[0] if node.name == "reshape" else None
    if wide is None or wide.name != "broadcast" or wide.type.rank != len(shape) + 1:
        return None
    count, group = wide.shape[axis : axis + 2]
    narrow = wide.ins[0]
    if wide.shape != (*shape[:axis], count, group, *shape[axis + 1 :]) or count * group != shape[axis]:
        return None
    if narrow.shape != (*shape[:axis], count, 1, *shape[axis + 1 :]):
        return None
    few = narrow.ins[0] if narrow.name == "reshape" else None
    return few if few is not None and few.shape == (*shape[:axis], count, *shape[axis + 1 :]) else None


def _scaled_before(found: Side, *, exact: bool) -> Side:
    """A scale that stands before the axes were moved, taken out from under the moves."""
    moves: list[Move] = []
    node = found.node
    for _ in range(_MOST):
        if (by := _factor(node, exact=exact)) is not None:
            return evolve(found, node=by[0], moves=(*moves, *found.moves), scale=found.scale * by[1])
        if node.name not in _MOVES:
            break
        moves.insert(0, (node.name, node.attrs["perm" if node.name == "transpose" else "shape"]))
        node = node.ins[0]
    return found
