"""What looks like attention and is left, with the reason where it nearly was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sexpgpu.tensortype import TensorType
from tests.passes.raising import Build, outcome
from tests.passes.test_raise_attention import (
    QKV,
    SCALE,
    B,
    D,
    H,
    T,
    across,
    causal,
    fill,
    masked,
    mix,
    places,
    product,
    swapped,
)


def other_diagonal(b: Any, q: Any, k: Any, v: Any) -> Any:
    return mix(b, masked(b, product(b, q, k) * SCALE, causal(b, diagonal=1)), v)


def looking_ahead(b: Any, q: Any, k: Any, v: Any) -> Any:
    return mix(b, masked(b, product(b, q, k) * SCALE, b("le", places(b, 0), places(b, 1))), v)


def dropped_out(b: Any, q: Any, k: Any, v: Any) -> Any:
    weights = b("softmax", product(b, q, k) * SCALE, axis=3)
    kept = b("where", across(b, causal(b), weights), weights / 0.9, fill(b, weights, 0.0))
    return b("matmul", kept, v)


def weights_read(b: Any, q: Any, k: Any, v: Any) -> Any:
    weights = b("softmax", product(b, q, k) * SCALE, axis=3)
    return b("matmul", weights, v) + b("matmul", weights, q)


def scores_read(b: Any, q: Any, k: Any, v: Any) -> Any:
    scores = product(b, q, k) * SCALE
    return mix(b, scores, v) + b("matmul", scores, v)


def finite_mask(b: Any, q: Any, k: Any, v: Any) -> Any:
    seen = b("gt", b("sum", q, axes=(0, 1, 3), keepdims=False), b.constant(0, TensorType((T,), q.type.dtype)))
    return mix(b, masked(b, product(b, q, k) * SCALE, seen, -1e9), v)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (other_diagonal, "a mask whose diagonal is neither causal nor a window"),
        (looking_ahead, "a mask whose diagonal is neither causal nor a window"),
        (dropped_out, "an operation stands between the weights and the product with the values, as dropout does"),
        (weights_read, "the weights are read by more than one operation"),
        (scores_read, "another operation reads the mul inside"),
        (finite_mask, "a mask that is not made of positions, with a finite number for what it hides"),
    ],
)
def test_a_region_that_is_left_says_why(build: Build, reason: str) -> None:
    found = outcome(build, *("f64" + shape for shape in QKV))
    assert found.composites == ("softmax",)
    assert found.fell_back == (f"attention: {reason}",)
    found.require_equal(1e-12)


def other_axis(b: Any, q: Any, k: Any, v: Any) -> Any:
    scores = masked(b, product(b, q, k) * SCALE, causal(b))
    return b("matmul", b("softmax", scores, axis=2), v)


def squashed(b: Any, q: Any, k: Any, v: Any) -> Any:
    return mix(b, b("tanh", product(b, q, k) * SCALE), v)


def turned_weights(b: Any, q: Any, k: Any, v: Any) -> Any:
    return b("matmul", swapped(b, b("softmax", product(b, q, k), axis=3)), v)


def small_number(b: Any, q: Any, k: Any, v: Any) -> Any:
    return mix(b, masked(b, product(b, q, k) * SCALE, causal(b), -10.0), v)


def scaled_by_a_value(b: Any, q: Any, k: Any, v: Any) -> Any:
    scores = product(b, q, k)
    return mix(b, scores * scores, v)


@pytest.mark.parametrize("build", [other_axis, squashed, turned_weights, small_number, scaled_by_a_value])
def test_another_computation_stays(build: Build) -> None:
    found = outcome(build, *("f64" + shape for shape in QKV))
    assert found.composites == ("softmax",)
    found.require_equal(1e-12)


def test_heads_that_alternate_are_not_shared_by_neighbours() -> None:
    """Copies of all heads one behind the other, as `tile` makes them, stay copies."""

    def tiled(b: Any, x: Any) -> Any:
        apart = b("reshape", x, shape=(B, 1, 2, T, D))
        return b("reshape", b("broadcast", apart, shape=(B, 2, 2, T, D)), shape=(B, H, T, D))

    found = outcome(
        lambda b, q, k, v: mix(b, product(b, q, tiled(b, k)), tiled(b, v)),
        "f64[2, 4, 6, 4]",
        *["f64[2, 2, 6, 4]"] * 2,
    )
    assert found.composites == ("attention",)
    assert "heads for" not in found.forms[0]
    found.require_equal(1e-10)


def test_a_row_that_sees_nothing_stays_undefined() -> None:
    """No key before the first: -inf throughout, whose softmax is no number, with the pass and without."""

    def build(b: Any, q: Any, k: Any, v: Any) -> Any:
        y = mix(b, masked(b, product(b, q, k) * SCALE, causal(b, diagonal=-1)), v)
        return b("slice", y, start=(0, 0, 1, 0), stop=(B, H, T, D), step=(1, 1, 1, 1))

    found = outcome(build, *("f64" + shape for shape in QKV))
    np.testing.assert_allclose(found.raised[0], found.plain[0], rtol=1e-10)
