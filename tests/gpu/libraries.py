"""Libraries whose graphs NumPy computes in the simulator's memory, by nothing but their records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from attrs import define, field

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.opdef import Array
from sexpgpu.dialects.ops import OPS
from sexpgpu.gpu.choices import Choices
from sexpgpu.gpu.library.choice import Libraries, Source, Ways
from sexpgpu.gpu.memory import from_stored, stored_dtype, to_stored
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.plan.library import AttentionGraph, ConvolutionGraph, Library, LibraryTensor, ProductGraph, part_of
from sexpgpu.plan.records import DevicePlans, Launches
from sexpgpu.sim import Checks
from tests.gpu.devices import Simulated

KINDS = (AttentionGraph, ProductGraph, ConvolutionGraph)
MADE = {"result": "y", "operand": "x", "kernel": "w"}
"""The part of a convolution that is made, by its side."""


Graph = TypeVar("Graph", AttentionGraph, ProductGraph, ConvolutionGraph)


def graphs_of(plans: DevicePlans, kind: type[Graph]) -> list[Graph]:
    """The graphs of one kind."""
    return [each for each in libraries_of(plans) if isinstance(each, kind)]


def libraries_of(plans: DevicePlans) -> list[Library]:
    """What is said for libraries of the graph `f`, in the order of its steps."""
    how = [step.how for step in plans.plans["f"].steps]
    return [each.library for each in how if isinstance(each, Launches) and each.library is not None]


def named(library: Library) -> str:
    """The operation that a graph is."""
    match library:
        case AttentionGraph(backward=backward):
            return "attention_grad" if backward else "attention"
        case ConvolutionGraph(side=side):
            return {"result": "conv", "operand": "conv_input_grad", "kernel": "conv_weight_grad"}[side]
        case _:
            return "product"


def made_by(library: Library) -> set[str]:
    """The parts that are results."""
    match library:
        case AttentionGraph(backward=backward):
            return {"dq", "dk", "dv"} if backward else {"y", "lse"}
        case ConvolutionGraph(side=side):
            return {MADE[side]}
        case _:
            return {"d", "aux"} if library.activation == "gelu" else {"d"}


def computed(library: Library, values: dict[str, Array]) -> dict[str, Array]:
    """The results of a graph, in f32, from its operands by their parts."""
    match library:
        case AttentionGraph(scale=scale, causal=causal):
            form = {"scale": scale, "causal": causal, "window": 0, "rounded": True}
            if not library.backward:
                operands = [values[role] for role in ("q", "k", "v")]
                names: tuple[str, ...] = ("y", "lse")
            else:
                operands = [values[role] for role in ("g", "q", "k", "v", "y", "lse")]
                operands.insert(1, np.zeros_like(values["lse"]))
                names = ("dq", "dk", "dv")
            return dict(zip(names, OPS[named(library)].numpy(*operands, **form), strict=True))
        case ProductGraph():
            return _product(library, values)
        case ConvolutionGraph():
            return _convolution(library, values)


def _product(graph: ProductGraph, values: dict[str, Array]) -> dict[str, Array]:
    sums = graph.scale * np.matmul(values["a"], values["b"]) + values.get("c", 0) + values.get("bias", 0)
    sums = sums.astype(np.float32)
    match graph.activation:
        case "relu":
            return {"d": np.maximum(sums, 0)}
        case "gelu":
            return {"d": OPS["gelu"].numpy(sums, approximate="tanh"), "aux": sums}
        case "gelu_slope":
            return {"d": OPS["gelu_grad"].numpy(sums, values["aux"], approximate="tanh")}
        case _:
            return {"d": sums}


def _convolution(graph: ConvolutionGraph, values: dict[str, Array]) -> dict[str, Array]:
    x, w = (part_of(graph, role) for role in ("x", "w"))
    assert x is not None
    assert w is not None
    form: dict[str, Any] = {name: getattr(graph, name) for name in ("stride", "low", "high", "dilation")}
    form["groups"] = x.type.shape[1] // w.type.shape[1]
    if graph.side == "operand":
        form["size"] = x.type.shape[2:]
    if graph.side == "kernel":
        form["kernel"] = w.type.shape[2:]
    operands = [values[each.role] for each in graph.tensors if each.role in values]
    return {MADE[graph.side]: OPS[named(graph)].numpy(*operands, **form)}


@define(eq=False)
class StandIn:
    """A library with one way to compute anything; `calls` are the operations it computed."""

    driver: SimDriver
    calls: list[str] = field(factory=list)

    def ways(self, library: Library) -> Ways:
        def execute(addresses: Sequence[int]) -> None:
            self.calls.append(named(library))
            parts = {each.role: (each, at) for each, at in zip(library.tensors, addresses, strict=True)}
            values = {role: self.read(*part) for role, part in parts.items() if role not in made_by(library)}
            for role, result in computed(library, values).items():
                if role in parts:
                    self.write(*parts[role], result)

        return {"library": execute}

    def read(self, tensor: LibraryTensor, address: int) -> Array:
        stored = self._whole(tensor, address)
        return from_stored(np.ascontiguousarray(self._shown(tensor, stored)), tensor.type)

    def write(self, tensor: LibraryTensor, address: int, value: Array) -> None:
        stored = self._whole(tensor, address)
        rounded = round_bf16(value.astype(np.float32)) if tensor.type.dtype == "bf16" else value
        self._shown(tensor, stored)[...] = to_stored(rounded, tensor.type)
        self.driver.machine.write(address, stored)

    def _whole(self, tensor: LibraryTensor, address: int) -> Array:
        dtype = stored_dtype(tensor.type)
        reach = 1 + sum((n - 1) * step for n, step in zip(tensor.type.shape, tensor.strides, strict=True))
        return np.frombuffer(bytes(self.driver.machine.read(address, reach * dtype.itemsize)), dtype).copy()

    @staticmethod
    def _shown(tensor: LibraryTensor, stored: Array) -> Array:
        strides = tuple([step * stored.itemsize for step in tensor.strides])
        return np.lib.stride_tricks.as_strided(stored, tensor.type.shape, strides)


def everything(source: Source, choices: Choices) -> Libraries:
    """One library for all kinds of graphs."""
    return Libraries(dict.fromkeys(KINDS, source), choices)


def ran(plans: DevicePlans, arrays: Sequence[Array], libraries: Libraries | None, driver: SimDriver) -> list[Array]:
    """The results of a plan's graph on a device with these libraries."""
    driver.libraries = libraries
    return [x.numpy() for x in Simulated(driver).program(plans)(list(arrays))]


def both(plans: DevicePlans, arrays: Sequence[Array]) -> tuple[list[Array], list[Array], list[str]]:
    """The results by the kernels, then by records wherever there are some, and what these computed."""
    by_kernels = ran(plans, arrays, None, SimDriver(Checks()))
    driver = SimDriver(Checks())
    stand_in = StandIn(driver)
    libraries = everything(Source("stand-in 1", stand_in.ways), Choices())
    libraries.chosen = dict.fromkeys(libraries_of(plans), "library")
    return by_kernels, ran(plans, arrays, libraries, driver), stand_in.calls
