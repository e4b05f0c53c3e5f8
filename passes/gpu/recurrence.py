"""Loops whose turns compute every element from that element alone: one kernel, whose threads walk along the turns.

    h = a[t] * h + b[t]          a thread for each element of h, which stays in a register

Where the elements are too few to fill a GPU and turns may be combined first, several threads share an element
(`associative.py`). What is made of the outs beside the loop, a place before them, is written there at once.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from attrs import define, field, frozen

from sexpgpu.dialects.context import Context
from sexpgpu.dialects.loops import Loop
from sexpgpu.dialects.opdef import Constant, Dense, Move, Pointwise, Random
from sexpgpu.dialects.signature import type_of
from sexpgpu.passes.gpu.assembled import assembled, makers_of
from sexpgpu.passes.gpu.associative import Summaries, summaries_of
from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.kernel import WARP, Index, Kernel, Reg
from sexpgpu.passes.gpu.layout import Place
from sexpgpu.passes.gpu.lines import MULTIPROCESSORS
from sexpgpu.passes.gpu.memory import Operand, store
from sexpgpu.passes.gpu.primitive import primitive_flow
from sexpgpu.passes.gpu.scalar import REGISTER
from sexpgpu.passes.gpu.stretches import Stretches, exchanged
from sexpgpu.passes.gpu.task import Task
from sexpgpu.passes.gpu.turns import Recurrence, Sink, Turns, kept, row
from sexpgpu.plan.dataflow import Dataflow, Node
from sexpgpu.plan.records import Launches

_THREADS = 256


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
    """One kernel; the task's only loop is this, and what else there is is made of its results."""
    shape = recurrence.shape
    size = math.prod(shape)
    summaries = summaries_of(recurrence)
    stretches = Stretches.of(size, recurrence, summaries.bytes) if summaries is not None else None
    if stretches is None:
        threads = min(_THREADS, max(WARP, -(-size // (2 * MULTIPROCESSORS)) // WARP * WARP))
        blocks = -(-size // threads)
    else:
        threads, blocks = stretches.threads, -(-size // stretches.channels)
    results = [task.result(place) for place in range(len(task.results))]
    k, tensors = task.begin(list(range(task.flow.given)), results, blocks, threads)
    ends = _Ends.of(task, recurrence, tensors)
    turns = Turns(k, recurrence, [tensors[v] for v in ends.node.ins], ends.sinks)
    if summaries is None or stretches is None:
        number = k.add(k.mul(k.block_number(), threads), k.thread())
        with _where_below(k, number, size, exact=blocks * threads == size):
            ends.write(k, number, turns.write(number, 0, recurrence.turns, turns.first_states(number)))
    else:
        _write_by_stretches(turns, ends, summaries, stretches, exact=blocks * stretches.channels == size)
    k.end()
    return task.lowered()


def _where_below(k: Kernel, number: Index, size: int, exact: bool) -> AbstractContextManager[None]:
    """What is written within happens for numbers below `size`; with `exact` all are."""
    return nullcontext() if exact else k.when(k.below(number, size))


def _write_by_stretches(turns: Turns, ends: _Ends, summaries: Summaries, stretches: Stretches, exact: bool) -> None:
    k, size = turns.kernel, math.prod(turns.recurrence.shape)
    stretch = k.div(k.thread(), stretches.channels)
    number = k.add(k.mul(k.block_number(), stretches.channels), k.rem(k.thread(), stretches.channels))
    # Threads past the end repeat what the last one computes, since they wait with the others.
    known = number if exact else k.select(k.below(number, size), k.reg(number), k.reg(size - 1))
    first = k.mul(stretch, stretches.length)
    count = stretches.count(k, first)
    own = summaries.along(turns, known, first, count)
    states = exchanged(turns, known, summaries, stretches, stretch, own)
    with _where_below(k, number, size, exact):
        last = turns.write(known, first, count, states)
        with k.when(k.compare("eq", k.reg(stretch), k.reg(stretches.number - 1))):
            ends.write(k, known, last)


@frozen(eq=False)
class _Edge:
    """A result that is written behind the last turn: at the first place of `axis`, or wholly.

    `value` is the one that it is, None for 0.
    """

    operand: Operand
    value: int | None
    axis: int | None


@define(eq=False)
class _Ends:
    """Where what the loop's node makes goes, and what is made of it."""

    flow: Dataflow
    node: Node
    given: list[Operand]
    sinks: list[list[Sink]]
    edges: list[_Edge] = field(factory=list)

    @classmethod
    def of(cls, task: Task, recurrence: Recurrence, tensors: dict[int, Operand]) -> _Ends:
        flow, loop = task.flow, recurrence.loop
        (node,) = [node for node in flow.nodes if node.record is None]
        makers = makers_of(flow)
        outs = dict(zip(node.outs[loop.states :], loop.outs, strict=True))
        found = cls(flow, node, [tensors[v] for v in range(flow.given)], [[] for _ in loop.outs])
        for place, value in enumerate(task.results):
            target = tensors[task.result(place)]
            whole = assembled(flow, makers, value, outs)
            if value in outs:
                found.sinks[node.outs.index(value) - loop.states].append(Sink(target, outs[value]))
            elif whole is not None:
                axis = outs[whole.out]
                found.sinks[node.outs.index(whole.out) - loop.states].append(Sink(target, axis, 1))
                found.edges.append(_Edge(target, whole.first, axis))
            else:
                found.edges.append(_Edge(target, value, None))
        return found

    def write(self, k: Kernel, number: Index, states: list[Reg]) -> None:
        """What is made of the states behind the last turn, for the element with this number."""
        known = {value: partial(kept, state) for value, state in zip(self.node.outs, states, strict=False)}
        elements = Elements(k, self.flow, self.given, 0, dict(known))
        for edge in self.edges:
            dtype = edge.operand.dtype
            if edge.value is None:
                value = k.const(0, REGISTER[dtype])
            else:
                value = elements.at(edge.value, Place(self.flow.types[edge.value].shape, None, known_number=number))
            target = edge.operand if edge.axis is None else row(k, edge.operand, edge.axis, 0)
            store(k, target, Place(target.layout.shape, None, known_number=number), value, 0)
