"""Every layer of sexpgpu/nn against PyTorch, in f64: outputs, gradients to inputs and parameters, buffers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import frozen
from numpy.typing import NDArray

from sexpgpu.diag import Diagnostics
from sexpgpu.dialects.context import open_context
from sexpgpu.driver.compile import new_session
from sexpgpu.driver.pipeline import run_named
from sexpgpu.driver.planning import load
from sexpgpu.experiment import RunConfig
from sexpgpu.lang.active import activated
from sexpgpu.lang.forms import NIL, Cons, all_values
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.session import Session
from sexpgpu.passes.base import graphs
from sexpgpu.trace.graph import GraphTrace
from sexpgpu.trace.models import name_tree, settle
from sexpgpu.trace.tensor import Tensor, as_tensor, pointwise
from sexpgpu.trace.tracer import Tracer
from tests.golden.tracing import cotangent, type_of

Array = NDArray[Any]
FILE = Path(__file__).parent / "nn.npz"


@frozen(eq=False)
class Case:
    form: str
    training: bool
    params: Mapping[str, Array]
    buffers: Mapping[str, Array]
    next: Mapping[str, Array]
    grads: Mapping[str, Array]
    inputs: list[Array]
    outs: list[Array]


def cases() -> dict[str, Case]:
    with np.load(FILE) as stored:
        numbers, text = stored["numbers"], stored["cases"].tobytes()
    place = 0

    def array(fact: Any) -> Array:
        nonlocal place
        dtype, shape = fact
        size = int(np.prod(shape, dtype=np.int64))
        place += size
        return np.asarray(numbers[place - size : place].astype(dtype).reshape(shape))

    def named(fact: Any, part: str) -> dict[str, Array]:
        return {k: array(v) for k, v in fact[part].items()}

    return {
        name: Case(
            fact["form"],
            fact["training"],
            named(fact, "params"),
            named(fact, "buffers"),
            named(fact, "next"),
            named(fact, "grads"),
            [array(v) for v in fact["inputs"]],
            [array(v) for v in fact["outs"]],
        )
        for name, fact in json.loads(text).items()
    }


CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_pytorch_s(name: str) -> None:
    case = CASES[name]
    outs, grads, following = run_deep(lambda: computed(case))
    assert len(outs) == len(case.outs)
    for got, wanted in zip(outs, case.outs, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)
    assert grads.keys() == case.grads.keys()
    for key, wanted in case.grads.items():
        np.testing.assert_allclose(grads[key], wanted, rtol=1e-10, atol=1e-11, err_msg=key)
    if case.training:
        assert following.keys() == case.next.keys()
        for key, wanted in case.next.items():
            np.testing.assert_allclose(following[key], wanted, rtol=1e-12, err_msg=key)


@cache
def session_with_layers() -> Session:
    session = new_session(Diagnostics())
    session.evaluate_text('(require "sexpgpu/nn")', "before.sx")
    return session


def computed(case: Case) -> tuple[list[Array], dict[str, Array], dict[str, Array]]:
    """Outputs, gradients by parameter and input, proposed buffers."""
    session = session_with_layers()
    layer = session.evaluate_text(f'(require "sexpgpu/nn")\n{case.form}', "case.sx")[-1].values[0]
    name_tree(layer, "layer")
    settle(layer, "f64")
    with open_context() as context, activated(session):
        tracer = Tracer(context, RunConfig(steps=1, epochs=None, precision="f64", seed=7), {})
        graph = GraphTrace(tracer, "train", training=case.training, stream="train")
        with graph.tracing():
            given = [
                graph.input("param" if x.dtype.kind == "f" else "field", f"input {i}", type_of(x))
                for i, x in enumerate(case.inputs)
            ]
            results = list(tensors(layer.lisp_call(*arguments(case, given))))
            total = as_tensor(0.0, "loss")
            for i, result in enumerate(results):
                weight = graph.constant(cotangent(i, result.type.shape), result.type)
                weighed = pointwise("mul", "loss", result, weight)
                axes = tuple(range(result.type.rank))
                total = pointwise("add", "loss", total, graph.emit("sum", weighed, axes=axes, keepdims=False))
            graph.output("loss", "loss", total)
            for i, result in enumerate(results):
                graph.output("value", str(i), result)
            for path, proposal in graph.proposals.items():
                graph.output("buffer", path, proposal)
            graph.finish()
        run_named(tracer.module, context, "shared")
        program = load(graphs(tracer.module)[0])
        stored = {f"input {i}": x for i, x in enumerate(case.inputs)}
        stored |= {f"layer.{k}": v for k, v in {**case.params, **case.buffers}.items()}
        arrays = program([stored[i.name] for i in program.spec.inputs])
        found = list(zip(program.spec.outputs, arrays, strict=True))
    outs = [a for o, a in found if o.role == "value"]
    grads = {o.name.removeprefix("layer."): a for o, a in found if o.role == "grad"}
    following = {o.name.removeprefix("layer."): a for o, a in found if o.role == "buffer"}
    return outs, grads, following


def arguments(case: Case, given: list[Tensor]) -> list[Any]:
    """The inputs as the layer's call takes them: an lstm's state is one list."""
    if len(given) == 3:
        return [given[0], Cons(given[1], Cons(given[2], NIL))]
    return given


def tensors(value: Any) -> Iterator[Tensor]:
    for each in all_values(value):
        if isinstance(each, Cons):
            for item in each:
                yield from tensors(item)
        else:
            yield each


def test_parameters_are_pytorch_s_by_name_and_shape() -> None:
    """`CASES` names them as PyTorch does, hyphens for underscores: a layer with others could not have run."""
    assert set(CASES["lstm"].params) == {"weight-ih", "weight-hh", "bias-ih", "bias-hh"}
    assert CASES["conv2d strided"].params["weight"].shape == (6, 2, 3, 2)
