"""Reductions that a thread computes for itself: those of short lines inside of others, and those of one element."""

from __future__ import annotations

import math

from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.folds import Fold, State
from sexpgpu.passes.gpu.kernel import Index, Reg
from sexpgpu.passes.gpu.layout import Ints, Place, coordinates
from sexpgpu.plan.dataflow import Node


def reduced_axes(node: Node) -> Ints:
    """The axes along which a reduction folds."""
    axes: Ints = node.attrs["axes"] if "axes" in node.attrs else (node.attrs["axis"],)
    return axes


def folded(elements: Elements, node: Node, place: Place) -> Reg:
    """The element of a reduction's result at a place."""
    k = elements.kernel
    (operand,) = node.ins
    type = elements.flow.types[operand]
    axes = reduced_axes(node)
    fold = Fold.of(node, type.dtype)
    sizes = tuple([type.shape[axis] for axis in axes])
    length = math.prod(sizes)
    if not length:
        return fold.nothing(k)
    assert place.lane_axis is None, "a thread folds one line at a time"
    kept = iter([i for axis, i in enumerate(place.axes(k)) if not (node.attrs["keepdims"] and axis in axes)])
    outer: list[Index] = [0 if axis in axes else next(kept) for axis in range(len(type.shape))]

    def element(number: Index) -> State:
        where = list(outer)
        for axis, index in zip(axes, coordinates(k, number, sizes), strict=True):
            where[axis] = index
        value = elements.at(operand, Place(type.shape, None, known_axes=tuple(where)))
        return fold.element(k, value, lambda: k.reg(number))

    if length == 1:
        return fold.result(k, element(0))
    with k.loop(0, length, 1, fold.identity(k, 0)) as loop, elements.scope():
        loop.next(*fold.merge(k, tuple(loop.carried), element(loop.index)))
    return fold.result(k, tuple(loop.results))
