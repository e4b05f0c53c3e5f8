"""Convolutions and their two derivatives, each element of the result a sum of products found by one warp.

    y[n, o, p]  = sum over c, k of  x[n, c, p stride + k dilation - low] w[o, c, k]
    x'[n, c, e] = sum over o, k of  g[n, o, p] w[o, c, k]    where  e = p stride + k dilation - low
    w'[o, c, k] = sum over n, p of  x[n, c, p stride + k dilation - low] g[n, o, p]

The lanes share the sum, its last axis the closest, and fold it by a tree.
"""

from __future__ import annotations

import math

from attrs import frozen

from sexpgpu.dialects.opdef import Window
from sexpgpu.dialects.window import Windows
from sexpgpu.passes.gpu.kernel import WARP, Index, Kernel, Reg
from sexpgpu.passes.gpu.layout import Ints, Place, coordinates
from sexpgpu.passes.gpu.memory import Operand, load, store
from sexpgpu.passes.gpu.scalar import REGISTER
from sexpgpu.passes.gpu.sweep import fused, over_warp
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.dataflow import Node
from sexpgpu.plan.records import Launches

THREADS = 128


@frozen(eq=False)
class _Sum:
    """One element of a result as a sum over `over`: at each place of it two factors, or nothing."""

    task: Task
    node: Node
    side: str
    windows: Windows
    filters: int
    channels: int
    groups: int

    @property
    def over(self) -> Ints:
        """The axes of the sum."""
        kernel, count = self.windows.kernel, self.windows.count
        first = self.task.type(self.node.ins[0]).shape
        match self.side:
            case "result":
                return (self.channels // self.groups, *kernel)
            case "operand":
                return (self.filters // self.groups, *kernel)
            case _:
                return (first[0], *count)

    def term(
        self, k: Kernel, tensors: dict[int, Operand], own: tuple[Index, ...], at: tuple[Index, ...], total: Reg
    ) -> list[Reg]:
        """The sum with the term at `at` added."""
        a, b = (tensors[v] for v in self.node.ins)
        per_filter, per_channel = self.filters // self.groups, self.channels // self.groups
        match self.side:
            case "result":
                image, filter_, window = own[0], own[1], own[2:]
                element, inside = self._element(k, window, at[1:])
                channel = k.add(k.mul(k.div(filter_, per_filter), per_channel), at[0])
                first, second = (image, channel, *element), (filter_, *at)
            case "operand":
                image, channel, element = own[0], own[1], own[2:]
                window, inside = self._window(k, element, at[1:])
                filter_ = k.add(k.mul(k.div(channel, per_channel), per_filter), at[0])
                first, second = (image, filter_, *window), (filter_, k.rem(channel, per_channel), *at[1:])
            case _:
                filter_, channel, places = own[0], own[1], own[2:]
                element, inside = self._element(k, at[1:], places)
                channel = k.add(k.mul(k.div(filter_, per_filter), per_channel), channel)
                first, second = (at[0], channel, *element), (at[0], filter_, *at[1:])

        def multiplied() -> list[Reg]:
            factors = [
                load(k, tensor, Place(tensor.layout.shape, None, known_axes=axes), 0)
                for tensor, axes in ((a, first), (b, second))
            ]
            return [fused(k, *factors, total)]

        return multiplied() if inside is None else k.either(inside, multiplied, [total])

    def _element(
        self, k: Kernel, window: tuple[Index, ...], place: tuple[Index, ...]
    ) -> tuple[tuple[Index, ...], Reg | None]:
        """The element of x at a place of a window, and whether it is no padding."""
        w = self.windows
        found: list[Index] = []
        inside = None
        for i, p, stride, dilation, low, high, n in zip(
            window, place, w.stride, w.dilation, w.low, w.high, w.sizes, strict=True
        ):
            at = k.sub(k.add(k.mul(i, stride), k.mul(p, dilation)), low)
            if low or high:
                inside = _both(k, inside, k.op("arith.xori", k.outside(k.reg(at), n), k.const(1, "i1")))
            found.append(at)
        return tuple(found), inside

    def _window(
        self, k: Kernel, element: tuple[Index, ...], place: tuple[Index, ...]
    ) -> tuple[tuple[Index, ...], Reg | None]:
        """The window that has the element at a place of it, and whether there is one."""
        w = self.windows
        found: list[Index] = []
        inside = None
        for e, p, stride, dilation, low, n in zip(element, place, w.stride, w.dilation, w.low, w.count, strict=True):
            begins = k.reg(k.sub(k.add(e, low), k.mul(p, dilation)))
            inside = _both(k, inside, k.compare("ge", begins, k.reg(0)))
            if stride > 1:
                inside = _both(k, inside, k.compare("eq", k.reg(k.rem(begins, stride)), k.reg(0)))
            number = k.reg(k.div(begins, stride))
            inside = _both(k, inside, k.below(number, n))
            found.append(number)
        return tuple(found), inside


def _both(k: Kernel, a: Reg | None, b: Reg) -> Reg:
    return b if a is None else k.op("arith.andi", a, b)


def lower(task: Task) -> Launches:
    """One kernel for one convolution or derivative of one."""
    (node,) = task.flow.nodes
    size = task.type(task.result(0)).size
    if not size:
        return task.lowered()
    sum_ = _sum_of(task, node)
    warps = THREADS // WARP
    k, tensors = task.begin(list(dict.fromkeys(node.ins)), [task.result(0)], -(-size // warps), THREADS)
    result = tensors[task.result(0)]
    thread = k.thread()
    lane = k.reg(k.rem(thread, WARP))
    number = k.add(k.mul(k.block_number(), warps), k.div(thread, WARP))
    with k.when(k.below(number, size)):
        place = Place(task.type(task.result(0)).shape, None, known_number=number)
        own = place.axes(k)
        zero = k.const(0, REGISTER[result.dtype])
        with k.loop(lane, math.prod(sum_.over), WARP, [zero]) as turn:
            at = coordinates(k, turn.index, sum_.over)
            turn.next(*sum_.term(k, tensors, own, at, turn.carried[0]))
        total = over_warp(k, turn.results[0], "addf")
        with k.when(k.compare("eq", lane, k.reg(0))):
            store(k, result, place, total, 0)
    k.end()
    return task.lowered()


def _sum_of(task: Task, node: Node) -> _Sum:
    assert node.record is not None
    kind = node.record.kind
    assert isinstance(kind, Window)
    first, second = (task.type(v).shape for v in node.ins)
    made = task.type(task.result(0)).shape
    match kind.side:
        case "result":
            x, w = first, second
        case "operand":
            x, w = made, second
        case _:
            x, w = first, made
    stride, low, high, dilation, groups = (node.attrs[name] for name in ("stride", "low", "high", "dilation", "groups"))
    windows = Windows(x[2:], w[2:], stride, low, high, dilation)
    return _Sum(task, node, kind.side, windows, w[0], x[1], groups)
