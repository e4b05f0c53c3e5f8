"""Windows that slide over tensors: pools, and convolutions as products."""

from __future__ import annotations

from sexpgpu.dialects.opdef import Window
from sexpgpu.passes.gpu import convolution, pool
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.records import Launches


def lower(task: Task) -> Launches:
    (node,) = task.flow.nodes
    assert node.record is not None
    assert isinstance(node.record.kind, Window)
    return convolution.lower(task) if node.record.kind.combine == "dot" else pool.lower(task)
