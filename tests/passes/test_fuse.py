"""Groups keep what a graph computes, whole and tile by tile, and the order stays possible."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir

from sexpgpu.diag import SxError
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.groups import group_of
from sexpgpu.dialects.opdef import numpy_dtype
from sexpgpu.dialects.signature import type_of
from sexpgpu.driver.compile import compiling
from sexpgpu.interp.reference import evaluate
from sexpgpu.lang.selection import Selection
from sexpgpu.passes.base import graphs
from sexpgpu.passes.fuse import Fuse
from sexpgpu.passes.fusing import tiling
from sexpgpu.passes.simplify import Simplify
from sexpgpu.passes.verify import Verify
from sexpgpu.tensortype import DType, TensorType
from tests.building import function
from tests.passes.grouping import NAMES, STEPS, build_program, cut_small, evaluate_tiled, inline_group

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SHAPES = ((4, 3, 5), (7, 6), (1, 4, 3), (12,), (2, 3, 2, 4), (6, 6), (3, 2, 3))


@settings(max_examples=200, deadline=None)
@given(STEPS, st.sampled_from(SHAPES), st.sampled_from(["cpu", "cuda"]), st.integers(0, 9))
def test_groups_keep_every_bit_and_tiles_give_the_whole(
    steps: list[tuple[str, int, int]], shape: tuple[int, ...], target: str, seed: int
) -> None:
    kinds = [TensorType(shape, "f64"), TensorType(shape, "f64"), TensorType(shape[-1:], "f64")]
    rng = np.random.default_rng(seed)
    arrays: list[Any] = [rng.normal(size=kind.shape) for kind in kinds]
    with open_context() as context, pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        module = function(context, kinds, lambda b, v: build_program(b, v, steps))
        Simplify().run(module, context)
        func = graphs(module)[0]
        before = [np.array(x) for x in evaluate(func, arrays)]
        Fuse(target).run(module, context)
        Verify().run(module, context)
        for old, new in zip(before, evaluate(func, arrays), strict=True):
            np.testing.assert_array_equal(old, new)
        if target == "cpu":
            for old, new in zip(before, evaluate_tiled(func, arrays), strict=True):
                np.testing.assert_allclose(new, old, rtol=1e-10, atol=1e-10 * max(1.0, np.abs(old).max(initial=0)))
        for call in [op.operation for op in func.regions[0].blocks[0].operations]:
            if group_of(call) is not None:
                inline_group(context, call)
        Verify().run(module, context)
        assert len(module.body.operations) == 1
        for old, new in zip(before, evaluate(func, arrays), strict=True):
            np.testing.assert_array_equal(old, new)


def calls(func: Any) -> list[Any]:
    """The functions of the groups that a graph calls, in order."""
    found = [group_of(op) for op in func.regions[0].blocks[0].operations]
    return [group[1] for group in found if group is not None]


def folded(b: Any, values: list[Any]) -> list[Any]:
    """Sums over leading axes and all axes, with what is computed for them alone."""
    x, y = values
    product = x * y
    return [
        b("sum", product, axes=(0, 1), keepdims=False),
        b("sum", b("square", x), axes=(0, 1, 2), keepdims=True),
        b("amax", product, axes=(0, 1), keepdims=False),
    ]


@pytest.mark.parametrize(("dtype", "bound"), [("f32", 1e-5), ("f64", 1e-10)])
def test_sums_folded_over_tiles_stay_near_the_whole_sum(dtype: DType, bound: float) -> None:
    kind = TensorType((24, 64, 128), dtype)
    rng = np.random.default_rng(3)
    arrays: list[Any] = [rng.uniform(0.5, 2, size=kind.shape).astype(numpy_dtype(dtype)) for _ in range(2)]
    with open_context() as context:
        module = function(context, [kind, kind], folded)
        func = graphs(module)[0]
        before = [np.array(x) for x in evaluate(func, arrays)]
        Fuse().run(module, context)
        (group,) = calls(func)
        assert len(ir.DenseI64ArrayAttr(group.attributes["sx.tile"])) == 1
        assert [ir.StringAttr(fold).value for fold in group.attributes["sx.fold"]] == ["add", "add", "max"]
        for old, new in zip(before, evaluate_tiled(func, arrays), strict=True):
            np.testing.assert_allclose(new, old, rtol=bound)


def test_what_a_norm_reads_in_full_is_no_part_of_what_it_reads_by_lines() -> None:
    with open_context() as context, pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        module = function(
            context,
            [TensorType((8, 4), "f64")],
            lambda b, v: [
                b.several(
                    "rms_norm",
                    b("reshape", v[0], shape=(2, 4, 4)),
                    b("reshape", b("slice", v[0], start=(3, 0), stop=(4, 4), step=(1, 1)), shape=(4,)),
                    eps=0.25,
                )[0]
                * 2.0
            ],
        )
        func = graphs(module)[0]
        arrays: list[Any] = [np.random.default_rng(5).normal(size=(8, 4))]
        before = [np.array(x) for x in evaluate(func, arrays)]
        Fuse().run(module, context)
        Verify().run(module, context)
        for old, new in zip(before, evaluate_tiled(func, arrays), strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-12)


@pytest.mark.parametrize("rows", [(256,), (128, 3)])
def test_a_weight_as_long_as_there_are_rows_is_made_before_the_rows_read_it(rows: tuple[int, ...]) -> None:
    """By parts of itself it would be no weight: rows are cut along an axis of its length."""
    kinds = [TensorType((*rows, rows[0]), "f64"), TensorType(rows[:1], "f64")]
    arrays = [np.random.default_rng(0).normal(size=kind.shape) for kind in kinds]

    def build(b: Any, values: list[Any]) -> list[Any]:
        x, weight = values
        return [b("tanh", b.several("rms_norm", x, weight + 1.0, eps=0.25)[0])]

    with open_context() as context:
        module = function(context, kinds, build)
        func = graphs(module)[0]
        before = [np.array(x) for x in evaluate(func, arrays)]
        Fuse("cpu").run(module, context)
        np.testing.assert_allclose(evaluate_tiled(func, arrays)[0], before[0], rtol=1e-12)


def test_what_repeats_one_tensor_for_every_tile_is_one_tile() -> None:
    with open_context() as context:
        module = function(
            context,
            [TensorType((64, 128), "f64")],
            lambda b, v: [
                b("sum", b("broadcast", v[0], shape=(50, 64, 128)) * 2.0, axes=(0, 1, 2), keepdims=False),
                b("sum", b("broadcast", b("broadcast", v[0], shape=(3, 64, 128)), shape=(9, 3, 64, 128)) * 0.5,
                  axes=(0, 3), keepdims=False),
            ],
        )  # fmt: skip
        func = graphs(module)[0]
        arrays: list[Any] = [np.random.default_rng(5).uniform(0.5, 1, size=(64, 128))]
        before = [np.array(x) for x in evaluate(func, arrays)]
        Fuse().run(module, context)
        Verify().run(module, context)
        assert len(calls(func)) == 2
        for old, new in zip(before, evaluate_tiled(func, arrays), strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-10)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(1, 1 << 22), st.integers(1, 4096))
def test_tiles_fit_the_budget_or_are_as_small_as_is_worthwhile(sizes: list[int], live: int, line: int) -> None:
    lead = tuple(sizes)
    places = math.prod(lead)
    tile = tiling.tile_sizes(lead, live, places * line)
    assert all(1 <= t <= n for t, n in zip(tile, lead, strict=False))
    part = math.prod(tile) * math.prod(lead[len(tile) :])
    assert part * live <= tiling.BUDGET * places or (part - 1) * line < tiling.LEAST
    if not tile or tile[-1] == lead[len(tile) - 1]:
        assert not tile  # axes taken in full are not named


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("example", ["shakespeare", "vae", "wgan-gp"])
def test_graphs_of_examples_keep_every_bit(example: str, target: str) -> None:
    selection = Selection(variant="smoke") if example == "shakespeare" else Selection()
    with np.errstate(all="ignore"), compiling(EXAMPLES / f"{example}.sx", selection) as done:
        assert done.ok
        funcs = [f.operation for f in graphs(done.module) if "train" in str(f.attributes["sym_name"])]
        funcs += [f.operation for f in graphs(done.module) if "update" in str(f.attributes["sym_name"])]
        given = [_inputs(func) for func in funcs]
        before = [[np.array(x) for x in evaluate(f, arrays)] for f, arrays in zip(funcs, given, strict=True)]
        Fuse(target).run(done.module, done.context)
        Verify().run(done.module, done.context)
        assert sum(len(calls(func)) for func in funcs) > 8
        for func, arrays, old in zip(funcs, given, before, strict=True):
            for x, y in zip(old, evaluate(func, arrays), strict=True):
                np.testing.assert_array_equal(x, y)
            if target == "cpu":
                for x, y in zip(old, evaluate_tiled(func, arrays), strict=True):
                    np.testing.assert_allclose(y, x, rtol=1e-5, atol=1e-5 * np.abs(x).max(initial=1e-3))


def _inputs(func: Any) -> list[Any]:
    rng = np.random.default_rng(7)
    arrays: list[Any] = []
    for argument in func.regions[0].blocks[0].arguments:
        type = type_of(argument)
        if type.is_float:
            arrays.append(rng.uniform(0.01, 0.2, size=type.shape).astype(numpy_dtype(type.dtype)))
        else:
            arrays.append(rng.integers(0, 2, size=type.shape).astype(numpy_dtype(type.dtype)))
    return arrays


def test_the_same_module_gives_the_same_groups() -> None:
    kinds = [TensorType((6, 40, 64), "f32")] * 2
    steps = [(name, 3 * i, 5 * i) for i, name in enumerate(NAMES)]
    texts = []
    for _ in range(2):
        with open_context() as context:
            module = function(context, kinds, lambda b, v: build_program(b, v, steps))
            Fuse().run(module, context)
            texts.append(str(module))
    assert texts[0] == texts[1]
    assert texts[0].count("sx.group") > 1


def test_another_target_is_refused() -> None:
    with open_context() as context:
        module = function(context, [TensorType((2,), "f32")], lambda b, v: [b("exp", v[0])])
        with pytest.raises(SxError, match="E-IR-011"):
            Fuse("tpu").run(module, context)
