"""How many elements beside each other a thread may take as one vector, followed from the results to the operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from attrs import frozen

from sexpgpu.dialects.opdef import Constant, Index, Move, Pointwise, Random
from sexpgpu.passes.gpu.kernel import BYTES
from sexpgpu.passes.gpu.scalar import MEMORY
from sexpgpu.plan.dataflow import Dataflow, Node


@frozen(eq=False)
class Lanes:
    """Whether vectors of `lanes` elements along an axis of a value come from such vectors of what it is made from.

    `known` are values whose elements are made in another way, vectors of them included.
    """

    flow: Dataflow
    lanes: int
    known: frozenset[int] = frozenset()

    @cached_property
    def _makers(self) -> Mapping[int, Node]:
        return {out: node for node in self.flow.nodes for out in node.outs}

    def along(self, value: int, lane: int, aligned: bool = True) -> bool:
        """Whether vectors of the value along an axis can be made; `aligned`: each begins at a multiple of its lanes."""
        shape = self.flow.types[value].shape
        node = self._makers.get(value)
        if value in self.known or node is None or node.record is None:
            return True
        match node.record.kind:
            case Pointwise():
                return all(self.along(v, lane, aligned) for v in node.ins)
            case Move(form="join"):
                axis = node.attrs["axis"]
                whole = lane != axis or (aligned and self.flow.types[node.ins[0]].shape[axis] % self.lanes == 0)
                return whole and all(self.along(v, lane, aligned) for v in node.ins)
            case Move(form=form):
                return self._moved(node, form, shape, lane, aligned)
            case Constant() | Random():
                return True
            case Index(access="read", lines=False):
                axis = node.attrs["axis"]
                rank = len(self.flow.types[node.ins[1]].shape)
                inside = axis <= lane < axis + rank
                return not inside and self.along(node.ins[0], lane if lane < axis else lane - rank + 1, aligned)
            case _:
                return False

    def _moved(self, node: Node, form: str, shape: tuple[int, ...], lane: int, aligned: bool) -> bool:
        (value,) = node.ins
        operand = self.flow.types[value].shape
        match form:
            case "same":
                return self.along(value, lane, aligned)
            case "reshape" if operand != shape:
                whole = aligned and lane == len(shape) - 1 and operand and operand[-1] % self.lanes == 0
                return bool(whole) and self.along(value, len(operand) - 1)
            case "reshape":
                return self.along(value, lane, aligned)
            case "broadcast":
                source = lane - (len(shape) - len(operand))
                return source < 0 or operand[source] == 1 != shape[lane] or self.along(value, source, aligned)
            case "permute":
                return self.along(value, node.attrs["perm"][lane], aligned)
            case "reverse":
                return lane not in node.attrs["axes"] and self.along(value, lane, aligned)
            case "cut":
                starts = node.attrs["start"][lane] % self.lanes == 0
                return node.attrs["step"][lane] == 1 and self.along(value, lane, aligned and starts)
            case "pad":
                low, high = node.attrs["low"][lane], node.attrs["high"][lane]
                whole = aligned or low == high == 0  # a vector lies within what was padded, or outside of it
                even = low % self.lanes == 0 and operand[lane] % self.lanes == 0
                return whole and even and self.along(value, lane, aligned)
            case _:
                return False


def widest(flow: Dataflow, results: Sequence[int], known: frozenset[int] = frozenset()) -> int:
    """The lanes that suit all results along their last axis; 0 where elements go one by one."""
    shapes = [flow.types[value].shape for value in results]
    if any(not shape for shape in shapes):
        return 0
    moved = [*range(flow.given), *results]
    smallest = min(BYTES[MEMORY[flow.types[value].dtype]] for value in moved)
    for lanes in (8, 4, 2):
        if lanes * smallest > 16 or any(shape[-1] % lanes for shape in shapes):
            continue
        test = Lanes(flow, lanes, known)
        if all(test.along(value, len(shape) - 1) for value, shape in zip(results, shapes, strict=True)):
            return lanes
    return 0
