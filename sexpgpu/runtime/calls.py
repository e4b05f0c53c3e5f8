"""Graphs bound to the tensors of a run: where each input is found and what each output is, worked out
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import define, field, frozen

from sexpgpu.data.arrays import NUMPY_DTYPE
from sexpgpu.diag import Span, SxError
from sexpgpu.experiment import CONTEXT, Experiment, Input, InputRole, OutputRole
from sexpgpu.runtime.arrays import Arrays, HostArrays
from sexpgpu.runtime.engine import Array, Engine, Executable, Tensor
from sexpgpu.runtime.standing import LOOP
from sexpgpu.tensortype import DType, TensorType

Tables = Mapping[InputRole, Mapping[str, Tensor]]


@define
class Tensors:
    """All that training changes: parameters and buffers by path, optimizer states by `path/state`.

    A buffer kept per microbatch has the microbatch as its first axis. A step puts new arrays here; later steps write
    over the old ones, so whoever wants to keep one takes a copy.
    """

    params: dict[str, Tensor]
    buffers: dict[str, Tensor]
    states: dict[str, Tensor]


def placed(tensors: Tensors, experiment: Experiment, arrays: Arrays) -> Tensors:
    """Tensors of the host where graphs read them."""
    params = {p.path: p.type.dtype for p in experiment.parameters}
    buffers = {b.path: b.type.dtype for b in experiment.buffers}
    states = {s.name: s.type.dtype for s in experiment.states}
    return Tensors(
        arrays.place(tensors.params, params),
        arrays.place(tensors.buffers, buffers),
        arrays.place(tensors.states, states),
    )


@frozen
class Call:
    """An executable with its inputs looked up by role and name."""

    executable: Executable
    places: dict[OutputRole, list[tuple[str, int]]] = field(init=False)
    wanted: list[tuple[InputRole, str]] = field(init=False)

    fields: list[tuple[str, TensorType]] = field(init=False)

    @places.default
    def _find_places(self) -> dict[OutputRole, list[tuple[str, int]]]:
        places: dict[OutputRole, list[tuple[str, int]]] = {}
        for position, output in enumerate(self.executable.spec.outputs):
            places.setdefault(output.role, []).append((output.name, position))
        return places

    @wanted.default
    def _find_wanted(self) -> list[tuple[InputRole, str]]:
        return [(slot.role, slot.name) for slot in self.executable.spec.inputs]

    @fields.default
    def _find_fields(self) -> list[tuple[str, TensorType]]:
        return [(slot.name, slot.type) for slot in self.executable.spec.inputs if slot.role == "field"]

    def __call__(self, tables: Tables, into: Sequence[Tensor | None] = ()) -> list[Tensor]:
        """Results in the order of the graph's outputs, in `into` where that has an array."""
        LOOP.began(f"graph {self.executable.spec.name}")
        return self.executable(self._inputs(tables), into)

    def origin_not_finite(self, tables: Tables) -> tuple[str, Span | None] | None:
        return self.executable.origin_not_finite(self._inputs(tables))

    def _inputs(self, tables: Tables) -> list[Tensor]:
        for name, type in self.fields:
            if (given := tables["field"][name].shape) != type.shape:
                raise ValueError(f"{name} of shape {given} for graph `{self.executable.spec.name}`, which takes {type}")
        return [tables[role][name] for role, name in self.wanted]

    def named(self, results: list[Tensor], role: OutputRole) -> dict[str, Tensor]:
        """The results of one role, by name."""
        return {name: results[position] for name, position in self.places.get(role, ())}


@define
class Calls:
    """The calls of a run, made when first needed; a batch of another size is its own call."""

    engine: Engine
    arrays: Arrays = field(factory=HostArrays)
    _made: dict[tuple[str, int | None], Call] = field(factory=dict, init=False)

    def get(self, graph: str, rows: int | None = None) -> Call:
        own = self.engine.experiment.graphs[graph].rows
        key = (graph, None if rows == own else rows)
        if key not in self._made:
            self._made[key] = Call(self.engine.executable(*key))
        return self._made[key]

    def require_indices(self, call: Call, tables: Tables) -> None:
        """Run a call by itself: `E-VALUE-101` where it meets an index outside its axis, with the operation where that
        can be found.
        """
        call(tables)
        try:
            self.arrays.settle()
        except SxError:
            call.origin_not_finite(tables)
            raise


@frozen
class Contexts:
    """Makes the scalars that graphs ask of the loop, each in its type; those that none asks for are not
    made.
    """

    types: dict[str, np.dtype[np.generic]]

    def make(self, **values: float) -> dict[str, Array]:
        named = {name.replace("_", "-"): value for name, value in values.items()}
        return {name: np.array(named[name], dtype) for name, dtype in self.types.items() if name in named}


def float_dtype(experiment: Experiment) -> DType:
    """The run's float type: f64 under `:f64`, else f32."""
    return "f64" if experiment.run.precision == "f64" else "f32"


def contexts_of(experiment: Experiment) -> Contexts:
    asked = {slot.name for graph in experiment.graphs.values() for slot in graph.inputs if slot.role == "ctx"}
    types: dict[str, np.dtype[np.generic]] = {}
    for name, kind in CONTEXT.items():
        if name in asked:
            types[name] = NUMPY_DTYPE[float_dtype(experiment)] if kind == "float" else np.dtype(np.int32)
    return Contexts(types)


def zeros(type: TensorType) -> Array:
    return np.zeros(type.shape, NUMPY_DTYPE[type.dtype])


def state_name(slot: Input) -> str:
    """The state's own name, behind the path of the parameter it was traced for."""
    return slot.name.rpartition("/")[2]
