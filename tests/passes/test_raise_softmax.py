"""softmax, log-softmax and logsumexp in their spellings, and what only looks like them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.passes.raising import Build, outcome

Spelling = tuple[str, str, Build]


def spread(b: Any, x: Any, like: Any, axis: int = 1) -> Any:
    """One number a line, repeated along the axis."""
    shape = tuple(1 if i == axis else n for i, n in enumerate(like.type.shape))
    kept = x if x.type.shape == shape else b("reshape", x, shape=shape)
    return b("broadcast", kept, shape=like.type.shape)


def total(b: Any, x: Any, axis: int = 1, *, keepdims: bool = True) -> Any:
    return b("sum", x, axes=(axis,), keepdims=keepdims)


def peak(b: Any, x: Any, axis: int = 1, *, stopped: bool = True, keepdims: bool = True) -> Any:
    found = b("amax", x, axes=(axis,), keepdims=keepdims)
    return b("stop_gradient", found) if stopped else found


def shifted(b: Any, x: Any, axis: int = 1, **options: Any) -> Any:
    return x - spread(b, peak(b, x, axis, **options), x, axis)


def softmax_shifted(b: Any, x: Any) -> Any:
    e = b("exp", shifted(b, x))
    return e / spread(b, total(b, e), x)


def softmax_dropped_axes(b: Any, x: Any) -> Any:
    e = b("exp", shifted(b, x, stopped=False, keepdims=False))
    return e / spread(b, total(b, e, keepdims=False), x)


def softmax_by_reciprocal(b: Any, x: Any) -> Any:
    e = b("exp", x + -spread(b, peak(b, x), x))
    return spread(b, b("reciprocal", total(b, e)), x) * e


def softmax_by_quotient(b: Any, x: Any) -> Any:
    e = b("exp", shifted(b, x))
    return e * (1 / spread(b, total(b, e), x))


def softmax_guarded(b: Any, x: Any) -> Any:
    found = peak(b, x)
    safe = b("where", b("isfinite", found), found, b.constant(0, found.type))
    e = b("exp", x - spread(b, safe, x))
    return e / spread(b, total(b, e), x)


def softmax_plain(b: Any, x: Any) -> Any:
    e = b("exp", x)
    return e / spread(b, total(b, e), x)


def softmax_first_axis(b: Any, x: Any) -> Any:
    e = b("exp", shifted(b, x, 0))
    return e / spread(b, total(b, e, 0), x, 0)


def softmax_from_log(b: Any, x: Any) -> Any:
    return b("exp", x - spread(b, b("logsumexp", x, axis=1, keepdims=True), x))


def log_softmax_shifted(b: Any, x: Any) -> Any:
    z = shifted(b, x)
    return z - spread(b, b("log", total(b, b("exp", z))), x)


def log_softmax_less_logsumexp(b: Any, x: Any) -> Any:
    return x - spread(b, logsumexp_shifted(b, x), x)


def log_softmax_of_softmax(b: Any, x: Any) -> Any:
    return b("log", softmax_shifted(b, x))


def log_softmax_plain(b: Any, x: Any) -> Any:
    return x - spread(b, b("log", total(b, b("exp", x), keepdims=False)), x)


def logsumexp_shifted(b: Any, x: Any) -> Any:
    return b("log", total(b, b("exp", shifted(b, x)))) + peak(b, x)


def logsumexp_dropped_axis(b: Any, x: Any) -> Any:
    m = peak(b, x, keepdims=False)
    return m + b("log", total(b, b("exp", x - spread(b, m, x)), keepdims=False))


def logsumexp_mixed(b: Any, x: Any) -> Any:
    m = peak(b, x)
    sums = b("log", total(b, b("exp", x - spread(b, m, x)), keepdims=False))
    return sums + b("reshape", m, shape=sums.type.shape)


def logsumexp_plain(b: Any, x: Any) -> Any:
    return b("log", total(b, b("exp", x)))


SPELLINGS: list[Spelling] = [
    ("softmax", "shifted by the maximum", softmax_shifted),
    ("softmax", "shifted by the maximum", softmax_dropped_axes),
    ("softmax", "shifted by the maximum", softmax_by_reciprocal),
    ("softmax", "shifted by the maximum", softmax_by_quotient),
    ("softmax", "shifted by the maximum", softmax_guarded),
    ("softmax", "shifted by the maximum", softmax_first_axis),
    ("softmax", "not shifted", softmax_plain),
    ("softmax", "exp of log-softmax", softmax_from_log),
    ("log_softmax", "shifted by the maximum", log_softmax_shifted),
    ("log_softmax", "less logsumexp", log_softmax_less_logsumexp),
    ("log_softmax", "log of softmax", log_softmax_of_softmax),
    ("log_softmax", "not shifted", log_softmax_plain),
    ("logsumexp", "shifted by the maximum", logsumexp_shifted),
    ("logsumexp", "shifted by the maximum", logsumexp_dropped_axis),
    ("logsumexp", "shifted by the maximum", logsumexp_mixed),
    ("logsumexp", "not shifted", logsumexp_plain),
]
TYPES = (("f64[4, 4]", 1e-10), ("f64[3, 5]", 1e-10), ("f32[5, 3]", 1e-5))


@pytest.mark.parametrize(("type", "tolerance"), TYPES)
@pytest.mark.parametrize(("op", "form", "build"), SPELLINGS, ids=lambda v: getattr(v, "__name__", None))
def test_a_spelling_becomes_one_operation(op: str, form: str, build: Build, type: str, tolerance: float) -> None:
    found = outcome(build, type)
    assert found.composites == (op,)
    assert found.forms == (form,)
    assert found.fell_back == ()
    assert found.text.count('"sx.exp"') == found.text.count('"sx.amax"') == 0
    found.require_equal(tolerance)


def sum_lands_on_another_axis(b: Any, x: Any) -> Any:
    e = b("exp", x)
    return e / b("broadcast", total(b, e, 1, keepdims=False), shape=x.type.shape)


def sum_of_something_else(b: Any, x: Any) -> Any:
    return b("exp", x) / spread(b, total(b, b("exp", x * 2.0)), x)


def sum_over_all(b: Any, x: Any) -> Any:
    e = b("exp", x)
    return e / b("broadcast", b("sum", e, axes=(0, 1), keepdims=True), shape=x.type.shape)


def shift_of_another(b: Any, x: Any) -> Any:
    return b("log", total(b, b("exp", shifted(b, x)))) + peak(b, x * 2.0)


@pytest.mark.parametrize("build", [sum_lands_on_another_axis, sum_of_something_else, sum_over_all])
def test_what_only_looks_like_it_stays(build: Build) -> None:
    found = outcome(build, "f64[4, 4]")
    assert found.composites == ()
    found.require_equal(1e-12)


def shift_not_the_maximum(b: Any, x: Any) -> Any:
    e = b("exp", x - spread(b, total(b, x) / 4.0, x))
    return e / spread(b, total(b, e), x)


def shift_of_another_axis(b: Any, x: Any) -> Any:
    z = x - spread(b, b("reshape", peak(b, x, 0), shape=(4, 1)), x)
    e = b("exp", z)
    return e / spread(b, total(b, e), x)


def powers_read_elsewhere(b: Any, x: Any) -> Any:
    e = b("exp", shifted(b, x))
    return e / spread(b, total(b, e), x) + e


def sum_read_elsewhere(b: Any, x: Any) -> Any:
    e = b("exp", shifted(b, x))
    sums = total(b, e)
    return e / spread(b, sums, x) * spread(b, sums + 1.0, x)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (shift_not_the_maximum, "softmax: the shift is not the maximum of the line"),
        (shift_of_another_axis, "softmax: the shift is not the maximum of the line"),
        (powers_read_elsewhere, "softmax: another operation reads the exp inside"),
        (sum_read_elsewhere, "softmax: another operation reads the sum inside"),
    ],
)
def test_a_region_that_is_left_says_why(build: Build, reason: str) -> None:
    found = outcome(build, "f64[4, 4]")
    assert found.composites == ()
    assert found.fell_back == (reason,)
    found.require_equal(1e-12)


def test_a_logsumexp_without_its_shift_back_is_that_of_the_shifted() -> None:
    found = outcome(lambda b, x: b("log", total(b, b("exp", shifted(b, x)))), "f64[4, 4]")
    assert found.composites == ("logsumexp",)
    assert '"sx.amax"' in found.text
    found.require_equal(1e-10)


def test_a_shift_put_back_of_another_is_no_logsumexp_of_it() -> None:
    found = outcome(shift_of_another, "f64[4, 4]")
    assert found.text.count('"sx.amax"') == 2
    found.require_equal(1e-10)


def test_a_shift_along_another_axis_is_part_of_what_the_softmax_is_of() -> None:
    def build(b: Any, x: Any) -> Any:
        e = b("exp", shifted(b, x))
        return e / spread(b, total(b, e, 0), x, 0)

    found = outcome(build, "f64[4, 4]")
    assert found.composites == ("softmax",)
    assert '"sx.amax"' in found.text
    found.require_equal(1e-10)
