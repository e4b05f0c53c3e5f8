"""What the elements of a group of functions depend on: those at their own places alone, and single ones for all."""

from __future__ import annotations

from collections.abc import Sequence

from sexpgpu.dialects.opdef import Constant, Dense, Move, Pointwise, Reduce
from sexpgpu.passes.gpu.task import Task

_COSTLY = frozenset({"pow", "sin", "cos"})
"""Functions of some hundred instructions."""
_MANY = 1 << 16
"""The elements from which on a kernel more costs less than a costly function in every thread."""


def is_flat(task: Task, values: Sequence[int], read: Sequence[int], folds: bool = False) -> bool:
    """Whether element n of each of `values` depends on nothing but elements n of dense operands, and on single ones.

    With `folds` a single element may be what all elements of a value are folded to.
    """
    flow = task.flow
    size = flow.types[values[0]].size
    for argument in read:
        layout = task.layout(argument)
        if task.type(argument).size not in (1, size) or not layout.is_dense or layout.offset:
            return False
    for node in flow.nodes:
        assert node.record is not None
        match node.record.kind:
            case Pointwise() | Move(form="same" | "reshape" | "broadcast"):
                if any(flow.types[v].size not in (1, size) for v in (*node.ins, *node.outs)):
                    return False
            case Reduce(combine=combine) if folds and combine not in ("argmax", "argmin"):
                if flow.types[node.ins[0]].size != size or flow.types[node.outs[0]].size != 1:
                    return False
            case Constant():
                if not isinstance(node.attrs.get("value"), Dense):
                    return False
            case _:
                return False
    return True


def costly_singles(task: Task) -> list[int]:
    """Single elements that are spread over many and take a costly function to make."""
    flow = task.flow
    sizes = [flow.types[value].size for value in task.results]
    if max(sizes) == 1 or (1 not in sizes and max(sizes) < _MANY):
        return []
    costly: set[int] = set()
    found: dict[int, None] = {}
    for node in flow.nodes:
        assert node.record is not None
        kind, (out, *_) = node.record.kind, node.outs
        if flow.types[out].size == 1:
            if not costly.isdisjoint(node.ins) or (isinstance(kind, Pointwise) and kind.scalar in _COSTLY):
                costly.add(out)
        else:
            found.update({v: None for v in node.ins if v in costly})
    return list(found)
