"""Graphs of cuDNN, built from records: neither validated nor planned, for which it wants a GPU.

Names are those of the cuDNN frontend's documentation, "Attention" and "Convolutions".
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from sexpgpu.plan.library import AttentionGraph, ConvolutionGraph, LibraryTensor

_PARTS = {"y": "o", "g": "dO", "lse": "stats"}
"""What cuDNN calls the parts of attention that have other names here."""
_PLANE = 2
"""Axes that windows of cuDNN slide over, at least."""


@frozen(eq=False)
class Built:
    """A graph, and the number by which it knows each tensor of the record, in order."""

    graph: Any
    numbers: tuple[int, ...]


def build_graph(cudnn: Any, library: AttentionGraph | ConvolutionGraph, **properties: Any) -> Built:
    """The graph of a record; `properties` go to it: the handle, or the GPU that there would be."""
    graph = cudnn.pygraph(
        io_data_type=_dtype(cudnn, library.tensors[0]),
        intermediate_data_type=cudnn.data_type.FLOAT,
        compute_data_type=cudnn.data_type.FLOAT,
        **properties,
    )
    parts = _Parts(cudnn, graph, {each.role: each for each in library.tensors})
    if isinstance(library, AttentionGraph):
        _attention(parts, library)
    else:
        _convolution(parts, library)
    return Built(graph, tuple(parts.numbers.values()))


class _Parts:
    """The tensors of a graph by their parts; parts of cuDNN's have one axis more, of one place, where it wants that."""

    def __init__(self, cudnn: Any, graph: Any, tensors: dict[str, LibraryTensor]) -> None:
        self.cudnn, self.graph, self.tensors = cudnn, graph, tensors
        self.numbers = {role: number for number, role in enumerate(tensors, 1)}

    def taken(self, role: str, at: int | None = None) -> Any:
        """An operand; with an axis of one place before axis `at`."""
        tensor = self.tensors[role]
        return self.graph.tensor(
            name=role,
            uid=self.numbers[role],
            dim=_with(tensor.type.shape, 1, at),
            stride=_with(tensor.strides, 1, at),
            data_type=_dtype(self.cudnn, tensor),
        )

    def made(self, role: str, result: Any, at: int | None = None) -> None:
        """Say of a result where it lies."""
        tensor = self.tensors[role]
        result.set_output(True).set_uid(self.numbers[role])
        result.set_dim(_with(tensor.type.shape, 1, at)).set_stride(_with(tensor.strides, 1, at))
        result.set_data_type(_dtype(self.cudnn, tensor))


def _attention(parts: _Parts, library: AttentionGraph) -> None:
    form: dict[str, Any] = {"name": "attention", "attn_scale": library.scale}
    if library.causal:
        # The last query stands at the last key.
        rows, keys = (parts.tensors[role].type.shape[2] for role in ("q", "k"))
        corner = parts.cudnn.diagonal_alignment
        form["diagonal_alignment"] = corner.TOP_LEFT if rows == keys else corner.BOTTOM_RIGHT
        form["diagonal_band_right_bound"] = 0

    def at(role: str) -> int | None:
        return 3 if role == "lse" else None

    def taken(*roles: str) -> dict[str, Any]:
        return {_PARTS.get(role, role): parts.taken(role, at(role)) for role in roles}

    if not library.backward:
        results = parts.graph.sdpa(**taken("q", "k", "v"), generate_stats=True, **form)
        names: tuple[str, ...] = ("y", "lse")
    else:
        operands = taken("q", "k", "v", "y", "g", "lse")
        # Without it sums over keys are added in any order, and no two runs are the same.
        results = parts.graph.sdpa_backward(**operands, use_deterministic_algorithm=True, **form)
        names = ("dq", "dk", "dv")
    for role, result in zip(names, results, strict=True):
        parts.made(role, result, at(role))


def _convolution(parts: _Parts, library: ConvolutionGraph) -> None:
    """One window axis becomes two, of which the first has one place."""
    lacking = len(library.stride) < _PLANE
    at = 2 if lacking else None
    form = {
        "pre_padding": _with(library.low, 0, 0 if lacking else None),
        "post_padding": _with(library.high, 0, 0 if lacking else None),
        "stride": _with(library.stride, 1, 0 if lacking else None),
        "dilation": _with(library.dilation, 1, 0 if lacking else None),
        "name": "convolution",
    }
    graph = parts.graph
    match library.side:
        case "result":
            made = graph.conv_fprop(image=parts.taken("x", at), weight=parts.taken("w", at), **form)
            parts.made("y", made, at)
        case "operand":
            made = graph.conv_dgrad(loss=parts.taken("y", at), filter=parts.taken("w", at), **form)
            parts.made("x", made, at)
        case _:
            made = graph.conv_wgrad(image=parts.taken("x", at), loss=parts.taken("y", at), **form)
            parts.made("w", made, at)


def _with(values: tuple[int, ...], value: int, at: int | None) -> list[int]:
    found = list(values)
    if at is not None:
        found.insert(at, value)
    return found


def _dtype(cudnn: Any, tensor: LibraryTensor) -> Any:
    return cudnn.data_type.BFLOAT16 if tensor.type.dtype == "bf16" else cudnn.data_type.FLOAT
