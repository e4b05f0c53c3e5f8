"""What is made of a loop's results beside it: its outs behind a first place, in one tensor.

    %y = concat %first, %outs                          the prefixes of an associative scan
    %g = add (pad %outs), (pad (add %s, %last))        the gradient of what it went along

A kernel of the loop writes such a tensor itself: the outs one place further, and the first place from the states behind
the last turn or from what was there before. That first place is computed element by element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from sexpgpu.dialects.opdef import Constant, Dense, Move, Pointwise
from sexpgpu.plan.dataflow import Dataflow, Node

Makers = Mapping[int, Node]
"""The node that makes each value."""


@frozen
class Assembled:
    """A tensor of an out's places, and `first` before them, a value of one place; None: 0."""

    out: int
    first: int | None


def makers_of(flow: Dataflow) -> dict[int, Node]:
    return {out: node for node in flow.nodes for out in node.outs}


def assembled(flow: Dataflow, makers: Makers, value: int, axes: Mapping[int, int]) -> Assembled | None:
    """How a value consists of one of the outs, whose axes are given, and a place before it; None where it does not."""
    node = makers.get(value)
    if node is None or node.record is None:
        return None
    match node.record.kind:
        case Move(form="join"):
            first, out = node.ins
            if axes.get(out) == node.attrs["axis"] and flow.types[first].shape[axes[out]] == 1:
                return Assembled(out, first)
        case Move(form="pad"):
            (out,) = node.ins
            if out in axes and _padded(node, axes[out], low=1, high=0):
                return Assembled(out, None)
        case Pointwise(scalar="add"):
            for behind, before in (node.ins, node.ins[::-1]):
                found = assembled(flow, makers, behind, axes)
                other = makers.get(before)
                if found is None or found.first is not None or other is None or other.record is None:
                    continue
                axis, count = axes[found.out], flow.types[found.out].shape[axes[found.out]]
                pads = isinstance(other.record.kind, Move) and other.record.kind.form == "pad"
                if pads and _padded(other, axis, low=0, high=count):
                    return Assembled(found.out, other.ins[0])
        case _:
            pass
    return None


def _padded(node: Node, axis: int, low: int, high: int) -> bool:
    """Whether a movement puts so many zeros before and behind an axis, and none elsewhere."""

    def only(counts: Sequence[int], count: int) -> bool:
        return all(n == (count if i == axis else 0) for i, n in enumerate(counts))

    return node.attrs["value"] == 0 and only(node.attrs["low"], low) and only(node.attrs["high"], high)


def parts_of(
    flow: Dataflow, makers: Makers, value: int, found: Assembled, loop: Node, states: int
) -> list[Node] | None:
    """The nodes that make an assembled value of what `loop` gives and of what was there before it, in order.

    None where something else is needed: what is made later, or more than the elements of the last states.
    """
    before, last = loop.outs[0], loop.outs[:states]
    top = makers[value]
    needed = {read: makers[read] for read in top.ins if read >= before and read not in (*loop.outs, found.first)}
    needed[value] = top
    pending = [found.first] if found.first is not None else []
    while pending:
        edge = pending.pop()
        if edge < before or edge in last or edge in needed:
            continue
        node = makers[edge]
        if node.record is None or not by_number(node):
            return None
        needed[edge] = node
        pending += node.ins
    return [needed[number] for number in sorted(needed)]


def by_number(node: Node) -> bool:
    """Whether each element of the result comes from those of the operands with its number, or is the same."""
    assert node.record is not None
    match node.record.kind:
        case Pointwise() | Move(form="same" | "reshape"):
            return True
        case Constant():
            dense = node.attrs.get("value")
            return isinstance(dense, Dense) and dense.is_splat
        case _:
            return False
