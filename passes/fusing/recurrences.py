"""Loops that one kernel runs, as groups: each with the tensors that are assembled of its outs and a place before them.

    %l, %o = call @scan(%first, %rest)                     %y = call @scan_1(%first, %rest, %place)
    %y = concat %place, %o                           =>    func.func private @scan_1(...) {sx.group = "scan"}

They become groups before all others, which would otherwise read the outs from memory to put them elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sexpgpu.dialects.context import Context
from sexpgpu.dialects.groups import Outliner
from sexpgpu.dialects.loops import loop_of
from sexpgpu.passes.flow import operations_of, read_flow
from sexpgpu.passes.gpu.assembled import assembled, by_number, makers_of, parts_of
from sexpgpu.passes.gpu.recurrence import recurrence_of
from sexpgpu.plan.dataflow import Dataflow, Node


def group_recurrences(func: Any, outliner: Outliner, context: Context) -> int:
    """Make a group of every such loop of a graph; how many."""
    loops = [op for op in operations_of(func) if loop_of(op) is not None]
    found = [op for op in loops if recurrence_of(context, op, *loop_of(op)) is not None]  # type: ignore[misc]
    for op in found:
        _group(func, op, outliner)
    return len(found)


def _group(func: Any, op: Any, outliner: Outliner) -> None:
    ops = operations_of(func)
    at = next(i for i, other in enumerate(ops) if other == op)
    flow = read_flow(func, bodies=False)
    nodes = _members(flow, flow.nodes[at], _outs(op, flow.nodes[at]))
    numbers = {id(node): i for i, node in enumerate(flow.nodes)}
    members = [ops[numbers[id(node)]] for node in nodes]
    made = {result for member in members for result in member.results}
    operands = list(dict.fromkeys(v for member in members for v in member.operands if v not in made))
    inside = set(members)
    results = [
        result
        for member in members
        for result in member.results
        if any(use.owner.operation not in inside for use in result.uses)
    ]
    copied = [i for i, node in enumerate(nodes) if node.is_constant]
    results = [result for result in results if result.owner.operation not in {members[i] for i in copied}]
    outliner.outline("scan", members, ops[at + 1], copied=copied, operands=operands, results=results)


def _outs(op: Any, node: Node) -> dict[int, int]:
    """The axes of a loop's outs, by their values."""
    found = loop_of(op)
    assert found is not None
    loop = found[0]
    return dict(zip(node.outs[loop.states :], loop.outs, strict=True))


def _members(flow: Dataflow, loop: Node, outs: dict[int, int]) -> list[Node]:
    """The loop and what makes the tensors assembled of its outs, in order."""
    makers, readers = makers_of(flow), _readers(flow)
    states = len(loop.outs) - len(outs)
    found = {id(loop): loop}
    for value in makers:
        whole = assembled(flow, makers, value, outs)
        parts = parts_of(flow, makers, value, whole, loop, states) if whole is not None else None
        if parts is None:
            continue
        inside = {id(node) for node in parts}
        given = [out for node in parts for out in node.outs if not readers[out] <= inside]
        if all(by_number(makers[out]) or assembled(flow, makers, out, outs) is not None for out in given):
            found |= {id(node): node for node in parts}
    return [node for node in flow.nodes if id(node) in found]


def _readers(flow: Dataflow) -> dict[int, set[int]]:
    """The nodes that read each value, by their ids; the function's end is 0."""
    found: dict[int, set[int]] = defaultdict(set)
    for node in flow.nodes:
        for value in node.ins:
            found[value].add(id(node))
    for value in flow.results:
        found[value].add(0)
    return found
