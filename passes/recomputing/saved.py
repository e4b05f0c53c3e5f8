"""What a graph keeps for its gradients, and the price of computing it again.

The price is a time on the roofline (Williams, Waterman and Patterson, Roofline: An Insightful Visual Performance Model,
2009), in bytes moved: what an operation reads and writes, and its products at BALANCE operations a byte.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from sexpgpu.dialects.opdef import Composite, Contract, Window
from sexpgpu.dialects.signature import read_outputs
from sexpgpu.passes.flow import operations_of, read_flow
from sexpgpu.plan.allocation import cpu_bytes, homes_of, sharing
from sexpgpu.plan.dataflow import Dataflow, Node
from sexpgpu.plan.records import Own
from sexpgpu.tensortype import TensorType

BALANCE = 8
"""Products and sums that a machine does in the time in which it moves a byte: a laptop about 5, a server about 20."""


@frozen(eq=False)
class Saved:
    """A graph with its gradients, by the numbers of `flow`.

    Operations before number `gradients` are the forward pass. `roots` names for each value the one whose memory it
    lives in, `sizes` the bytes of that memory, 0 where it is not the arena's; `prices` are by operation. `reads` has
    for each root that is made before and read behind `gradients` who reads which value of it. `last` is the last
    operation that reads a root, `forward` the last of the forward pass that makes or reads it.
    """

    flow: Dataflow
    gradients: int
    roots: Sequence[int]
    last: dict[int, int]
    forward: dict[int, int]
    sizes: Sequence[int]
    maker: dict[int, int]
    prices: Sequence[float]
    reads: dict[int, list[tuple[int, int]]]


def gradients_from(func: Any) -> int:
    """The number of the first operation behind all that the graph's other results need."""
    ops = operations_of(func)
    numbers = {op: number for number, op in enumerate(ops)}
    wanted = [v for v, o in zip(ops[-1].operands, read_outputs(func), strict=True) if o.role != "grad"]
    return max((numbers[op] for v in wanted if (op := _owner(v)) in numbers), default=-1) + 1


def _owner(value: Any) -> Any:
    return getattr(value.owner, "operation", None)


def read_saved(func: Any) -> Saved:
    """The graph of a `func.func` that gives gradients."""
    flow = read_flow(func, bodies=False)
    shared = sharing(flow)
    homes = homes_of(flow, shared)
    sizes = [cpu_bytes(type) if isinstance(home, Own) else 0 for type, home in zip(flow.types, homes, strict=True)]
    gradients = gradients_from(func)
    maker = {value: number for number, node in enumerate(flow.nodes) for value in node.outs}
    forward: dict[int, int] = {}
    reads: dict[int, list[tuple[int, int]]] = {}
    for number, node in enumerate(flow.nodes):
        for value in (*node.ins, *node.outs):
            root = shared.roots[value]
            if number < gradients:
                forward[root] = number
            elif sizes[root] and maker[value] < gradients:
                reads.setdefault(root, []).append((number, value))
    prices = [_price(node, flow.types, shared.roots) for node in flow.nodes]
    return Saved(flow, gradients, shared.roots, shared.last, forward, sizes, maker, prices, reads)


def _price(node: Node, types: Sequence[TensorType], roots: Sequence[int]) -> float:
    """Infinite for a loop, which is not worth the doubt."""
    if node.record is None:
        return math.inf
    if node.is_constant or all(roots[value] != value for value in node.outs):
        return 0
    moved = sum(cpu_bytes(types[value]) for value in (*node.ins, *node.outs))
    return moved + _products(node, [types[v] for v in node.ins], types[node.outs[0]]) / BALANCE


def _products(node: Node, ins: list[TensorType], out: TensorType) -> int:
    """Multiplications and additions of what is made of products."""
    assert node.record is not None
    match node.record.kind:
        case Contract():
            return 2 * out.size * ins[0].shape[-1]
        case Window(combine="dot", side=side):
            windows, kernel = {"result": (out, ins[1]), "operand": (ins[0], ins[1]), "kernel": (ins[1], out)}[side]
            return 2 * windows.size * math.prod(kernel.shape[1:])
        case Composite(family="attention", backward=backward):
            at = node.record.operands.index
            return (5 if backward else 2) * 2 * ins[at("q")].size * ins[at("k")].shape[2]
    return 0
