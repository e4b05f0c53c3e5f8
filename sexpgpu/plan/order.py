"""An order of operations that keeps less alive at once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

from sexpgpu.plan.allocation import cpu_bytes, homes_of, sharing
from sexpgpu.plan.dataflow import Dataflow
from sexpgpu.plan.records import Own
from sexpgpu.tensortype import TensorType


def better_order(
    flow: Dataflow, behind: Mapping[int, int], sizes: Callable[[TensorType], int] = cpu_bytes
) -> list[int]:
    """The nodes in an order with a lower peak of live bytes than they have now, or as they are.

    List scheduling: of the operations whose operands are there, the one that frees most beyond what it makes comes
    next, and of equals the first written. Values in the caller's memory count for nothing.
    """
    weights, roots = _weights(flow, sizes)
    written = list(range(len(flow.nodes)))
    listed = _listed(flow, weights, roots, behind)
    return listed if live_peak(flow, weights, roots, listed) < live_peak(flow, weights, roots, written) else written


def _weights(flow: Dataflow, sizes: Callable[[TensorType], int]) -> tuple[list[int], Sequence[int]]:
    shared = sharing(flow)
    homes = homes_of(flow, shared)
    return [
        sizes(type) if isinstance(home, Own) else 0 for type, home in zip(flow.types, homes, strict=True)
    ], shared.roots


def live_peak(flow: Dataflow, weights: Sequence[int], roots: Sequence[int], order: Sequence[int]) -> int:
    """The most bytes alive at once when the nodes run in `order`."""
    left = _reads(flow, roots)
    live = most = 0
    for number in order:
        node = flow.nodes[number]
        live += sum(weights[v] for v in node.outs)
        most = max(most, live)
        for value in node.ins:
            left[roots[value]] -= 1
            if left[roots[value]] == 0:
                live -= weights[roots[value]]
        live -= sum(weights[v] for v in node.outs if left[roots[v]] == 0)
    return most


def _reads(flow: Dataflow, roots: Sequence[int]) -> list[int]:
    """How often the memory behind each value is read; a result of the graph once more."""
    reads = [0] * len(flow.types)
    for node in flow.nodes:
        for value in node.ins:
            reads[roots[value]] += 1
    for value in flow.results:
        reads[roots[value]] += 1
    return reads


def _listed(flow: Dataflow, weights: Sequence[int], roots: Sequence[int], behind: Mapping[int, int]) -> list[int]:
    maker: dict[int, int] = {value: number for number, node in enumerate(flow.nodes) for value in node.outs}
    users: list[set[int]] = [set() for _ in flow.nodes]
    readers: dict[int, list[int]] = {}  # by the memory that they read, where freeing it counts
    waiting = []
    for number, node in enumerate(flow.nodes):
        makers = {maker[v] for v in node.ins if v in maker} | {behind[n] for n in (number,) if n in behind}
        waiting.append(len(makers))
        for each in makers:
            users[each].add(number)
        for root in {roots[v] for v in node.ins}:
            if weights[root]:
                readers.setdefault(root, []).append(number)
    left = _reads(flow, roots)
    made = [sum(weights[v] for v in node.outs) for node in flow.nodes]

    def cost(number: int) -> int:
        ins = [roots[v] for v in flow.nodes[number].ins]
        return made[number] - sum(weights[root] for root in set(ins) if left[root] == ins.count(root))

    ready = [(cost(number), number) for number, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    order: list[int] = []
    done = [False] * len(flow.nodes)
    while ready:
        expected, number = heapq.heappop(ready)
        if done[number]:
            continue
        if (now := cost(number)) != expected:  # it frees more since others have run
            heapq.heappush(ready, (now, number))
            continue
        done[number] = True
        order.append(number)
        for value in flow.nodes[number].ins:
            left[roots[value]] -= 1
        for user in sorted(users[number]):
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, (cost(user), user))
        for root in {roots[v] for v in flow.nodes[number].ins}:
            if 0 < left[root] <= 2:  # one reader is left, which now frees the memory
                for reader in readers.get(root, ()):
                    if not done[reader] and waiting[reader] == 0:
                        heapq.heappush(ready, (cost(reader), reader))
    return order
