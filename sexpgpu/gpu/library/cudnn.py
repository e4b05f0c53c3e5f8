"""cuDNN through its frontend: plans of graphs on an open GPU.

Building a graph needs no GPU; plans of it do, and are made when a graph is first asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from attrs import define

from sexpgpu.diag import error
from sexpgpu.gpu.driver import NoMemory
from sexpgpu.gpu.library.choice import Ways
from sexpgpu.gpu.library.cudnn_graphs import build_graph
from sexpgpu.gpu.library.workspace import Workspace
from sexpgpu.plan.library import AttentionGraph, ConvolutionGraph

NOT_INSTALLED = "cuDNN is not installed"
MINIMUM = 91300
"""cuDNN 9.13.0, as `backend_version` counts."""


@define(eq=False)
class Cudnn:
    """cuDNN on an open GPU: `version`, a handle whose stream is the driver's, and memory to work in."""

    module: Any
    handle: Any
    version: str
    workspace: Workspace

    def ways(self, library: AttentionGraph | ConvolutionGraph) -> Ways | str:
        """What computes a graph at given addresses, or why cuDNN refuses it."""
        try:
            built = build_graph(self.module, library, handle=self.handle)
            graph = built.graph
            graph.validate()
            graph.build_operation_graph()
            graph.create_execution_plans([self.module.heur_mode.A, self.module.heur_mode.FALLBACK])
            if isinstance(library, ConvolutionGraph):
                graph.deselect_numeric_notes(self._deselected(library))
            graph.check_support()
            graph.build_plans()
            workspace = self.workspace.at_least(int(graph.get_workspace_size()))
        except NoMemory as fault:
            return f"no memory for a workspace of {fault.nbytes} bytes"
        except (self.module.cudnnGraphNotSupportedError, RuntimeError, ValueError) as fault:
            return first_line(fault)

        def execute(addresses: Sequence[int]) -> None:
            try:
                graph.execute(dict(zip(built.numbers, addresses, strict=True)), workspace, handle=self.handle)
            except RuntimeError as fault:
                raise error("E-DEV-005", "the GPU failed at a graph of cuDNN's", actual=first_line(fault)) from None

        return {"cudnn": execute}

    def _deselected(self, library: ConvolutionGraph) -> list[Any]:
        """What plans must not do: give other bits each time, or round f32 before it is multiplied."""
        notes = self.module.numerical_note
        found = [notes.NONDETERMINISTIC, notes.REDUCED_PRECISION_REDUCTION]
        if library.tensors[0].type.dtype == "f32" and not library.tf32:
            found += [notes.TENSOR_CORE, notes.DOWN_CONVERT_INPUTS]
        return found


def open_cudnn(stream: int, workspace: Workspace) -> Cudnn | str:
    """cuDNN on the current context and a stream of it, or why it cannot be had."""
    try:
        module: Any = import_module("cudnn")
    except ImportError:
        return NOT_INSTALLED
    try:
        version = int(module.backend_version())
        if version < MINIMUM:
            return f"cuDNN {shown_version(version)} is older than {shown_version(MINIMUM)}"
        handle = module.create_handle()
        module.set_stream(handle=handle, stream=stream)
    except (RuntimeError, OSError) as fault:
        return f"cuDNN does not open: {first_line(fault)}"
    return Cudnn(module, handle, shown_version(version), workspace)


def shown_version(version: int) -> str:
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def first_line(fault: Exception) -> str:
    return str(fault).strip().partition("\n")[0] or type(fault).__name__
