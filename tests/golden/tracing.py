"""Values and gradients of forms over named arrays, by the whole way: Lisp, tracing, the passes, the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from sexpgpu.diag import Diagnostics
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.signature import read_graph
from sexpgpu.driver.compile import new_session
from sexpgpu.driver.pipeline import run_named
from sexpgpu.driver.planning import load
from sexpgpu.experiment import RunConfig
from sexpgpu.lang.active import activated
from sexpgpu.lang.forms import MV, NIL, Cons, all_values
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.session import Session
from sexpgpu.passes.base import graphs
from sexpgpu.tensortype import DType, TensorType
from sexpgpu.trace.declarations import Declarations, declaring
from sexpgpu.trace.graph import GraphTrace
from sexpgpu.trace.tensor import Tensor, as_tensor
from sexpgpu.trace.tracer import Tracer

Array = NDArray[Any]
DTYPES: dict[str, DType] = {
    "float64": "f64",
    "float32": "f32",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "bool": "bool",
}


@frozen
class Case:
    """A form over named inputs. Float inputs are differentiated: what is returned is weighed by `cotangents`."""

    name: str
    form: str
    inputs: Mapping[str, Array]


@frozen
class Outcome:
    """What a case computed: its values, and the gradient to each float input of Σ cotangent · value."""

    values: list[Array]
    gradients: dict[str, Array]


def cotangent(number: int, shape: Sequence[int]) -> Array:
    """What the value with this number is weighed by; the makers of goldens use the same."""
    size = int(np.prod(shape, dtype=np.int64))
    return np.asarray(np.cos(np.arange(size) * 0.7 + number + 0.3)).reshape(shape)


def type_of(array: Array) -> TensorType:
    return TensorType(array.shape, DTYPES[str(array.dtype)])


@frozen
class Place:
    """Where in a run the cases are computed: in which kind of graph, of which seed, and what the loop has counted."""

    training: bool = False
    stream: str = "train"
    seed: int = 7
    counters: Mapping[str, int] = {}


HERE = Place()


def outcomes(cases: Sequence[Case], *, place: Place = HERE) -> dict[str, Outcome | Exception]:
    """Each case's outcome; a fault of one leaves the others alone."""
    return run_deep(lambda: _outcomes(cases, place))


_numbers = count()


@cache
def _session() -> Session:
    """One session for all: making it costs more than a case."""
    return new_session(Diagnostics())


def _outcomes(cases: Sequence[Case], place: Place) -> dict[str, Outcome | Exception]:
    found: dict[str, Outcome | Exception] = {}
    session = _session()
    with open_context() as context, declaring(Declarations(Path("cases.sx"))), activated(session):
        tracer = Tracer(context, RunConfig(steps=1, epochs=None, precision="f64", seed=place.seed), {})
        traced: dict[str, GraphTrace] = {}
        for case in cases:
            before = len(tracer.module.body.operations)
            try:
                traced[case.name] = _trace(session, tracer, case, place)
            except Exception as fault:
                found[case.name] = fault
                for unfinished in list(tracer.module.body.operations)[before:]:
                    unfinished.operation.erase()
        run_named(tracer.module, context, "shared")
        programs = {read_graph(func).name: load(func) for func in graphs(tracer.module)}
        for case in cases:
            if case.name in traced:
                try:
                    found[case.name] = _run(programs[case.name], case, place)
                except Exception as fault:
                    found[case.name] = fault
    return found


def _trace(session: Session, tracer: Tracer, case: Case, place: Place) -> GraphTrace:
    name = f"case-{next(_numbers)}"
    before = len(session.diagnostics.errors)
    session.evaluate_text(f"(defun {name} ({' '.join(case.inputs)}) {case.form})", f"{name}.sx")
    assert session.diagnostics.errors[before:] == []
    graph = GraphTrace(tracer, case.name, training=place.training, stream=place.stream)
    with graph.tracing():
        arguments = []
        for key, array in case.inputs.items():
            role: Any = "param" if array.dtype.kind == "f" else "field"
            arguments.append(graph.input(role, key, type_of(array)))
        function = session.function(name)
        assert function is not None
        results = _tensors(session.call(function, *arguments))
        loss = graph.constant(0.0, TensorType((), "f64"))
        for which, result in enumerate(results):
            graph.output("value", str(which), result)
            if result.type.is_float:
                weights = graph.constant(cotangent(which, result.type.shape), TensorType(result.type.shape, "f64"))
                product = graph.emit("mul", graph.cast_float(result), weights)
                axes = tuple(range(product.type.rank))
                loss = graph.emit("add", loss, graph.emit("sum", product, axes=axes, keepdims=False))
        graph.output("loss", "loss", loss)
        graph.finish()
    return graph


def _tensors(value: Any) -> list[Tensor]:
    """The tensors among values and lists of them; nil is an empty list."""
    if isinstance(value, MV | Cons):
        return [tensor for item in (all_values(value) if isinstance(value, MV) else value) for tensor in _tensors(item)]
    return [] if value is NIL else [as_tensor(value, "a case")]


def _run(program: Any, case: Case, place: Place) -> Outcome:
    counted = {name: np.asarray(count, np.int32) for name, count in place.counters.items()}
    zero = np.zeros((), np.int32)
    arrays = [
        case.inputs[i.name] if i.role in ("param", "field") else counted.get(i.name, zero) for i in program.spec.inputs
    ]
    values: dict[int, Array] = {}
    gradients: dict[str, Array] = {}
    for output, array in zip(program.spec.outputs, program(arrays), strict=True):
        if output.role == "value":
            values[int(output.name)] = array
        elif output.role == "grad":
            gradients[output.name] = array
    return Outcome([values[i] for i in range(len(values))], gradients)
