"""The interpreter's memory reuse is invisible: every program gives what naive evaluation gives and keeps its inputs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import open_context
from sexpgpu.driver.planning import load
from sexpgpu.interp import Program
from sexpgpu.passes.planned import plan_of
from sexpgpu.tensortype import DType, TensorType
from tests.building import function, naive

BIG = (64, 128)  # 32 KiB of f32: large enough for memory to be reused


def run_both(inputs: list[TensorType], build: Any) -> tuple[Program, list[Any], list[Any], list[Any]]:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=t.shape).astype(np.float32) for t in inputs]
    kept = [a.copy() for a in arrays]
    with open_context() as context:
        module = function(context, inputs, build)
        func = module.body.operations[0]
        program = load(func)
        wanted = naive(func, [a.copy() for a in arrays])
        got = program(arrays)
        again = program(arrays)
    for array, before in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(array, before)
    for first, second in zip(got, again, strict=True):
        np.testing.assert_array_equal(first, second)
    return program, arrays, got, wanted


STEPS = (
    "neg",
    "exp",
    "tanh",
    "add",
    "mul",
    "sub",
    "transpose",
    "reshape",
    "broadcast",
    "sum",
    "slice",
    "where",
    "matmul",
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=25))
def test_reuse_of_memory_never_changes_a_value(steps: list[tuple[str, int, int]]) -> None:
    kind = TensorType(BIG, "f32")

    def build(b: Builder, given_values: list[Val]) -> list[Val]:
        pool = list(given_values)
        for name, i, j in steps:
            x, y = pool[i % len(pool)], pool[j % len(pool)]
            match name:
                case "transpose":
                    flipped = b("transpose", x, perm=(1, 0))
                    pool.append(b("reshape", flipped, shape=BIG))
                case "reshape":
                    pool.append(b("reshape", b("reshape", x, shape=(128, 64)), shape=BIG))
                case "broadcast":
                    row = b("slice", x, start=(0, 0), stop=(1, 128), step=(1, 1))
                    pool.append(b("broadcast", row, shape=BIG))
                case "sum":
                    total = b("sum", x, axes=(1,), keepdims=True)
                    pool.append(b("broadcast", total, shape=BIG))
                case "slice":
                    half = b("slice", x, start=(0, 0), stop=BIG, step=(2, 1))
                    pool.append(b("concat", half, half, axis=0))
                case "where":
                    pool.append(b("where", b("lt", x, y), y, x))
                case "matmul":
                    square = b("matmul", x, b("transpose", y, perm=(1, 0)))
                    pool.append(b("concat", square, square, axis=1))
                case "neg" | "exp" | "tanh":
                    pool.append(b(name, x))
                case _:
                    pool.append(b(name, x, y))
        return [pool[-1], pool[len(pool) // 2], pool[0]]

    _, arrays, got, wanted = run_both([kind, kind], build)
    for ours, theirs in zip(got, wanted, strict=True):
        # NumPy sums along memory, which reuse lays out otherwise, and has another routine for x x^T without `out`.
        largest = np.max(np.abs(theirs), where=np.isfinite(theirs), initial=0)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * largest)
    for result in got:
        assert not any(np.shares_memory(result, array) for array in arrays)
    assert not np.shares_memory(got[0], got[1])


def test_results_can_be_changed_without_harm() -> None:
    kind = TensorType(BIG, "f32")
    program, arrays, got, _ = run_both(
        [kind], lambda b, v: [v[0], b("transpose", v[0], perm=(1, 0)), b.constant(2.0, kind)]
    )
    for result in got:
        result += 1
    np.testing.assert_array_equal(program(arrays)[2], np.full(BIG, 2, np.float32))


def test_values_are_freed_after_their_last_use() -> None:
    kind = TensorType(BIG, "f32")

    def chain(b: Builder, v: list[Val]) -> list[Val]:
        x = v[0]
        for _ in range(50):
            x = b("transpose", b("tanh", b("transpose", b("exp", b("neg", x)), perm=(1, 0))), perm=(1, 0))
        return [x]

    program, *_ = run_both([kind], chain)
    assert program.arena_bytes <= 2 * kind.nbytes


def test_one_result_of_several_goes_to_the_caller_without_a_memory_plan() -> None:
    kind = TensorType((3, 4), "f32")

    def build(b: Builder, v: list[Val]) -> list[Val]:
        values, places = b.several("top_k", v[0], k=2)
        return [values, b("add", places, places)]

    with open_context() as context:
        module = function(context, [kind], build)
        program = Program(plan_of(module.body.operations[0]))
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        into = [np.full((3, 2), -1, np.float32), np.full((3, 2), -1, np.int32)]
        got = program([x], into)
    for result, target in zip(got, into, strict=True):
        assert result is target
    np.testing.assert_array_equal(got[0], x[:, :1:-1])
    np.testing.assert_array_equal(got[1], [[6, 4]] * 3)


@pytest.mark.parametrize("dtype", ["bf16"])
def test_bf16_is_rounded_where_it_is_made(dtype: DType) -> None:
    kind = TensorType((1000,), dtype)
    rng = np.random.default_rng(1)
    x = round_bf16(rng.normal(size=1000).astype(np.float32))
    with open_context() as context:
        module = function(context, [kind, kind], lambda b, v: [b("mul", v[0], v[1]) + v[0]])
        (got,) = load(module.body.operations[0])([x, x])
    np.testing.assert_array_equal(got, round_bf16(round_bf16(x * x) + x))


def test_what_is_not_finite_first() -> None:
    kind = TensorType((4,), "f32")

    def build(b: Builder, v: list[Val]) -> list[Val]:
        masked = b("where", b("lt", v[0], b.constant(0.0, kind)), b.constant(-np.inf, kind), v[0])
        root = b("sqrt", b("neg", v[0]))  # NaN where the input is positive
        return [b("exp", masked), b("mul", root, v[1])]

    with open_context() as context:
        module = function(context, [kind, kind], build)
        program = load(module.body.operations[0])
    finite = np.array([-1, -2, -3, 0], np.float32)
    positive = np.array([-1, -2, 3, 0], np.float32)
    bad = np.array([1, np.inf, 1, 1], np.float32)
    assert program.origin_not_finite([finite, finite]) is None  # the -inf of the mask is meant
    found = program.origin_not_finite([positive, finite])
    assert found is not None
    assert found[0] == "the result of sqrt"
    given = program.origin_not_finite([finite, bad])
    assert given is not None
    assert given[0].startswith("the ")
    assert program.spec.inputs[1].name in given[0]


WITHOUT_MEMORY = """
import resource
import numpy as np
from sexpgpu.diag import SxError
from sexpgpu.dialects.context import open_context
from sexpgpu.driver.planning import load
from sexpgpu.tensortype import TensorType
from tests.building import function
kind, wide = TensorType((1024,), "f32"), TensorType((1024, 1024, 1024), "f32")
def build(b, v):
    stretched = b("exp", b("broadcast", b("exp", v[0]), shape=wide.shape))
    return [b("sum", stretched, axes=(0, 1, 2), keepdims=False)]
with open_context() as context:
    module = function(context, [kind], build)
    program = load(module.body.operations[0])
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    try:
        program([np.zeros(1024, np.float32)])
    except SxError as fault:
        print(fault.diagnostic.code, fault.diagnostic.message)
"""


def test_an_arena_that_the_system_refuses_is_a_coded_error(root: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_MEMORY], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("E-MEM-002 there is not enough memory for the 4,294,9")
    assert "graph `f`" in done.stdout
