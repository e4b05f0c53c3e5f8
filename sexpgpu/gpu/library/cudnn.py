"""cuDNN through its frontend: the graphs of attention, built from records, and plans of them on an open GPU.

Names are those of the cuDNN frontend's documentation, "Attention". Building and validating a graph needs no GPU; plans
of it do, and are made when a graph is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from attrs import define, field, frozen

from sexpgpu.diag import error
from sexpgpu.gpu.driver import Execute, NoMemory
from sexpgpu.plan.library import Library, LibraryTensor

NOT_INSTALLED = "cuDNN is not installed"
MINIMUM = 91300
"""cuDNN 9.13.0, as `backend_version` counts."""
MADE = frozenset({"dq", "dk", "dv"})
_PARTS = {"y": "o", "g": "dO", "lse": "stats"}
"""What cuDNN calls the parts that have other names here."""


@frozen(eq=False)
class Built:
    """A graph, and the number by which it knows each tensor of the record, in order."""

    graph: Any
    numbers: tuple[int, ...]


def build_graph(cudnn: Any, library: Library, **properties: Any) -> Built:
    """The graph of a record, not validated; `properties` go to it: the handle, or the GPU that there would be."""
    graph = cudnn.pygraph(
        io_data_type=cudnn.data_type.BFLOAT16,
        intermediate_data_type=cudnn.data_type.FLOAT,
        compute_data_type=cudnn.data_type.FLOAT,
        **properties,
    )
    numbers = {each.role: number for number, each in enumerate(library.tensors, 1)}
    by_role = {each.role: each for each in library.tensors}
    form: dict[str, Any] = {"name": "attention", "attn_scale": library.scale}
    if library.causal:
        # The last query stands at the last key.
        rows, keys = by_role["q"].type.shape[2], by_role["k"].type.shape[2]
        corner = cudnn.diagonal_alignment
        form["diagonal_alignment"] = corner.TOP_LEFT if rows == keys else corner.BOTTOM_RIGHT
        form["diagonal_band_right_bound"] = 0

    def taken(*roles: str) -> dict[str, Any]:
        return {
            _PARTS.get(role, role): graph.tensor(
                name=role, uid=numbers[role], dim=_dim(by_role[role]), stride=_stride(by_role[role]),
                data_type=_dtype(cudnn, by_role[role]),
            )
            for role in roles
        }  # fmt: skip

    if not library.backward:
        results = graph.sdpa(**taken("q", "k", "v"), generate_stats=True, **form)
        names: tuple[str, ...] = ("y", "lse")
    else:
        operands = taken("q", "k", "v", "y", "g", "lse")
        # Without it sums over keys are added in any order, and no two runs are the same.
        results = graph.sdpa_backward(**operands, use_deterministic_algorithm=True, **form)
        names = ("dq", "dk", "dv")
    for role, result in zip(names, results, strict=True):
        made = by_role[role]
        result.set_output(True).set_uid(numbers[role]).set_dim(_dim(made)).set_stride(_stride(made))
        result.set_data_type(_dtype(cudnn, made))
    return Built(graph, tuple(numbers.values()))


def _dim(tensor: LibraryTensor) -> list[int]:
    """The numbers of rows have an axis of one place for cuDNN."""
    return [*tensor.type.shape, *([1] if tensor.role == "lse" else [])]


def _stride(tensor: LibraryTensor) -> list[int]:
    return [*tensor.strides, *([1] if tensor.role == "lse" else [])]


def _dtype(cudnn: Any, tensor: LibraryTensor) -> Any:
    return cudnn.data_type.BFLOAT16 if tensor.type.dtype == "bf16" else cudnn.data_type.FLOAT


@define(eq=False)
class Cudnn:
    """cuDNN on an open GPU: `version`, a handle whose stream is the driver's, and memory from `allocate`."""

    module: Any
    handle: Any
    version: str
    allocate: Callable[[int], int]
    refused: dict[Library, str] = field(factory=dict)

    def executable(self, library: Library) -> Execute | None:
        """What computes a graph at given addresses; None where cuDNN refuses it, `refused` says why."""
        try:
            built = build_graph(self.module, library, handle=self.handle)
            graph = built.graph
            graph.validate()
            graph.build_operation_graph()
            graph.create_execution_plans([self.module.heur_mode.A, self.module.heur_mode.FALLBACK])
            graph.check_support()
            graph.build_plans()
            workspace = self.allocate(max(int(graph.get_workspace_size()), 1))
        except (self.module.cudnnGraphNotSupportedError, NoMemory, RuntimeError, ValueError) as fault:
            self.refused[library] = _first_line(fault)
            return None

        def execute(addresses: Sequence[int]) -> None:
            try:
                graph.execute(dict(zip(built.numbers, addresses, strict=True)), workspace, handle=self.handle)
            except RuntimeError as fault:
                raise error("E-DEV-005", "the GPU failed at a graph of cuDNN's", actual=_first_line(fault)) from None

        return execute


def open_cudnn(stream: int, allocate: Callable[[int], int]) -> Cudnn | str:
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
        return f"cuDNN does not open: {_first_line(fault)}"
    return Cudnn(module, handle, shown_version(version), allocate)


def shown_version(version: int) -> str:
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def _first_line(fault: Exception) -> str:
    return str(fault).strip().partition("\n")[0] or type(fault).__name__
