"""What a pattern takes for a number or for a place is one: casts that change it and axes that move are seen."""

from __future__ import annotations

from typing import Any

import pytest

from sexpgpu.dialects.context import open_context
from sexpgpu.passes.patterns.mask import Band, band
from sexpgpu.passes.patterns.matching import View, number
from sexpgpu.tensortype import TensorType
from tests.building import function
from tests.passes.raising import Build, outcome
from tests.passes.test_raise_attention import QKV, SCALE, T, masked, mix, places, product


def hot_loss(b: Any, x: Any, places: Any, labels: Any) -> Any:
    """The one-hot tail with the places as they are given, [rows, classes]."""
    wanted = b("broadcast", b("reshape", labels, shape=(x.type.shape[0], 1)), shape=x.type.shape)
    hot = b("cast", b("eq", places, wanted), dtype=x.type.dtype)
    return -b("sum", hot * b("log_softmax", x, axis=1), axes=(1,), keepdims=False)


def counted_down_the_rows(b: Any, x: Any, labels: Any) -> Any:
    """As many rows as classes: the lengths do not tell the axes apart."""
    n = x.type.shape[0]
    rows = b("reshape", b("iota", shape=(n,), axis=0, dtype="i32"), shape=(n, 1))
    return hot_loss(b, x, b("broadcast", rows, shape=x.type.shape), labels)


def counted_along_the_classes(b: Any, x: Any, labels: Any) -> Any:
    n = x.type.shape[0]
    classes = b("reshape", b("iota", shape=(n,), axis=0, dtype="i32"), shape=(1, n))
    return hot_loss(b, x, b("broadcast", classes, shape=x.type.shape), labels)


def test_an_axis_is_followed_through_reshapes() -> None:
    down = outcome(counted_down_the_rows, "f64[3, 3]", "i32[3]")
    assert "cross_entropy" not in down.composites
    down.require_equal(1e-12)
    along = outcome(counted_along_the_classes, "f64[3, 3]", "i32[3]")
    assert along.composites == ("cross_entropy",)
    along.require_equal(1e-12)


@pytest.mark.parametrize(("classes", "raised"), [(256, True), (300, False)])
def test_classes_that_wrap_around_are_no_one_hot(classes: int, raised: bool) -> None:
    def build(b: Any, x: Any, labels: Any) -> Any:
        line = b("broadcast", b("iota", shape=(classes,), axis=0, dtype="i32"), shape=x.type.shape)
        return hot_loss(b, x, b("cast", line, dtype="u8"), b("cast", labels, dtype="u8"))

    found = outcome(build, f"f64[2, {classes}]", "i32[2]")
    assert ("cross_entropy" in found.composites) == raised
    found.require_equal(1e-12)


@pytest.mark.parametrize(("dtype", "wanted"), [("i32", 0.0), ("u8", 0.0), ("bool", 1.0), ("bf16", 0.7), ("f64", 0.7)])
def test_a_number_is_what_its_casts_leave_of_it(dtype: str, wanted: float) -> None:
    with open_context() as context:
        kind = TensorType((), "f32")

        def build(b: Any, values: Any) -> Any:
            return [b("cast", b("cast", b.constant(0.7, kind), dtype=dtype), dtype="f32")]

        module = function(context, [kind], build)
        view = View(module.body.operations[0].regions[0].blocks[0])
        (node,) = [node for node in view.each("cast") if node.type.dtype == "f32"]
        assert number(node) == pytest.approx(wanted, abs=1e-7)


@pytest.mark.parametrize(
    ("name", "swapped", "wanted"),
    [
        ("ge", False, Band(high=0)),
        ("gt", False, Band(high=0)),
        ("le", False, Band(low=1)),
        ("lt", False, Band(low=1)),
        ("le", True, Band(high=0)),
        ("ge", True, Band(low=1)),
    ],
)
def test_half_a_place_bounds_whole_ones(name: str, swapped: bool, wanted: Band) -> None:
    """row + 1/2 >= column is column - row <= 0, whether the comparison is strict or not."""

    def build(b: Any, values: Any) -> Any:
        pair = (places(b, 0, dtype="f32") + 0.5, places(b, 1, dtype="f32"))
        return [b(name, *(pair[::-1] if swapped else pair))]

    with open_context() as context:
        module = function(context, [TensorType((), "f32")], build)
        (node,) = View(module.body.operations[0].regions[0].blocks[0]).each(name)
        assert band(node, (T, T)) == wanted


def half_a_place(b: Any, q: Any, k: Any, v: Any) -> Any:
    mask = b("ge", places(b, 0, dtype="f32") + 0.5, places(b, 1, dtype="f32"))
    return mix(b, masked(b, product(b, q, k) * SCALE, mask), v)


def narrow_places(b: Any, q: Any, k: Any, v: Any) -> Any:
    """-1 is 255 of u8: the first row sees every key."""
    before = b("cast", places(b, 0) - 1, dtype="u8")
    return mix(b, masked(b, product(b, q, k) * SCALE, b("ge", before, b("cast", places(b, 1), dtype="u8"))), v)


@pytest.mark.parametrize(("build", "raised"), [(half_a_place, True), (narrow_places, False)])
def test_masks_of_odd_places(build: Build, raised: bool) -> None:
    found = outcome(build, *("f32" + shape for shape in QKV))
    assert ("attention" in found.composites) == raised
    found.require_equal(1e-5)


def test_masks_that_leave_nothing_to_see_together() -> None:
    """Each of them shows every row a key."""

    def build(b: Any, q: Any, k: Any, v: Any) -> Any:
        shape = (3, T)
        rows, keys = places(b, 0, shape), places(b, 1, shape)
        scores = masked(b, product(b, q, k) * SCALE, b("ge", keys, rows + 2), -1e4)
        return mix(b, masked(b, scores, b("le", keys, rows), -1e4), v)

    found = outcome(build, "f32[2, 4, 3, 4]", *("f32" + shape for shape in QKV[1:]))
    assert "attention" not in found.composites
    assert found.fell_back == ("attention: masks that hide every key from a row",)
    found.require_equal(1e-5)
