"""Convolutions and their two derivatives as cuDNN has them, over one, two or three axes."""

from __future__ import annotations

import math

from sexpgpu.dialects.opdef import Window
from sexpgpu.passes.gpu.convolution import convolution_of
from sexpgpu.passes.gpu.layout import Layout
from sexpgpu.passes.gpu.library_product import FACTORS, is_small
from sexpgpu.passes.gpu.product_tiling import Problem
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.library import ConvolutionGraph, LibraryTensor

_PARTS = {"result": ("x", "w", "y"), "operand": ("y", "w", "x"), "kernel": ("x", "y", "w")}
"""What the operands and the result of each operation are."""
AXES = 3
"""Axes that windows slide over, at most."""


def convolution_graph(task: Task) -> ConvolutionGraph | None:
    """The graph for a group of one operation, a convolution or a derivative of one."""
    (node,) = task.flow.nodes
    assert node.record is not None
    kind = node.record.kind
    assert isinstance(kind, Window)
    conv = convolution_of(task, node)
    windows = conv.windows
    tensors = [
        _tensor(role, argument, task)
        for role, argument in zip(_PARTS[kind.side], (*node.ins, task.result(0)), strict=True)
    ]
    dtype = tensors[0].type.dtype
    size = math.prod(windows.count) * conv.images
    problem = Problem(
        conv.groups, conv.filters_each, conv.channels_each * math.prod(windows.kernel), size, dtype, tf32=task.tf32
    )
    if dtype not in FACTORS or tensors[1].type.dtype != dtype or len(windows.sizes) > AXES or is_small(problem):
        return None
    if any(step <= 0 for tensor in tensors for step, n in zip(tensor.strides, tensor.type.shape, strict=True) if n > 1):
        return None
    form = windows.stride, windows.low, windows.high, windows.dilation
    return ConvolutionGraph(tuple(tensors), kind.side, *form, task.tf32 and dtype == "f32")


def _tensor(role: str, argument: int, task: Task) -> LibraryTensor:
    layout: Layout = task.layout(argument)
    return LibraryTensor(role, argument, task.type(argument), layout.strides, layout.offset)
