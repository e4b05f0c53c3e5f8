"""Which groups a library of NVIDIA's could compute: that is said beside the kernels, which every device can run.

A device that has the library measures both, except where the kernel would take no longer than starting one does.
"""

from __future__ import annotations

from sexpgpu.dialects.groups import Family
from sexpgpu.dialects.opdef import Window
from sexpgpu.passes.gpu.library_attention import attention_graph
from sexpgpu.passes.gpu.library_convolution import convolution_graph
from sexpgpu.passes.gpu.library_product import product_graph
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.library import Library


def library_for(family: Family, task: Task, zeros: frozenset[int]) -> Library | None:
    """The graph for a group whose operands `zeros` are 0; None where no library has one.

    The task's flow is the group as it stands, with its composites in one piece.
    """
    match family:
        case "attention":
            return attention_graph(task, zeros)
        case "product":
            return product_graph(task)
        case "window":
            (node,) = task.flow.nodes
            assert node.record is not None
            is_convolution = isinstance(node.record.kind, Window) and node.record.kind.combine == "dot"
            return convolution_graph(task) if is_convolution else None
        case _:
            return None
