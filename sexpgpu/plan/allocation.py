"""Where each value of a graph lives: lifetimes, in-place results, views, results in the caller's memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Sequence

from attrs import field, frozen

from sexpgpu.dialects.opdef import numpy_dtype
from sexpgpu.plan.arena import Lifetime, place
from sexpgpu.plan.dataflow import Dataflow, Node, Structure
from sexpgpu.plan.records import At, Fixed, Given, Home, Into, Launches, Memory, Own, Tiles, View
from sexpgpu.plan.storage import Standin, may_view, standin, viewed
from sexpgpu.tensortype import TensorType

Sizes = Callable[[TensorType], int]


def cpu_bytes(type: TensorType) -> int:
    """Bytes of a tensor on a CPU, where bf16 values are kept in float32."""
    return type.size * numpy_dtype(type.dtype).itemsize


_DEVICE_ITEM = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "bf16": 2, "u8": 1, "bool": 1}


def device_bytes(type: TensorType) -> int:
    """Bytes of a tensor in the memory of a GPU."""
    return type.size * _DEVICE_ITEM[type.dtype]


SIZES: dict[str, Sizes] = {"cpu": cpu_bytes, "cuda": device_bytes}
"""The bytes of a tensor on each target."""


@frozen(eq=False)
class Sharing:
    """`roots` names for each value the one whose memory it lives in; `last` the step after which that is not read.

    `whole` are the views that show all of it, in the order in which it lies.
    """

    roots: tuple[int, ...]
    last: dict[int, int] = field(repr=False)
    whole: frozenset[int]


def sharing(flow: Dataflow) -> Sharing:
    """Which values are views, and how long the memory behind each value is needed."""
    roots = list(range(len(flow.types)))
    shown: dict[int, Standin] = {}
    whole: set[int] = set()
    for node in flow.nodes:
        if node.record is not None and may_view(node.record) and len(node.ins) == 1:
            (source,), (out,) = node.ins, node.outs
            operand = shown[source] if source in shown else standin(flow.types[source])
            view = viewed(node.record, node.attrs, operand, flow.types[out])
            if view is not None:
                roots[out] = roots[source]
                shown[out] = view
                if view.flags.c_contiguous and flow.types[out].size == flow.types[roots[out]].size:
                    whole.add(out)
    last: dict[int, int] = {}
    for step, node in enumerate(flow.nodes):
        for value in (*node.ins, *node.outs):
            last[roots[value]] = step
    for value in flow.results:
        last[roots[value]] = len(flow.nodes)
    return Sharing(tuple(roots), last, frozenset(whole))


@frozen
class Allocation:
    """A home for each value, the workspace (offset, bytes) of each node, and what the arena takes."""

    homes: tuple[Home, ...]
    workspaces: tuple[tuple[int, int], ...]
    memory: Memory | None


def homes_of(flow: Dataflow, shared: Sharing) -> list[Home]:
    """The homes that are known before the arena is laid out; what is left to it is `Own`."""
    homes: list[Home] = [Own()] * len(flow.types)
    for value in range(flow.given):
        homes[value] = Given(value)
    constants = 0
    for node in flow.nodes:
        if node.is_constant:
            homes[node.outs[0]] = Fixed(constants)
            constants += 1
    for value, root in enumerate(shared.roots):
        if root != value:
            homes[value] = View(root)
    given = set()
    for number, value in enumerate(flow.results):
        if isinstance(homes[value], Own) and value not in given:
            homes[value] = Into(number)
            given.add(value)
    _extend_results(flow, shared, homes)
    return homes


def _extend_results(flow: Dataflow, shared: Sharing, homes: list[Home]) -> None:
    """What a result is written over in place is made in the result's memory, and what that was, before it."""
    for step in range(len(flow.nodes) - 1, -1, -1):
        node = flow.nodes[step]
        for value in node.outs:
            if isinstance(homes[value], Into):
                taken = _taken_over(flow, node, step, value, homes, shared, set())
                if taken is not None:  # which is `Own` no more, so no other result takes it
                    homes[taken] = homes[value]


def allocate(flow: Dataflow, workspaces: Sequence[int], sizes: Sizes = cpu_bytes) -> Allocation:
    """Lay out one arena for every value that has no other home.

    `workspaces` are the bytes that each node needs beside its operands and results while it runs.
    """
    shared = sharing(flow)
    homes = homes_of(flow, shared)
    owner = list(range(len(flow.types)))  # the value whose buffer an in-place result takes over
    lifetimes: dict[int, Lifetime] = {}
    for step, node in enumerate(flow.nodes):
        used: set[int] = set()  # operands that a result of this node is written over
        for value in node.outs:
            if not isinstance(homes[value], Own):
                continue
            taken = _taken_over(flow, node, step, value, homes, shared, used)
            last = shared.last.get(value, step)
            if taken is None:
                lifetimes[value] = Lifetime(sizes(flow.types[value]), step, last)
            else:
                used.add(taken)
                owner[value] = owner[taken]
                first = lifetimes[owner[value]]
                lifetimes[owner[value]] = Lifetime(first.size, first.first, last)
    work = [(step, size) for step, size in enumerate(workspaces) if size]
    found = place([*lifetimes.values(), *(Lifetime(size, step, step) for step, size in work)])
    offsets = dict(zip(lifetimes, found.offsets, strict=False))
    for value, home in enumerate(homes):
        if isinstance(home, Own):
            homes[value] = At(offsets[owner[value]])
    spaces = [(0, 0)] * len(flow.nodes)
    for (step, size), offset in zip(work, found.offsets[len(lifetimes) :], strict=True):
        spaces[step] = (offset, size)
    return Allocation(tuple(homes), tuple(spaces), Memory(found.arena, found.live, found.step))


def _taken_over(
    flow: Dataflow, node: Node, step: int, value: int, homes: Sequence[Home], shared: Sharing, used: Container[int]
) -> int | None:
    """The value whose buffer the result may be written into: an operand's that nothing reads any more, of its type."""
    if node.record is not None and not (node.record.inplace and len(node.outs) == 1):
        return None
    roots = [shared.roots[v] for v in node.ins]
    for number, (operand, root) in enumerate(zip(node.ins, roots, strict=True)):
        entire = operand == root or (operand in shared.whole and not isinstance(homes[value], Into))
        dies = roots.count(root) == 1 and shared.last[root] == step and root not in used
        if not (entire and dies and isinstance(homes[root], Own) and flow.types[operand] == flow.types[value]):
            continue
        if node.record is not None:
            return root
        if isinstance(node.how, Launches) and node.how.over == number and value == node.outs[0]:
            return root
        if isinstance(node.how, Tiles) and _may_overwrite(node, number, node.outs.index(value)):
            return root
    return None


def _may_overwrite(node: Node, operand: int, result: int) -> bool:
    """Whether a group may write a result over an operand: no tile reads it once the result begins to be written."""
    assert isinstance(node.how, Tiles)
    cut = node.how.cut
    if cut[operand] != cut[len(node.ins) + result] or not (cut[operand] or len(node.how.shapes[0]) == 0):
        return False
    return all(_written_after_reads(body.structure, operand, result) for body in node.bodies)


@functools.lru_cache(maxsize=1024)
def _written_after_reads(structure: Structure, operand: int, result: int) -> bool:
    body = structure.flow
    shared = sharing(body)
    homes = homes_of(body, shared)
    writers = [step for step, node in enumerate(body.nodes) if any(homes[value] == Into(result) for value in node.outs)]
    if not writers:
        return False  # an argument or a constant as it is, copied when all is done
    last = max((step for step, node in enumerate(body.nodes) if operand in map(shared.roots.__getitem__, node.ins)))
    if last < writers[0]:
        return True
    writer = body.nodes[writers[0]]
    straight = writer.ins.count(operand) == 1 and [shared.roots[v] for v in writer.ins].count(operand) == 1
    return last == writers[0] and straight and writer.record is not None and writer.record.inplace
