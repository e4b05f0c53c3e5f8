"""Loops whose turns compute every element from that element alone: one kernel, whose threads walk along the turns.

    h = a[t] * h + b[t]          a thread for each element of h, which stays in a register

Nothing of a turn goes to memory but its outs. What several turns read is asked for before the first of them computes,
so that memory is waited for once for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from attrs import define, evolve, frozen

from sexpgpu.dialects.context import Context
from sexpgpu.dialects.loops import Loop
from sexpgpu.dialects.opdef import Constant, Dense, Move, Pointwise, Random
from sexpgpu.dialects.signature import type_of
from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.kernel import WARP, Index, Kernel, Reg
from sexpgpu.passes.gpu.layout import Layout, Place
from sexpgpu.passes.gpu.lines import MULTIPROCESSORS
from sexpgpu.passes.gpu.memory import Operand, load, store
from sexpgpu.passes.gpu.primitive import primitive_flow
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.dataflow import Dataflow, Node
from sexpgpu.plan.records import Launches

_THREADS = 256
_AHEAD = 4
"""Turns whose items are read before the first of them computes."""
_LONG = 96
"""Operations of a body from which on one turn at a time is code enough."""


@frozen(eq=False)
class Recurrence:
    """A loop with its body as operations on elements."""

    loop: Loop
    turns: int
    body: Dataflow


def recurrence_of(context: Context, op: Any, loop: Loop, body: Any) -> Recurrence | None:
    """The loop that `op` runs, where one kernel can run it whole; None where its turns look at other elements."""
    flow = primitive_flow(context, body)
    if not by_elements(flow, loop.states):
        return None
    return Recurrence(loop, loop.turns([type_of(v) for v in op.operands]), flow)


def by_elements(flow: Dataflow, states: int) -> bool:
    """Whether what a body gives has one shape, and each element of it depends on that element of the states alone."""
    shape = flow.types[flow.results[0]].shape
    if any(flow.types[value].shape != shape for value in (*flow.results, *range(states))) or 0 in shape:
        return False
    carried = set(range(states))
    for node in flow.nodes:
        reads = not carried.isdisjoint(node.ins)
        if not (_in_place(node, flow) if reads else _anywhere(node)):
            return False
        if reads:
            carried.update(node.outs)
    return True


def _in_place(node: Node, flow: Dataflow) -> bool:
    """Whether each element of the result is made from the operands' elements at its own place."""
    if node.record is None:
        return False
    match node.record.kind:
        case Pointwise():
            return True
        case Move(form="same" | "reshape"):  # places are known by their numbers
            return True
        case Move(form="broadcast"):
            return flow.types[node.ins[0]].shape == flow.types[node.outs[0]].shape
        case _:
            return False


def _anywhere(node: Node) -> bool:
    """Whether an element of the result can be made alone, wherever it lies."""
    if node.record is None:
        return False
    match node.record.kind:
        case Pointwise() | Move() | Random():
            return True
        case Constant():
            dense = node.attrs.get("value")
            return not isinstance(dense, Dense) or dense.is_splat
        case _:
            return False


def lower(task: Task, recurrence: Recurrence) -> Launches:
    """One kernel; the task's only operation is the loop."""
    (node,) = task.flow.nodes
    flow = recurrence.body
    shape = flow.types[flow.results[0]].shape
    size = math.prod(shape)
    threads = min(_THREADS, max(WARP, -(-size // (2 * MULTIPROCESSORS)) // WARP * WARP))
    blocks = -(-size // threads)
    results = [task.result(place) for place in range(len(task.results))]
    k, tensors = task.begin(list(range(task.flow.given)), results, blocks, threads)
    number = k.add(k.mul(k.block_number(), threads), k.thread())
    walk = _Walk(k, recurrence, [tensors[v] for v in node.ins], [tensors[a] for a in results], shape)
    if blocks * threads == size:
        walk.write(number)
    else:
        with k.when(k.below(number, size)):
            walk.write(number)
    k.end()
    return task.lowered()


@define(eq=False)
class _Walk:
    """The turns of one thread; `operands` and `results` are those of the loop."""

    kernel: Kernel
    recurrence: Recurrence
    operands: Sequence[Operand]
    results: Sequence[Operand]
    shape: tuple[int, ...]

    def write(self, number: Index) -> None:
        """All turns of the element with this number."""
        k, loop, turns = self.kernel, self.recurrence.loop, self.recurrence.turns
        states = [load(k, operand, self._at(number), 0) for operand in self.operands[: loop.states]]
        ahead = 1 if len(self.recurrence.body.nodes) > _LONG else _AHEAD
        whole = turns // ahead * ahead
        if whole:
            with k.loop(0, whole, ahead, states) as chunk:
                chunk.next(*self._turns(number, chunk.index, ahead, chunk.carried))
            states = chunk.results
        if whole < turns:
            states = self._turns(number, whole, turns - whole, states)
        for operand, state in zip(self.results, states, strict=False):
            store(k, operand, self._at(number), state, 0)

    def _at(self, number: Index) -> Place:
        """A place of its own for whoever asks: coordinates, once worked out, are those of a loop or condition."""
        return Place(self.shape, None, known_number=number)

    def _turns(self, number: Index, first: Index, count: int, states: Sequence[Reg]) -> list[Reg]:
        """Write `count` turns from turn `first` on: the states behind them."""
        k, recurrence, at = self.kernel, self.recurrence, self._at(number)
        places = [self._place(k.add(first, turn)) for turn in range(count)]
        elements = [Elements(k, recurrence.body, self._given(place), 0) for place in places]
        for each in elements:
            self._read(each, at)
        current = list(states)
        last = recurrence.loop.states
        for place, each in zip(places, elements, strict=True):
            each.known.update({number: partial(_kept, state) for number, state in enumerate(current)})
            made = [each.at(value, at) for value in recurrence.body.results]
            for axis, out, value in zip(recurrence.loop.outs, self.results[last:], made[last:], strict=True):
                store(k, _row(k, out, axis, place), at, value, 0)
            current = made[:last]
        return current

    def _place(self, turn: Index) -> Index:
        """Where the items and outs of a turn lie."""
        return self.kernel.sub(self.recurrence.turns - 1, turn) if self.recurrence.loop.reverse else turn

    def _given(self, place: Index) -> list[Operand]:
        """The operands of the body in the turn at a place."""
        loop = self.recurrence.loop
        first, behind = loop.states, loop.states + len(loop.items)
        items = [
            _row(self.kernel, operand, axis, place)
            for operand, axis in zip(self.operands[first:behind], loop.items, strict=True)
        ]
        return [*self.operands[:first], *items, *self.operands[behind:]]

    def _read(self, elements: Elements, at: Place) -> None:
        """Ask for the items that functions of elements read at this place."""
        flow, loop = self.recurrence.body, self.recurrence.loop
        items = range(loop.states, loop.states + len(loop.items))
        read = {v for node in flow.nodes if node.record and isinstance(node.record.kind, Pointwise) for v in node.ins}
        for item in items:
            if item in read and flow.types[item].shape == self.shape:
                elements.at(item, at)


def _kept(state: Reg, place: Place) -> Reg:
    """The element of a state at the thread's place, which is the only one that is asked for."""
    return state


def _row(k: Kernel, operand: Operand, axis: int, place: Index) -> Operand:
    """The part of a tensor at a place along an axis."""
    layout = operand.layout
    start = k.address(operand.pointer, k.mul(place, layout.strides[axis]))
    rest = [i for i in range(len(layout.shape)) if i != axis]
    shape, strides = (tuple(each[i] for i in rest) for each in (layout.shape, layout.strides))
    return Operand(evolve(operand.pointer, value=start), Layout(shape, strides, layout.offset), operand.dtype)
