"""Attention in bf16 as cuDNN has it, which calls it "scaled dot product".

What suits: bf16, heads of up to 128 in eights, no bias, no window, elements of a row one behind another, rows aligned
to 16 bytes. The backward pass takes no cotangent of the rows' logarithms, so that has to be a constant 0, as it is in
training.
"""

from __future__ import annotations

from typing import Any

from mlir import ir

from sexpgpu.dialects.opdef import Composite, Constant, Dense
from sexpgpu.dialects.read import attrs_of, definition_of
from sexpgpu.passes.gpu.attention_warp import form_of, written
from sexpgpu.passes.gpu.layout import Layout
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.library import AttentionGraph, LibraryTensor
from sexpgpu.tensortype import TensorType

LONGEST, GRAIN = 128, 8
"""Elements of a head that cuDNN takes from compute capability 8.0 on, and what they are a multiple of."""
FORWARD, SLOPES = ("y", "lse"), ("dq", "dk", "dv")


def zero_operands(op: Any) -> frozenset[int]:
    """The operands of a call that are constants of nothing but zeros."""
    return frozenset(place for place, value in enumerate(op.operands) if _is_zero(value))


def _is_zero(value: Any) -> bool:
    owner = value.owner
    record = None if isinstance(owner, ir.Block) else definition_of(owner)
    if record is None or not isinstance(record.kind, Constant) or len(owner.operands):
        return False
    dense = attrs_of(owner).get("value")
    return isinstance(dense, Dense) and dense.is_splat and not record.numpy(**attrs_of(owner)).any()


def attention_graph(task: Task, zeros: frozenset[int]) -> AttentionGraph | None:
    """The graph for a group of attention whose operands `zeros` are 0; None where it does not suit."""
    node = task.flow.nodes[0]
    record = node.record
    if record is None or not isinstance(record.kind, Composite):
        return None
    given = dict(zip(record.operands, node.ins, strict=True))
    form = form_of(node)
    backward = record.kind.backward
    if "bias" in given or form.window or (backward and given["h"] not in zeros):
        return None
    names = SLOPES if backward else FORWARD
    tensors = [
        *(_tensor(role, place, task.type(place), task.layouts[place]) for role, place in given.items() if role != "h"),
        *(
            _tensor(role, result.argument, task.flow.types[value], result.layout)
            for role, value, result in zip(names, node.outs, written(task, node), strict=True)
        ),
    ]
    if not all(map(_suits, tensors)):
        return None
    return AttentionGraph(tuple(tensors), form.scale, form.causal, backward)


def _tensor(role: str, argument: int, type: TensorType, layout: Layout) -> LibraryTensor:
    return LibraryTensor(role, argument, type, layout.strides, layout.offset)


def _suits(tensor: LibraryTensor) -> bool:
    shape, strides = tensor.type.shape, tensor.strides
    if not tensor.type.size:
        return False
    if tensor.role == "lse":
        return tensor.type.dtype == "f32" and Layout(shape, strides).is_dense and not tensor.offset
    if tensor.type.dtype != "bf16" or shape[-1] > LONGEST or shape[-1] % GRAIN:
        return False
    # An axis of one place has any stride; a repeated one would make results of gradients overlap.
    aligned = all(step and step % GRAIN == 0 for step, n in zip(strides[:-1], shape[:-1], strict=True) if n > 1)
    return strides[-1] == 1 and aligned and tensor.offset % GRAIN == 0
