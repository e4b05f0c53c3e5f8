"""From a dataflow to the plan of a graph."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from sexpgpu.experiment import Graph
from sexpgpu.plan.allocation import Allocation, Sizes, allocate, cpu_bytes, device_bytes, homes_of, sharing
from sexpgpu.plan.arena import aligned
from sexpgpu.plan.dataflow import Dataflow, Node, Structure
from sexpgpu.plan.records import GraphPlan, Launches, Slot, Step, Turns
from sexpgpu.tensortype import TensorType

INNER = Graph("", "", (), ())
"""The signature of a body, which has none of its own."""
TEMPORARY_ALIGNMENT = 256
VECTOR = 16
"""Bytes of the vectors that kernels read and write: an array that they are given begins at a multiple of them."""


def build(spec: Graph, flow: Dataflow, allocation: Allocation | None, sizes: Sizes = cpu_bytes) -> GraphPlan:
    """The plan of a graph; without an allocation every value gets memory of its own when it is made."""
    if allocation is None:
        homes = tuple(homes_of(flow, sharing(flow)))
        allocation = Allocation(homes, ((0, 0),) * len(flow.nodes), None)
    planned = allocation.memory is not None
    steps = []
    constants: list[NDArray[Any]] = []
    for node, workspace in zip(flow.nodes, allocation.workspaces, strict=True):
        if node.is_constant:
            constants.append(constant_of(node))
        else:
            attrs = tuple(node.attrs.items())
            bodies = tuple(
                [
                    build(INNER, body, body_allocation(body.structure, sizes) if planned else None, sizes)
                    for body in node.bodies
                ]
            )
            steps.append(Step(node.name, node.ins, node.outs, attrs, node.how, bodies, workspace, node.span, node.path))
    slots = tuple([Slot(type, home) for type, home in zip(flow.types, allocation.homes, strict=True)])
    memory = allocation.memory
    if memory is not None:  # constants are no steps, but have places in the flow
        before = sum(not node.is_constant for node in flow.nodes[: memory.step])
        memory = evolve(memory, step=min(before, max(len(steps) - 1, 0)))
    return GraphPlan(spec, slots, tuple(steps), tuple(constants), flow.results, memory)


def allocation_of(flow: Dataflow, sizes: Sizes = cpu_bytes) -> Allocation:
    """Lay out the arena of a graph, its bodies' within it."""
    return allocate(flow, [workspace_of(node, sizes) for node in flow.nodes], sizes)


@functools.lru_cache(maxsize=1024)
def body_allocation(structure: Structure, sizes: Sizes = cpu_bytes) -> Allocation:
    """The arena of a body. Layers repeat, so most bodies have been laid out before."""
    return allocation_of(structure.flow, sizes)


def has_workspace(node: Node) -> bool:
    """Whether a node needs memory beside its operands and results."""
    return bool(node.bodies) or (isinstance(node.how, Launches) and bool(node.how.temporaries))


def workspace_of(node: Node, sizes: Sizes = cpu_bytes) -> int:
    """The bytes that a loop or a group needs while it runs: the arena of its body, of a loop two sets of its states and
    on a GPU its rows that lie askew; or the temporaries of its kernels.
    """
    if isinstance(node.how, Launches):
        return temporary_offsets(node.how.temporaries)[-1]
    size = max((_arena(body, sizes) for body in node.bodies), default=0)
    if isinstance(node.how, Turns):
        body, states = node.bodies[0], node.how.states
        size += 2 * sum(state_sizes(body, states, sizes))
        if sizes is device_bytes:
            items = range(states, states + len(node.how.items))
            size += sum(map(askew_bytes, [body.types[v] for v in (*items, *body.results[states:])]))
    return size


def askew_bytes(row: TensorType) -> int:
    """What a row of a loop's items or outs takes where kernels reach it: 0 where every row of them begins aligned for
    the vectors that kernels read and write, else a place beside the rows, from which or to which it is copied.
    """
    return aligned(row.nbytes) if row.nbytes % VECTOR else 0


def temporary_offsets(sizes: Sequence[int]) -> tuple[int, ...]:
    """Where each temporary begins in the workspace of its step, and where the last ends."""
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + -(-size // TEMPORARY_ALIGNMENT) * TEMPORARY_ALIGNMENT)
    return tuple(offsets)


def state_sizes(body: Dataflow, states: int, sizes: Sizes = cpu_bytes) -> Sequence[int]:
    """The aligned bytes of the states that a loop's body gives."""
    return [aligned(sizes(body.types[value])) for value in body.results[:states]]


def _arena(body: Dataflow, sizes: Sizes) -> int:
    memory = body_allocation(body.structure, sizes).memory
    assert memory is not None
    return memory.arena


def constant_of(node: Node) -> NDArray[Any]:
    """The value of a constant, with one place along the axes on which it repeats."""
    assert node.record is not None
    return repeated_once(node.record.numpy(**node.attrs))


def repeated_once(value: NDArray[Any]) -> NDArray[Any]:
    """A copy of an array with one place along the axes on which it repeats."""
    return np.array(value[tuple([slice(0, 1) if step == 0 else slice(None) for step in value.strides])])
