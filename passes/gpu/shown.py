"""Which operand of a group a value inside it shows, and how: through views, and functions of single elements."""

from __future__ import annotations

import numpy as np
from attrs import frozen
from numpy.lib.stride_tricks import as_strided

from sexpgpu.dialects.opdef import Move, Pointwise
from sexpgpu.passes.gpu.layout import Ints, Layout
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.dataflow import Node
from sexpgpu.plan.storage import viewed


@frozen(eq=False)
class Shown:
    """A value whose elements are those of operand `argument` at the places of `layout`, under the functions `computed`
    one after another.
    """

    argument: int
    layout: Layout
    computed: tuple[Node, ...]


def shown(task: Task, value: int) -> Shown | None:
    """The operand that a value of a task shows; None where it is no view of one."""
    makers = {out: node for node in task.flow.nodes for out in node.outs}
    chain = []
    while value in makers:
        node = makers[value]
        if len(node.ins) != 1 or node.record is None or not isinstance(node.record.kind, Move | Pointwise):
            return None
        chain.append(node)
        (value,) = node.ins
    layout = task.layouts[value]
    memory, view = _stand_in(layout)
    computed = []
    for node in reversed(chain):
        assert node.record is not None
        if isinstance(node.record.kind, Pointwise):
            computed.append(node)
            continue
        seen = viewed(node.record, node.attrs, view, task.flow.types[node.outs[0]])
        if seen is None:
            return None
        view = seen
    return Shown(value, _moved(Layout.of_view(view, memory), layout.offset), tuple(computed))


def reshaped(layout: Layout, shape: Ints) -> Layout | None:
    """The same elements in the same order as another shape; None where no strides say that."""
    memory, view = _stand_in(layout)
    try:
        return _moved(Layout.of_view(np.reshape(view, shape, copy=False), memory), layout.offset)
    except ValueError:
        return None


def _stand_in(layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    # One byte an element, so that strides are in elements whatever the dtype; these bytes are not read.
    memory = np.empty((), np.int8)
    return memory, as_strided(memory, layout.shape, layout.strides, writeable=False)


def _moved(layout: Layout, offset: int) -> Layout:
    return Layout(layout.shape, layout.strides, layout.offset + offset)
