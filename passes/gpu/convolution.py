"""Convolutions and their two derivatives as matrix products whose factors are nowhere in memory.

    y[n, o, p]  = sum over c, k of  w[o, c, k] x[n, c, e]
    x'[n, c, e] = sum over o, k of  w[o, c, k] g[n, o, p]
    w'[o, c, k] = sum over n, p of  g[n, o, p] x[n, c, e]        where  e = p stride + k dilation - low

For each group of channels, rows are the first index of a result and columns the others (images too), and the sum is
over what is left. A factor's element is found by its line and its place in the sum when a block brings it to shared
memory; what is padding is zero there. Chetlur et al., "cuDNN: efficient primitives for deep learning" (2014).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import define, frozen

from sexpgpu.dialects.opdef import Window
from sexpgpu.dialects.window import Windows
from sexpgpu.passes.gpu.kernel import BYTES, Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.layout import Layout, coordinates, offset_of
from sexpgpu.passes.gpu.memory import WIDEST, Operand
from sexpgpu.passes.gpu.product import write
from sexpgpu.passes.gpu.product_factor import Along, Factor
from sexpgpu.passes.gpu.product_results import Number, Product
from sexpgpu.passes.gpu.product_tiling import Problem
from sexpgpu.passes.gpu.scalar import MEMORY, loaded
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.dataflow import Node
from sexpgpu.plan.records import Launches

Axes = tuple[Index, ...]
Find = Callable[[Index, Index, Index], tuple[Axes, Reg | None]]
"""The axes of a tensor's element by group, line and place in the sum, and whether it is no padding."""


@define(eq=False)
class Found:
    """A factor whose elements `find` says, of a tensor in memory."""

    kernel: Kernel
    operand: Operand
    lines: int
    depth: int
    lanes: int
    along: Along
    find: Find

    @property
    def copied(self) -> bool:
        return self.lanes * BYTES[MEMORY[self.operand.dtype]] in (4, 8, 16)

    def read(self, batch: Index, line: Index, place: Index) -> Reg:
        k = self.kernel
        axes, inside = self.find(batch, line, place)
        at = self._index(axes)
        if inside is not None:
            at = k.select(inside, k.reg(at), k.reg(self.operand.layout.offset))
        value = loaded(k, k.load(self.operand.pointer, at, self.lanes), self.operand.dtype)
        if inside is None:
            return value
        return k.select(inside, value, k.const(0, value.type, value.lanes))

    def address(self, batch: Index, line: Index, place: Index) -> tuple[Pointer, Index]:
        axes, _ = self.find(batch, line, place)
        return self.operand.pointer, self._index(axes)

    def _index(self, axes: Axes) -> Index:
        layout = self.operand.layout
        return self.kernel.add(offset_of(self.kernel, axes, layout.strides), layout.offset)


@frozen
class Convolution:
    """The sizes of a convolution: x [images, channels, sizes...], w [filters, channels / groups, kernel...]."""

    images: int
    channels: int
    filters: int
    groups: int
    windows: Windows

    @property
    def channels_each(self) -> int:
        """Channels of a group."""
        return self.channels // self.groups

    @property
    def filters_each(self) -> int:
        """Filters of a group."""
        return self.filters // self.groups

    @property
    def is_plain(self) -> bool:
        """Whether windows are single elements, one beside another: then x is read as it lies."""
        w = self.windows
        return w.count == w.sizes and all(n == 1 for n in (*w.kernel, *w.stride))


def convolution_of(task: Task, node: Node) -> Convolution:
    """The sizes of the convolution that a node is, or is a derivative of."""
    assert node.record is not None
    kind = node.record.kind
    assert isinstance(kind, Window)
    first, second = (task.type(v).shape for v in node.ins)
    made = task.flow.types[node.outs[0]].shape
    match kind.side:
        case "result":
            x, w = first, second
        case "operand":
            x, w = made, second
        case _:
            x, w = first, made
    stride, low, high, dilation, groups = (node.attrs[name] for name in ("stride", "low", "high", "dilation", "groups"))
    return Convolution(x[0], x[1], w[0], groups, Windows(x[2:], w[2:], stride, low, high, dilation))


def lower(task: Task) -> Launches:
    """The kernels of a product: one, or two where the sum is in parts."""
    (node,) = task.flow.nodes
    conv = convolution_of(task, node)
    assert node.record is not None
    assert isinstance(node.record.kind, Window)
    first, second = node.ins
    windows, sizes = math.prod(conv.windows.count), math.prod(conv.windows.sizes)
    kernel = math.prod(conv.windows.kernel)
    factors: Callable[[Kernel, Convolution, Operand, Operand, tuple[int, int]], tuple[Factor, Factor]]
    number: Number | None = None
    lanes = 0, 0
    match node.record.kind.side:
        case "result":
            shape = conv.filters_each, conv.images * windows, conv.channels_each * kernel
            lanes = _lanes(task, second, 1, shape[2]), _lanes(task, first, 2, shape[1]) if conv.is_plain else 0
            number, run = _by_image(conv.filters_each, conv.filters, windows), windows
            factors = _result_factors
        case "operand":
            shape = conv.channels_each, conv.images * sizes, conv.filters_each * kernel
            number, run = _by_image(conv.channels_each, conv.channels, sizes), sizes
            factors = _operand_factors
        case _:
            shape = conv.filters_each, conv.channels_each * kernel, conv.images * windows
            run = conv.channels_each * kernel
            lanes = _lanes(task, second, 2, shape[2]), _lanes(task, first, 2, shape[2]) if conv.is_plain else 0
            factors = _kernel_factors

    def opened(k: Kernel, operands: dict[int, Operand]) -> tuple[Factor, Factor]:
        return factors(k, conv, operands[first], operands[second], lanes)

    scattered = not lanes[0], not lanes[1]
    problem = Problem(conv.groups, *shape, task.type(first).dtype, scattered, tf32=task.tf32)
    write(Product(task, node, problem, opened, run, number))
    return task.lowered()


def _by_image(lines: int, all_lines: int, run: int) -> Callable[[Kernel, Index, Index, Index], Index]:
    """Numbers in [images, all_lines, run], of rows that are lines of a group and columns that are [images, run]."""

    def number(k: Kernel, group: Index, row: Index, column: Index) -> Index:
        image, place = k.div(column, run), k.rem(column, run)
        line = k.add(k.add(k.mul(image, all_lines), k.mul(group, lines)), row)
        return k.add(k.mul(line, run), place)

    return number


def _result_factors(
    k: Kernel, conv: Convolution, x: Operand, w: Operand, lanes: tuple[int, int]
) -> tuple[Factor, Factor]:
    over = (conv.channels_each, *conv.windows.kernel)

    def weight(group: Index, line: Index, place: Index) -> tuple[Axes, None]:
        return (k.add(k.mul(group, conv.filters_each), line), *coordinates(k, place, over)), None

    def element(group: Index, line: Index, place: Index) -> tuple[Axes, Reg | None]:
        image, *window = coordinates(k, line, (conv.images, *conv.windows.count))
        channel, *within = coordinates(k, place, over)
        at, inside = _element(k, conv.windows, window, within)
        return (image, k.add(k.mul(group, conv.channels_each), channel), *at), inside

    depth, columns = math.prod(over), conv.images * math.prod(conv.windows.count)
    return (
        Found(k, w, conv.filters_each, depth, lanes[0], "depth", weight),
        Found(k, x, columns, depth, lanes[1], "lines", element),
    )


def _operand_factors(
    k: Kernel, conv: Convolution, g: Operand, w: Operand, lanes: tuple[int, int]
) -> tuple[Factor, Factor]:
    over = (conv.filters_each, *conv.windows.kernel)

    def weight(group: Index, line: Index, place: Index) -> tuple[Axes, None]:
        filter_, *within = coordinates(k, place, over)
        return (k.add(k.mul(group, conv.filters_each), filter_), line, *within), None

    def window(group: Index, line: Index, place: Index) -> tuple[Axes, Reg | None]:
        image, *at = coordinates(k, line, (conv.images, *conv.windows.sizes))
        filter_, *within = coordinates(k, place, over)
        found, inside = _window(k, conv.windows, at, within)
        return (image, k.add(k.mul(group, conv.filters_each), filter_), *found), inside

    depth, columns = math.prod(over), conv.images * math.prod(conv.windows.sizes)
    return (
        Found(k, w, conv.channels_each, depth, lanes[0], "depth", weight),
        Found(k, g, columns, depth, lanes[1], "lines", window),
    )


def _kernel_factors(
    k: Kernel, conv: Convolution, x: Operand, g: Operand, lanes: tuple[int, int]
) -> tuple[Factor, Factor]:
    over = (conv.images, *conv.windows.count)

    def cotangent(group: Index, line: Index, place: Index) -> tuple[Axes, None]:
        image, *window = coordinates(k, place, over)
        return (image, k.add(k.mul(group, conv.filters_each), line), *window), None

    def element(group: Index, line: Index, place: Index) -> tuple[Axes, Reg | None]:
        channel, *within = coordinates(k, line, (conv.channels_each, *conv.windows.kernel))
        image, *window = coordinates(k, place, over)
        at, inside = _element(k, conv.windows, window, within)
        return (image, k.add(k.mul(group, conv.channels_each), channel), *at), inside

    depth, columns = math.prod(over), conv.channels_each * math.prod(conv.windows.kernel)
    return (
        Found(k, g, conv.filters_each, depth, lanes[0], "depth", cotangent),
        Found(k, x, columns, depth, lanes[1], "depth", element),
    )


def _lanes(task: Task, argument: int, first: int, count: int) -> int:
    """Elements of an operand's axes from `first` on that are read at once, where `count` are along the product."""
    layout, item = task.layout(argument), BYTES[MEMORY[task.type(argument).dtype]]
    if not Layout(layout.shape[first:], layout.strides[first:]).is_dense:
        return 0
    run = math.prod(layout.shape[first:])
    others = (*layout.strides[:first], layout.offset, run, count)
    return next((n for n in (8, 4, 2) if n * item <= WIDEST and all(s % n == 0 for s in others)), 0)


def _element(k: Kernel, w: Windows, window: list[Index], place: list[Index]) -> tuple[Axes, Reg | None]:
    """The element of x at a place of a window, and whether it is no padding."""
    found: list[Index] = []
    inside = None
    for axis, n in enumerate(w.sizes):
        begin = k.sub(k.mul(window[axis], w.stride[axis]), w.low[axis])
        at = k.add(begin, k.mul(place[axis], w.dilation[axis]))
        if w.low[axis] or w.high[axis]:
            inside = _both(k, inside, _within(k, at, n))
        found.append(at)
    return tuple(found), inside


def _window(k: Kernel, w: Windows, element: list[Index], place: list[Index]) -> tuple[Axes, Reg | None]:
    """The window that has the element at a place of it, and whether there is one."""
    found: list[Index] = []
    inside = None
    for axis, n in enumerate(w.count):
        begin = k.sub(k.add(element[axis], w.low[axis]), k.mul(place[axis], w.dilation[axis]))
        # One before the first window is no number of a window either, read as one without a sign.
        number = k.div(begin, w.stride[axis])
        inside = _both(k, inside, _within(k, number, n))
        if w.stride[axis] > 1:
            inside = _both(k, inside, k.compare("eq", k.reg(k.rem(begin, w.stride[axis])), k.reg(0)))
        found.append(number)
    return tuple(found), inside


def _within(k: Kernel, index: Index, size: int) -> Reg:
    return k.op("arith.xori", k.outside(k.reg(index), size), k.const(1, "i1"))


def _both(k: Kernel, a: Reg | None, b: Reg) -> Reg:
    return b if a is None else k.op("arith.andi", a, b)
