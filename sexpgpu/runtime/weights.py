"""The tensors a run starts with, on the host: drawn by their init graphs, or given in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sexpgpu.data.arrays import NUMPY_DTYPE, type_text
from sexpgpu.diag import Note, error
from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.experiment import Experiment, Parameter, State
from sexpgpu.runtime.calls import Calls, Contexts, Tensors, zeros
from sexpgpu.runtime.engine import Array
from sexpgpu.tensortype import DType, TensorType


def initial_tensors(calls: Calls, contexts: Contexts, given: Mapping[str, Array]) -> Tensors:
    """Parameters and buffers from `given` where it has them, else from their init graphs; states as they
    begin.
    """
    experiment = calls.engine.experiment
    scalars = contexts.make(step=0, epoch=0, microbatch=0, trip=0, stage=0, progress=0.0, share=1.0)

    def initial(path: str, graph: str) -> Array:
        if path in given:
            return given[path]
        (drawn,) = calls.get(graph)({"ctx": scalars})
        return calls.arrays.host(drawn)

    params = {p.path: initial(p.path, p.init) for p in experiment.parameters}
    buffers = {}
    for buffer in experiment.buffers:
        value = initial(buffer.path, buffer.init)
        copies = experiment.run.microbatches
        buffers[buffer.path] = np.stack([value] * copies) if buffer.per_microbatch else value
    states = {state.name: _first(state, calls, params, scalars) for state in experiment.states}
    return Tensors(params, buffers, states)


def _first(state: State, calls: Calls, params: Mapping[str, Array], scalars: dict[str, Array]) -> Array:
    if state.init is None:
        return zeros(state.type)
    (made,) = calls.get(state.init)({"param": {"param": params[state.param]}, "ctx": scalars})
    return calls.arrays.host(made)


def read_weights(path: Path, experiment: Experiment) -> dict[str, Array]:
    """The tensors of a safetensors file for an experiment's parameters and buffers, floats converted.

    A tied parameter may be stored under any of its paths. Buffers may be missing. `E-CKPT-007` when the file
    cannot be read, `E-CKPT-006` with every name that is missing, unknown or of another shape or kind.
    """
    stored = _load(path)
    found: dict[str, Array] = {}
    notes = []
    for parameter in experiment.parameters:
        names = [name for name in (parameter.path, *parameter.aliases) if name in stored]
        arrays = [stored.pop(name) for name in names]
        if not arrays:
            notes.append(Note(f"missing: {parameter.path} {parameter.type}{_drawn_at(parameter)}"))
        elif any(not np.array_equal(arrays[0], other, equal_nan=True) for other in arrays[1:]):
            notes.append(Note(f"one tensor with different values: {', '.join(names)}"))
        else:
            found[parameter.path] = arrays[0]
    for buffer in experiment.buffers:
        if buffer.path in stored:
            found[buffer.path] = stored.pop(buffer.path)
    types = {p.path: p.type for p in experiment.parameters} | {b.path: b.type for b in experiment.buffers}
    for name, array in found.items():
        if not _fits(array, types[name]):
            notes.append(Note(f"{name}: {types[name]} expected, {type_text(array)} found"))
    notes += [Note(f"not in the model: {name}") for name in stored]
    if notes:
        raise error("E-CKPT-006", f"{path} does not fit the model", notes=notes)
    return {name: _converted(array, types[name].dtype) for name, array in found.items()}


def _converted(array: Array, dtype: DType) -> Array:
    converted = array.astype(NUMPY_DTYPE[dtype])
    return round_bf16(converted) if dtype == "bf16" else converted


def _fits(array: Array, type: TensorType) -> bool:
    wanted = NUMPY_DTYPE[type.dtype]
    both_float = array.dtype.kind == "f" and wanted.kind == "f"
    return array.shape == type.shape and (both_float or array.dtype == wanted)


def _drawn_at(parameter: Parameter) -> str:
    return f" ({parameter.span})" if parameter.span else ""


def _load(path: Path) -> dict[str, Array]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        stored: dict[str, Array] = load(path.read_bytes())
    except OSError as fault:
        raise error("E-CKPT-007", f"{path} cannot be read: {fault.strerror}") from None
    except (SafetensorError, KeyError, ValueError) as fault:
        raise error(
            "E-CKPT-007",
            f"{path} is not a safetensors file of tensors this program knows",
            actual=str(fault),
        ) from None
    return stored
