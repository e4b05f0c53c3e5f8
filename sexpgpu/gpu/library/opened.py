"""The libraries of an open GPU: each that is there, and why each other is not."""

from __future__ import annotations

from collections.abc import Callable

from sexpgpu.gpu.choices import Choices
from sexpgpu.gpu.library.choice import Libraries, Source
from sexpgpu.gpu.library.cublaslt import open_cublaslt
from sexpgpu.gpu.library.cudnn import open_cudnn
from sexpgpu.gpu.library.workspace import Workspace
from sexpgpu.plan.library import AttentionGraph, ConvolutionGraph, ProductGraph


def open_libraries(stream: int, allocate: Callable[[int], int], limit: int, choices: Choices) -> Libraries:
    """cuDNN and cublasLt on a stream of the current context; together they work in no more than `limit` bytes."""
    workspace = Workspace(allocate, limit)
    cudnn = open_cudnn(stream, workspace)
    lt = open_cublaslt(stream, workspace)
    by_cudnn = cudnn if isinstance(cudnn, str) else Source(f"cuDNN {cudnn.version}", cudnn.ways)
    by_lt = lt if isinstance(lt, str) else Source(f"cublasLt {lt.version}", lt.ways)
    return Libraries({AttentionGraph: by_cudnn, ConvolutionGraph: by_cudnn, ProductGraph: by_lt}, choices)
