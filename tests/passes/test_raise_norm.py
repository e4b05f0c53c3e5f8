"""Layer norm and RMS norm in their spellings, with and without weight and bias, and norms that are others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.passes.raising import Build, outcome
from tests.passes.test_raise_softmax import spread, total

EPS = 0.125


def mean(b: Any, x: Any, axis: int = 1, *, keepdims: bool = True) -> Any:
    return total(b, x, axis, keepdims=keepdims) / float(x.type.shape[axis])


def line(b: Any, v: Any, like: Any) -> Any:
    return b("broadcast", v, shape=like.type.shape)


def centred(b: Any, x: Any) -> Any:
    return x - spread(b, mean(b, x), x)


def variance(b: Any, c: Any, **options: bool) -> Any:
    return mean(b, b("square", c), **options)


def library(b: Any, x: Any, w: Any, v: Any) -> Any:
    c = centred(b, x)
    return c * spread(b, b("rsqrt", variance(b, c) + EPS), x) * line(b, w, x) + line(b, v, x)


def divided(b: Any, x: Any, w: Any, v: Any) -> Any:
    c = centred(b, x)
    return line(b, v, x) + line(b, w, x) * (c / spread(b, b("sqrt", mean(b, c * c) + EPS), x))


def inverse_root(b: Any, x: Any, w: Any, v: Any) -> Any:
    c = x + -spread(b, total(b, x) * (1 / 6.0), x)
    r = 1 / b("sqrt", EPS + variance(b, c))
    return (c * (spread(b, r, x) * line(b, w, x))) + line(b, v, x)


def powers(b: Any, x: Any, w: Any, v: Any) -> Any:
    c = centred(b, x)
    size = mean(b, b("pow", c, b.constant(2, c.type)), keepdims=False) + EPS
    r = b("pow", size, b.constant(-0.5, size.type))
    return spread(b, r, x) * c * line(b, b("reshape", w, shape=(1, 6)), x) + line(b, v, x)


def weight_first(b: Any, x: Any, w: Any, v: Any) -> Any:
    c = centred(b, x)
    return (line(b, w, x) * c) / spread(b, b("sqrt", variance(b, c) + EPS), x) + line(b, v, x)


LAYER: tuple[Build, ...] = (library, divided, inverse_root, powers, weight_first)


def rms_library(b: Any, x: Any, w: Any) -> Any:
    return x * spread(b, b("rsqrt", variance(b, x) + EPS), x) * line(b, w, x)


def rms_divided(b: Any, x: Any, w: Any) -> Any:
    return line(b, w, x) * (x / spread(b, b("sqrt", mean(b, x * x) + EPS), x))


def rms_power(b: Any, x: Any, w: Any) -> Any:
    size = mean(b, b("square", x)) + EPS
    return line(b, w, x) * x * spread(b, b("pow", size, b.constant(-0.5, size.type)), x)


def rms_reciprocal(b: Any, x: Any, w: Any) -> Any:
    r = b("reciprocal", b("sqrt", EPS + mean(b, b("square", x), keepdims=False)))
    return x * (line(b, w, x) * spread(b, r, x))


RMS: tuple[Build, ...] = (rms_library, rms_divided, rms_power, rms_reciprocal)
PRECISIONS = [("f64", 1e-10), ("f32", 1e-5)]


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("build", LAYER)
def test_a_layer_norm_becomes_one_operation(build: Build, dtype: str, tolerance: float) -> None:
    found = outcome(build, f"{dtype}[4, 6]", f"{dtype}[6]", f"{dtype}[6]")
    assert found.composites == ("layer_norm",)
    assert found.forms == ("with weight and bias",)
    assert found.did == "1 layer norm"
    found.require_equal(tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("build", RMS)
def test_an_rms_norm_becomes_one_operation(build: Build, dtype: str, tolerance: float) -> None:
    found = outcome(build, f"{dtype}[4, 6]", f"{dtype}[6]")
    assert found.composites == ("rms_norm",)
    assert found.forms == ("with weight",)
    found.require_equal(tolerance)


def normalized(b: Any, x: Any) -> Any:
    c = centred(b, x)
    return c * spread(b, b("rsqrt", variance(b, c) + EPS), x)


@pytest.mark.parametrize(
    ("build", "form"),
    [
        (lambda b, x, w: normalized(b, x), "alone"),
        (lambda b, x, w: normalized(b, x) * line(b, w, x), "with weight"),
        (lambda b, x, w: normalized(b, x) + line(b, w, x), "with bias"),
    ],
)
def test_weight_and_bias_may_be_missing(build: Build, form: str) -> None:
    found = outcome(build, "f64[4, 6]", "f64[6]")
    assert found.composites == ("layer_norm",)
    assert found.forms == (form,)
    found.require_equal(1e-10)


def test_lines_may_lie_in_more_axes() -> None:
    def build(b: Any, x: Any, w: Any) -> Any:
        size = total(b, b("square", x), 2) / 6.0 + EPS
        return x * spread(b, b("rsqrt", size), x, 2) * line(b, w, x)

    found = outcome(build, "f64[2, 3, 6]", "f64[6]")
    assert found.composites == ("rms_norm",)
    found.require_equal(1e-10)


def eps_outside(b: Any, x: Any, w: Any) -> Any:
    c = centred(b, x)
    return c / spread(b, b("sqrt", variance(b, c)) + EPS, x) * line(b, w, x)


def another_axis(b: Any, x: Any, w: Any) -> Any:
    c = x - spread(b, mean(b, x, 0), x, 0)
    return c * spread(b, b("rsqrt", mean(b, b("square", c), 0) + EPS), x, 0) * line(b, w, x)


def unbiased(b: Any, x: Any, w: Any) -> Any:
    c = centred(b, x)
    return c * spread(b, b("rsqrt", total(b, b("square", c)) / 5.0 + EPS), x) * line(b, w, x)


def mean_of_another(b: Any, x: Any, w: Any) -> Any:
    c = x - spread(b, mean(b, x * 2.0), x)
    return c * spread(b, b("rsqrt", variance(b, x) + EPS), x) * line(b, w, x)


def stopped(b: Any, x: Any, w: Any) -> Any:
    c = centred(b, x)
    return c * spread(b, b("rsqrt", b("stop_gradient", variance(b, c)) + EPS), x) * line(b, w, x)


def fourth_power(b: Any, x: Any, w: Any) -> Any:
    c = centred(b, x)
    return c * spread(b, b("rsqrt", variance(b, b("square", c)) + EPS), x) * line(b, w, x)


@pytest.mark.parametrize("build", [eps_outside, another_axis, unbiased, mean_of_another, stopped, fourth_power])
def test_another_norm_stays(build: Build) -> None:
    found = outcome(build, "f64[6, 6]", "f64[6]")
    assert found.composites == ()
    found.require_equal(1e-12)


def test_the_size_over_a_line_with_another_mean_is_an_rms_norm() -> None:
    """x less anything, over its own root mean square."""

    def build(b: Any, x: Any, w: Any) -> Any:
        c = x - spread(b, mean(b, x * 2.0), x)
        return c * spread(b, b("rsqrt", variance(b, c) + EPS), x) * line(b, w, x)

    found = outcome(build, "f64[6, 6]", "f64[6]")
    assert found.composites == ("rms_norm",)
    found.require_equal(1e-10)


def test_a_variance_that_is_read_elsewhere_is_said() -> None:
    def build(b: Any, x: Any, w: Any) -> Any:
        c = centred(b, x)
        v = variance(b, c)
        return c * spread(b, b("rsqrt", v + EPS), x) * line(b, w, x) + spread(b, v, x)

    found = outcome(build, "f64[4, 6]", "f64[6]")
    assert found.composites == ()
    assert found.fell_back == ("layer_norm: another operation reads the div inside",)
