"""Attention in its spellings: scale, masks, heads and axes; and what is not that attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sexpgpu.tensortype import TensorType
from tests.passes.raising import Build, outcome

B, H, T, D = 2, 4, 6, 4
SCALE = 1 / math.sqrt(D)
QKV = ("[2, 4, 6, 4]",) * 3
INF = math.inf


def swapped(b: Any, x: Any) -> Any:
    rank = x.type.rank
    return b("transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2))


def product(b: Any, q: Any, k: Any) -> Any:
    return b("matmul", q, swapped(b, k))


def mix(b: Any, scores: Any, v: Any) -> Any:
    return b("matmul", b("softmax", scores, axis=scores.type.rank - 1), v)


def places(b: Any, axis: int, shape: tuple[int, int] = (T, T), dtype: str = "i32") -> Any:
    return b("iota", shape=shape, axis=axis, dtype=dtype)


def causal(b: Any, shape: tuple[int, int] = (T, T), diagonal: int = 0) -> Any:
    here = places(b, 0, shape) + (shape[1] - shape[0] + diagonal)
    return b("ge", here, places(b, 1, shape))


def across(b: Any, x: Any, like: Any) -> Any:
    return b("broadcast", x, shape=like.type.shape)


def fill(b: Any, like: Any, value: float = -INF) -> Any:
    return b.constant(value, like.type)


def masked(b: Any, scores: Any, mask: Any, value: float = -INF) -> Any:
    return b("where", across(b, mask, scores), scores, fill(b, scores, value))


def library(b: Any, q: Any, k: Any, v: Any) -> Any:
    return mix(b, masked(b, product(b, q, k) * SCALE, causal(b)), v)


def scale_on_q(b: Any, q: Any, k: Any, v: Any) -> Any:
    return mix(b, masked(b, product(b, q * SCALE, k), causal(b)), v)


def scale_on_k(b: Any, q: Any, k: Any, v: Any) -> Any:
    return mix(b, masked(b, product(b, q, k * SCALE), causal(b)), v)


def scale_on_both(b: Any, q: Any, k: Any, v: Any) -> Any:
    root = math.sqrt(SCALE)
    return mix(b, masked(b, product(b, q * root, k * root), causal(b)), v)


def scores_divided(b: Any, q: Any, k: Any, v: Any) -> Any:
    return mix(b, masked(b, product(b, q, k), causal(b)) / 2.5, v)


def finite_fill(b: Any, q: Any, k: Any, v: Any) -> Any:
    return mix(b, masked(b, product(b, q, k) * SCALE, causal(b), -1e9), v)


def hidden_where(b: Any, q: Any, k: Any, v: Any) -> Any:
    scores = product(b, q, k) * SCALE
    later = across(b, b("lt", places(b, 0), places(b, 1)), scores)
    return mix(b, b("where", later, fill(b, scores), scores), v)


def negated_mask(b: Any, q: Any, k: Any, v: Any) -> Any:
    scores = product(b, q, k) * SCALE
    later = b("logical_not", b("le", places(b, 1), places(b, 0)))
    return mix(b, b("where", across(b, later, scores), fill(b, scores), scores), v)


def added_where(b: Any, q: Any, k: Any, v: Any) -> Any:
    scores = product(b, q, k) * SCALE
    kind = TensorType((T, T), q.type.dtype)
    bias = b("where", causal(b), b.constant(0, kind), b.constant(-INF, kind))
    return mix(b, scores + across(b, bias, scores), v)


def added_product(b: Any, q: Any, k: Any, v: Any) -> Any:
    seen = b("cast", causal(b), dtype=q.type.dtype)
    scores = product(b, q, k) * SCALE
    return mix(b, across(b, (1 - seen) * -1e9, scores) + scores, v)


def less_hidden(b: Any, q: Any, k: Any, v: Any) -> Any:
    seen = b("cast", causal(b), dtype=q.type.dtype)
    scores = product(b, q, k) * SCALE
    return mix(b, scores + across(b, (seen - 1) * 1e10, scores), v)


def constant_mask(b: Any, q: Any, k: Any, v: Any) -> Any:
    mask = b.constant(np.tril(np.ones((T, T), np.bool_)), TensorType((T, T), "bool"))
    return mix(b, masked(b, product(b, q, k) * SCALE, mask), v)


def constant_bias(b: Any, q: Any, k: Any, v: Any) -> Any:
    scores = product(b, q, k) * SCALE
    array = np.triu(np.full((T, T), -INF), 1).astype(np.float64 if q.type.dtype == "f64" else np.float32)
    return mix(b, scores + across(b, b.constant(array, TensorType((T, T), q.type.dtype)), scores), v)


def column_of_places(b: Any, q: Any, k: Any, v: Any) -> Any:
    line = b("iota", shape=(T,), axis=0, dtype="i64")
    here = b("broadcast", b("reshape", line, shape=(T, 1)), shape=(T, T))
    mask = b("le", b("broadcast", line, shape=(T, T)), here)
    return mix(b, masked(b, product(b, q, k) * SCALE, mask), v)


def merged_axes(b: Any, q: Any, k: Any, v: Any) -> Any:
    flat = [b("reshape", x, shape=(B * H, T, D)) for x in (q, k, v)]
    scores = b("reshape", product(b, flat[0], flat[1]), shape=(B, H, T, T)) * SCALE
    weights = b("softmax", masked(b, scores, causal(b)), axis=3)
    y = b("matmul", b("reshape", weights, shape=(B * H, T, T)), flat[2])
    return b("reshape", y, shape=(B, H, T, D))


CAUSAL: tuple[Build, ...] = (
    library, scale_on_q, scale_on_k, scale_on_both, scores_divided, finite_fill, hidden_where, negated_mask,
    added_where, added_product, less_hidden, constant_mask, constant_bias, column_of_places, merged_axes,
)  # fmt: skip
DTYPES = [("f64", 1e-10), ("f32", 1e-5)]


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("build", CAUSAL)
def test_causal_attention_becomes_one_operation(build: Build, dtype: str, tolerance: float) -> None:
    found = outcome(build, *(dtype + shape for shape in QKV))
    assert found.composites == ("attention",)
    assert "causal" in found.forms[-1]
    assert "causal = true" in found.text
    assert found.fell_back == ()
    assert '"sx.matmul"' not in found.text
    found.require_equal(tolerance)


@pytest.mark.parametrize(
    ("build", "form"),
    [
        (library, "scale on the scores, mask by where, causal"),
        (scale_on_q, "scale on q, mask by where, causal"),
        (scores_divided, "mask by where, scores divided, causal"),
        (added_product, "scale on the scores, mask added, causal"),
    ],
)
def test_the_form_is_said(build: Build, form: str) -> None:
    assert outcome(build, *("f32" + shape for shape in QKV)).forms == (form,)


def test_without_a_mask_it_is_plain() -> None:
    found = outcome(lambda b, q, k, v: mix(b, product(b, q, k), v), *("f64" + shape for shape in QKV))
    assert found.composites == ("attention",)
    assert found.forms == ("plain",)
    found.require_equal(1e-10)


def repeated(b: Any, x: Any, groups: int, axis: int = 1) -> Any:
    """As `repeat-axis`: neighbours share a head."""
    shape = x.type.shape
    apart = b("reshape", x, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
    wide = b("broadcast", apart, shape=(*shape[: axis + 1], groups, *shape[axis + 1 :]))
    return b("reshape", wide, shape=(*shape[:axis], shape[axis] * groups, *shape[axis + 1 :]))


def grouped(b: Any, q: Any, k: Any, v: Any) -> Any:
    return mix(b, masked(b, product(b, q, repeated(b, k, 2)) * SCALE, causal(b)), repeated(b, v, 2))


def grouped_after_swapping(b: Any, q: Any, k: Any, v: Any) -> Any:
    scores = b("matmul", q, repeated(b, swapped(b, k), 2)) * SCALE
    return mix(b, masked(b, scores, causal(b)), repeated(b, v, 2))


def grouped_einsum(b: Any, q: Any, k: Any, v: Any) -> Any:
    """bhgtd,bhsd->bhgts, as `einsum` lowers it: the rows of a group stand one behind the other."""
    stacked = b("reshape", q, shape=(B * 2, 2 * T, D))
    keys = b("reshape", swapped(b, k), shape=(B * 2, D, T))
    scores = b("reshape", b("matmul", stacked, keys), shape=(B, 2, 2, T, T)) * SCALE
    weights = b("softmax", masked(b, scores, causal(b)), axis=4)
    flat = b("reshape", weights, shape=(B * 2, 2 * T, T))
    return b("reshape", b("matmul", flat, b("reshape", v, shape=(B * 2, T, D))), shape=(B, H, T, D))


def grouped_before_moving(b: Any, q: Any, k: Any, v: Any) -> Any:
    """[batch, time, heads, dim] repeated along the heads, then turned."""
    turned = [b("transpose", x, perm=(0, 2, 1, 3)) for x in (k, v)]
    keys, values = (b("transpose", repeated(b, x, 2, axis=2), perm=(0, 2, 1, 3)) for x in turned)
    return mix(b, masked(b, product(b, q, keys) * SCALE, causal(b)), values)


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("build", [grouped, grouped_after_swapping, grouped_einsum, grouped_before_moving])
def test_shared_heads_are_read_as_they_are(build: Build, dtype: str, tolerance: float) -> None:
    found = outcome(build, f"{dtype}[2, 4, 6, 4]", *[f"{dtype}[2, 2, 6, 4]"] * 2)
    assert found.composites == ("attention",)
    found.require_equal(tolerance)
    if build is not grouped_einsum:
        assert "2 heads for 4" in found.forms[0]
        kind = "f64" if dtype == "f64" else "f32"
        assert f"(tensor<2x4x6x4x{kind}>, tensor<2x2x6x4x{kind}>, tensor<2x2x6x4x{kind}>)" in found.text


def window_by_and(b: Any, reach: int = 3) -> Any:
    near = b("gt", places(b, 1), places(b, 0) - reach)
    return b("logical_and", causal(b), near)


def window_by_difference(b: Any) -> Any:
    distance = places(b, 0) - places(b, 1)
    far = b("lt", distance, b.constant(3, distance.type))
    return b("logical_and", b("ge", distance, b.constant(0, distance.type)), far)


def window_constant(b: Any) -> Any:
    offset = np.arange(T) - np.arange(T)[:, None]
    return b.constant((offset <= 0) & (offset > -3), TensorType((T, T), "bool"))


def around_by_abs(b: Any) -> Any:
    distance = b("abs", places(b, 0) - places(b, 1))
    return b("lt", distance, b.constant(3, distance.type))


def around_by_and(b: Any) -> Any:
    here, there = places(b, 0), places(b, 1)
    return b("logical_and", b("lt", there, here + 3), b("lt", here - 3, there))


@pytest.mark.parametrize(
    ("mask", "is_causal"),
    [
        (window_by_and, True),
        (window_by_difference, True),
        (window_constant, True),
        (around_by_abs, False),
        (around_by_and, False),
    ],
)
def test_a_window_is_read_from_the_mask(mask: Any, is_causal: bool) -> None:
    found = outcome(
        lambda b, q, k, v: mix(b, masked(b, product(b, q, k) * SCALE, mask(b)), v), *("f64" + shape for shape in QKV)
    )
    assert found.composites == ("attention",)
    assert f"causal = {str(is_causal).lower()}" in found.text
    assert "window = 3 : i64" in found.text
    found.require_equal(1e-10)


def test_two_masks_meet() -> None:
    def build(b: Any, q: Any, k: Any, v: Any) -> Any:
        scores = masked(b, product(b, q, k) * SCALE, causal(b))
        return mix(b, masked(b, scores, b("gt", places(b, 1), places(b, 0) - 2)), v)

    found = outcome(build, *("f64" + shape for shape in QKV))
    assert "causal = true" in found.text
    assert "window = 2 : i64" in found.text
    found.require_equal(1e-10)


def test_fewer_queries_than_keys_stand_at_the_end() -> None:
    def build(b: Any, q: Any, k: Any, v: Any) -> Any:
        return mix(b, masked(b, product(b, q, k) * SCALE, causal(b, (3, T))), v)

    found = outcome(build, "f64[2, 4, 3, 4]", *("f64" + shape for shape in QKV[1:]))
    assert found.composites == ("attention",)
    found.require_equal(1e-10)


def padding(b: Any, q: Any, k: Any, v: Any, kept: Any) -> Any:
    mask = b("reshape", kept, shape=(B, 1, 1, T))
    return mix(b, masked(b, product(b, q, k) * SCALE, mask), v)


def padding_and_causal(b: Any, q: Any, k: Any, v: Any, kept: Any) -> Any:
    mask = b("reshape", kept, shape=(B, 1, 1, T))
    return mix(b, masked(b, masked(b, product(b, q, k) * SCALE, mask), causal(b)), v)


@pytest.mark.parametrize("build", [padding, padding_and_causal])
def test_a_mask_of_the_data_becomes_a_bias(build: Build) -> None:
    def seen(b: Any, q: Any, k: Any, v: Any, kept: Any) -> Any:
        first = b("iota", shape=(B, T), axis=1, dtype="i32")
        return build(b, q, k, v, b("logical_or", kept, b("eq", first, b.constant(0, first.type))))

    found = outcome(seen, *("f64" + shape for shape in QKV), "bool[2, 6]")
    assert found.composites == ("attention_biased",)
    assert "tensor<2x1x1x6xf64>)" in found.text
    found.require_equal(1e-10)


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("shape", ["[4, 6, 6]", "[2, 4, 6, 6]", "[6, 6]", "[4, 1, 6]"])
def test_a_learned_bias_is_an_operand_with_a_derivative(shape: str, dtype: str, tolerance: float) -> None:
    def build(b: Any, q: Any, k: Any, v: Any, bias: Any) -> Any:
        scores = product(b, q, k) * SCALE
        return mix(b, masked(b, scores + across(b, bias, scores), causal(b)), v)

    found = outcome(build, *(dtype + each for each in QKV), dtype + shape)
    assert found.composites == ("attention_biased",)
    found.require_equal(tolerance)


def test_a_bias_under_the_scale_is_scaled_with_it() -> None:
    def build(b: Any, q: Any, k: Any, v: Any, bias: Any) -> Any:
        scores = product(b, q, k)
        return mix(b, (scores - across(b, bias, scores)) * 0.3, v)

    found = outcome(build, *("f64" + each for each in QKV), "f64[4, 6, 6]")
    assert found.composites == ("attention_biased",)
    found.require_equal(1e-10)


@pytest.mark.parametrize("axes", [(), (3,), (2, 2, 2)])
def test_any_number_of_axes_may_stand_in_front(axes: tuple[int, ...]) -> None:
    shape = f"f64[{', '.join(map(str, (*axes, 5, 4)))}]"

    def build(b: Any, q: Any, k: Any, v: Any) -> Any:
        return mix(b, masked(b, product(b, q, k) * SCALE, causal(b, (5, 5))), v)

    found = outcome(build, shape, shape, shape)
    assert found.composites == ("attention",)
    found.require_equal(1e-10)


def test_heads_cut_out_of_one_projection_are_turned_by_the_composite() -> None:
    def build(b: Any, x: Any) -> Any:
        parts = []
        for i in range(3):
            part = b("slice", x, start=(0, 0, i * 8), stop=(2, T, i * 8 + 8), step=(1, 1, 1))
            parts.append(b("transpose", b("reshape", part, shape=(2, T, 2, 4)), perm=(0, 2, 1, 3)))
        q, k, v = parts
        return mix(b, masked(b, product(b, q * SCALE, k), causal(b)), v)

    found = outcome(build, "f64[2, 6, 24]")
    assert found.composites == ("attention",)
    assert found.text.count('"sx.transpose"') == 3
    found.require_equal(1e-10)


@pytest.mark.parametrize("build", [library, scale_on_q, finite_fill, added_where, merged_axes])
def test_under_bf16_it_rounds_where_its_parts_do(build: Build) -> None:
    def mixed(b: Any, x: Any, w: Any) -> Any:
        parts = [b("reshape", b("matmul", x, w * float(i + 1)), shape=(B, H, T, D)) for i in range(3)]
        return build(b, *parts)

    found = outcome(mixed, "f32[48, 4]", "f32[4, 4]", policy="bf16")
    assert found.composites == ("attention",)
    assert "rounded = true" in found.text
    np.testing.assert_allclose(found.raised[0], found.plain[0], rtol=1e-5)
    for value, wanted in zip(found.raised[1:], found.plain[1:], strict=True):
        np.testing.assert_allclose(value, wanted, atol=2e-2 * float(np.abs(wanted).max()))


def test_a_scale_on_q_that_rounds_stays_outside() -> None:
    def mixed(b: Any, x: Any, w: Any) -> Any:
        parts = [b("reshape", b("matmul", x, w * float(i + 1)), shape=(B, H, T, D)) for i in range(3)]
        return mix(b, product(b, parts[0] * 0.3, parts[1]), parts[2])

    found = outcome(mixed, "f32[48, 4]", "f32[4, 4]", policy="bf16")
    assert found.composites == ("attention",)
    assert "scale = 1.000000e+00" in found.text
    np.testing.assert_allclose(found.raised[0], found.plain[0], rtol=1e-5)
