"""Lisp functions of tensors, run as a graph: their values, and the gradients of a scalar one."""

from __future__ import annotations

import numpy as np
from mlir import ir

from sexpgpu.diag import Diagnostics
from sexpgpu.dialects.context import Context, open_context
from sexpgpu.dialects.opdef import Array
from sexpgpu.driver.compile import new_session
from sexpgpu.driver.pipeline import Passes, run_named
from sexpgpu.driver.planning import load
from sexpgpu.experiment import RunConfig
from sexpgpu.lang.active import activated
from sexpgpu.lang.forms import MV, NIL, Cons
from sexpgpu.lang.limits import run_deep
from sexpgpu.passes.base import graphs
from sexpgpu.tensortype import DType, TensorType
from sexpgpu.trace.graph import GraphTrace
from sexpgpu.trace.tensor import Tensor, as_tensor
from sexpgpu.trace.tracer import Tracer

_DTYPES: dict[str, DType] = {
    "float64": "f64",
    "float32": "f32",
    "int32": "i32",
    "int64": "i64",
    "bool": "bool",
    "uint8": "u8",
}


def run(text: str, *arrays: Array, gradients: bool = False, pipeline: str = "shared") -> list[Array]:
    """The tensors that the Lisp function `text` gives for `arrays`, in f64; then the gradients of the first, if asked.

    Float arrays are parameters, the others fields.
    """
    return run_deep(lambda: _run(text, arrays, gradients, pipeline))


def traced_text(text: str, *arrays: Array, pipeline: str = "shared", skip: frozenset[str] = frozenset()) -> str:
    """The module of a scalar function and its gradients, as text, behind all passes but those to skip."""

    def work() -> str:
        with open_context() as context:
            return str(_module(context, text, arrays, True, pipeline, skip))

    return run_deep(work)


def peak(text: str, *arrays: Array) -> int:
    """Bytes that a scalar function and its gradients hold at once."""

    def work() -> int:
        with open_context() as context:
            module = _module(context, text, arrays, True, "shared")
            return load(graphs(module)[0]).arena_bytes

    return run_deep(work)


def _run(text: str, arrays: tuple[Array, ...], gradients: bool, pipeline: str) -> list[Array]:
    with open_context() as context:
        module = _module(context, text, arrays, gradients, pipeline)
        program = load(graphs(module)[0])
        given = {f"a{i}": a for i, a in enumerate(arrays)}
        context_values = {"step": np.array(3, np.int32), "microbatch": np.array(0, np.int32)}
        inputs = [given[i.name] if i.name in given else context_values[i.name] for i in program.spec.inputs]
        return program(inputs)


def _module(
    context: Context,
    text: str,
    arrays: tuple[Array, ...],
    gradients: bool,
    pipeline: str,
    skip: frozenset[str] = frozenset(),
) -> ir.Module:
    diagnostics = Diagnostics()
    session = new_session(diagnostics)
    forms = session.evaluate_text(text, "test.sx")
    assert not diagnostics.errors, diagnostics.errors
    tracer = Tracer(context, RunConfig(1, None, 1, "f64", 1, None, 1, None, None, None, 3, False, None), {})
    graph = GraphTrace(tracer, "train", training=True, stream="train")
    with activated(session), graph.tracing():
        inputs = [
            graph.input(
                "param" if a.dtype.kind == "f" else "field", f"a{i}", TensorType(a.shape, _DTYPES[a.dtype.name])
            )
            for i, a in enumerate(arrays)
        ]
        result = forms[0].values[0](*inputs)
        for i, value in enumerate(_tensors(result)):
            graph.output("loss" if gradients and i == 0 else "value", str(i), as_tensor(value, "result"))
        graph.finish()
    run_named(tracer.module, context, pipeline, Passes(skip))
    return tracer.module


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, MV):
        return [t for v in value.values for t in _tensors(v)]
    if value is NIL:
        return []
    if isinstance(value, Cons):
        return [t for v in value for t in _tensors(v)]
    assert isinstance(value, Tensor)
    return [value]
