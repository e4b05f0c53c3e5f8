"""Groups keep what a graph computes, whole and tile by tile, and the order stays possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.groups import group_of, inline_group
from sexpgpu.interp.reference import evaluate
from sexpgpu.passes.base import graphs
from sexpgpu.passes.fuse import Fuse
from sexpgpu.passes.fusing import clusters, grow, tiling
from sexpgpu.passes.simplify import Simplify
from sexpgpu.passes.verify import Verify
from sexpgpu.tensortype import TensorType
from tests.building import function
from tests.passes.grouping import STEPS, build_program, evaluate_tiled

SHAPES = ((4, 3, 5), (7, 6), (1, 4, 3), (12,), (2, 3, 2, 4))


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of a few elements, so that small tensors are cut."""
    _small(monkeypatch)


def _small(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(clusters, "SMALL", 2)
    patch.setattr(grow, "SMALL", 2)
    patch.setattr(clusters, "LONGEST", 64)
    patch.setattr(tiling, "BUDGET", 128)
    patch.setattr(tiling, "LEAST", 2)


@settings(max_examples=200, deadline=None)
@given(STEPS, st.sampled_from(SHAPES), st.sampled_from(["cpu", "cuda"]), st.integers(0, 9))
def test_groups_keep_every_bit_and_tiles_give_the_whole(
    steps: list[tuple[str, int, int]], shape: tuple[int, ...], target: str, seed: int
) -> None:
    kinds = [TensorType(shape, "f64"), TensorType(shape, "f64"), TensorType(shape[-1:], "f64")]
    rng = np.random.default_rng(seed)
    arrays: list[Any] = [rng.normal(size=kind.shape) for kind in kinds]
    with open_context() as context, pytest.MonkeyPatch.context() as patch:
        _small(patch)
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
