"""Passes keep what a graph computes; specs print and parse back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexpgpu.diag import SxError
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.signature import read_outputs, write_signature
from sexpgpu.driver.planning import load
from sexpgpu.experiment import Input, Output
from sexpgpu.passes import PASSES, PIPELINES
from sexpgpu.passes.autodiff import Autodiff
from sexpgpu.passes.base import count_ops, parse_pass, run_pipeline
from sexpgpu.passes.simplify import Simplify
from sexpgpu.passes.verify import Verify
from sexpgpu.tensortype import TensorType
from tests.building import function, naive

SHAPE = (3, 4)
SMOOTH = (
    "neg",
    "tanh",
    "sigmoid",
    "erf",
    "sin",
    "add",
    "mul",
    "sub",
    "softmax",
    "gelu",
    "matmul",
    "mean",
    "constant",
)


def build_smooth(b: Builder, values: list[Val], steps: list[tuple[str, int, int]]) -> Val:
    """A scalar that depends smoothly on the values."""
    pool = list(values)
    for name, i, j in steps:
        x, y = pool[i % len(pool)], pool[j % len(pool)]
        match name:
            case "add" | "mul" | "sub":
                pool.append(b(name, x, y))
            case "softmax":
                pool.append(b("softmax", x, axis=1))
            case "gelu":
                pool.append(b("gelu", x, approximate="none"))
            case "matmul":
                square = b("matmul", x, b("transpose", y, perm=(1, 0)))
                pool.append(b("matmul", square, y) / 4.0)
            case "mean":
                row = b("sum", x, axes=(0,), keepdims=True) / 3.0
                pool.append(x - b("broadcast", row, shape=SHAPE))
            case "constant":
                pool.append(x * 1.0 + b.constant(j % 3, x.type))
            case _:
                pool.append(b(name, x))
    return b("sum", pool[-1], axes=(0, 1), keepdims=False)


PROGRAMS = st.lists(st.tuples(st.sampled_from(SMOOTH), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(PROGRAMS)
def test_simplify_keeps_every_bit_and_autodiff_agrees_with_differences(
    steps: list[tuple[str, int, int]],
) -> None:
    kind = TensorType(SHAPE, "f64")
    rng = np.random.default_rng(len(steps))
    arrays: list[Any] = [rng.normal(size=SHAPE) for _ in range(2)]
    with open_context() as context:
        module = function(context, [kind, kind], lambda b, v: [build_smooth(b, v, steps)])
        func = module.body.operations[0]
        (before,) = naive(func, arrays)
        Simplify().run(module, context)
        program = load(func)
        (after,) = program(arrays)
        assert after == before or (np.isnan(after) and np.isnan(before))
        inputs = [Input("param", f"p{i}", kind) for i in range(2)]
        write_signature(func, inputs, [Output("loss", "loss", TensorType((), "f64"))])
        run_pipeline(module, context, [Autodiff(), Simplify(), Verify()])
        loss, *grads = load(func)(arrays)
        assert loss == before
    direction = [rng.normal(size=SHAPE) for _ in range(2)]
    step = 1e-6
    ahead, behind = (
        program([a + sign * step * d for a, d in zip(arrays, direction, strict=True)])[0] for sign in (1, -1)
    )
    slope = sum(float((g * d).sum()) for g, d in zip(grads, direction, strict=True))
    scale = 1 + sum(float(np.abs(g * d).sum()) for g, d in zip(grads, direction, strict=True)) + abs(float(before))
    assert abs(slope - (ahead - behind) / (2 * step)) < 1e-6 * scale


def test_simplify_reaches_its_fixed_point() -> None:
    kind = TensorType(SHAPE, "f64")
    with open_context() as context:
        module = function(context, [kind, kind], lambda b, v: [build_smooth(b, v, [(name, 0, 1) for name in SMOOTH])])
        Simplify().run(module, context)
        once = count_ops(module)
        Simplify().run(module, context)
        assert count_ops(module) == once


def test_one_value_as_two_operands_of_a_composite_has_its_derivative_once() -> None:
    kind, line = TensorType((2, 3), "f64"), TensorType((2, 1), "f64")
    rng = np.random.default_rng(2)
    x, mean, r = (rng.uniform(0.5, 1, size=t.shape) for t in (kind, line, line))
    with open_context() as context:

        def loss(b: Builder, v: list[Val]) -> list[Val]:
            other = v[0] if len(v) == 3 else v[3]
            made = b("layer_norm_gain", v[0], other, v[1], v[2])
            return [b("sum", b("square", made), axes=(0,), keepdims=False)]

        gradients = []
        for types, arrays in (([kind, line, line], [x, mean, r]), ([kind, line, line, kind], [x, mean, r, x])):
            module = function(context, types, loss)
            func = module.body.operations[0]
            inputs = [Input("param", f"p{i}", t) for i, t in enumerate(types)]
            write_signature(func, inputs, [Output("loss", "loss", TensorType((), "f64"))])
            Autodiff().run(module, context)
            gradients.append(load(func)(arrays)[1:])
    once, apart = gradients
    np.testing.assert_allclose(once[0], apart[0] + apart[3], rtol=1e-12)


def test_a_loss_must_be_a_scalar() -> None:
    kind = TensorType(SHAPE, "f32")
    with open_context() as context:
        module = function(context, [kind], lambda b, v: [b("exp", v[0])])
        func = module.body.operations[0]
        write_signature(func, [Input("param", "p", kind)], [Output("loss", "loss", kind)])
        with pytest.raises(SxError, match="E-SHAPE-020"):
            Autodiff().run(module, context)


def test_autodiff_twice_adds_nothing() -> None:
    kind = TensorType((), "f32")
    with open_context() as context:
        module = function(context, [kind], lambda b, v: [b("exp", v[0])])
        func = module.body.operations[0]
        write_signature(func, [Input("param", "p", kind)], [Output("loss", "loss", kind)])
        Autodiff().run(module, context)
        Autodiff().run(module, context)
        assert [o.role for o in read_outputs(func)] == ["loss", "grad"]


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_prints_and_parses_back(name: str) -> None:
    made = PASSES[name]()()
    assert made.name == name
    assert parse_pass(str(made), PASSES) == made


def test_pipelines_name_passes_that_exist() -> None:
    for specs in PIPELINES.values():
        assert [str(parse_pass(spec, PASSES)) for spec in specs] == list(specs)
