"""The tail of a cross-entropy in its spellings, and tails that are others."""

from __future__ import annotations

from typing import Any

import pytest

from sexpgpu.diag import SxError
from sexpgpu.tensortype import TensorType
from tests.passes.raising import Build, outcome
from tests.passes.test_raise_softmax import peak, shifted, spread, total

ROWS, CLASSES = 4, 5
TYPES = {"f64": ("f64[4, 5]", "i32[4]", "f64[4]"), "f32": ("f32[4, 5]", "i32[4]", "f32[4]")}


def column(b: Any, labels: Any) -> Any:
    return b("reshape", labels, shape=(*labels.type.shape, 1))


def gathered(b: Any, x: Any, labels: Any) -> Any:
    """The elements of the lines of x at the labels, [rows, 1]."""
    return b("take_along_axis", x, column(b, labels), axis=1)


def flat(b: Any, x: Any) -> Any:
    return b("reshape", x, shape=(ROWS,))


def hits(b: Any, x: Any, labels: Any) -> Any:
    places = b("iota", shape=x.type.shape, axis=1, dtype=labels.type.dtype)
    return b("eq", b("broadcast", column(b, labels), shape=x.type.shape), places)


def one_hot(b: Any, x: Any, labels: Any) -> Any:
    return b("cast", hits(b, x, labels), dtype=x.type.dtype)


def log_p(b: Any, x: Any) -> Any:
    return b("log_softmax", x, axis=1)


def lse(b: Any, x: Any, *, keepdims: bool = False) -> Any:
    return b("logsumexp", x, axis=1, keepdims=keepdims)


def mean(b: Any, rows: Any) -> Any:
    return b("sum", rows, axes=tuple(range(rows.type.rank)), keepdims=False) / float(ROWS)


def library(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return mean(b, -flat(b, gathered(b, log_p(b, x), labels)))


def negated_late(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return -mean(b, flat(b, gathered(b, log_p(b, x), labels)))


def times_minus_one(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return mean(b, gathered(b, log_p(b, x), labels) * -1.0)


def summed(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return b("sum", -gathered(b, log_p(b, x), labels), axes=(0, 1), keepdims=False)


def masked(b: Any, x: Any, labels: Any, w: Any) -> Any:
    kept = b("ne", labels, b.constant(2, labels.type))
    row = -flat(b, gathered(b, log_p(b, x), labels))
    weight = b("cast", kept, dtype=x.type.dtype)
    return mean(b, b("where", kept, row, b.constant(0, row.type))) / b("sum", weight, axes=(0,), keepdims=False)


def weighed(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return -mean(b, w * flat(b, gathered(b, log_p(b, x), labels)))


def spelled(b: Any, x: Any, labels: Any, w: Any) -> Any:
    z = shifted(b, x)
    return -mean(b, gathered(b, z - spread(b, b("log", total(b, b("exp", z))), x), labels))


def shifted_logits(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return mean(b, lse(b, x) - flat(b, gathered(b, x, labels)))


def shifted_twice(b: Any, x: Any, labels: Any, w: Any) -> Any:
    z = shifted(b, x)
    return mean(b, b("log", total(b, b("exp", z))) - gathered(b, z, labels))


def log_likelihood(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return -mean(b, gathered(b, x, labels) - lse(b, x, keepdims=True))


def log_of_probability(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return -mean(b, b("log", flat(b, gathered(b, b("softmax", x, axis=1), labels))))


def hot(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return mean(b, -total(b, one_hot(b, x, labels) * log_p(b, x), keepdims=False))


def hot_over_all(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return -b("sum", log_p(b, x) * one_hot(b, x, labels), axes=(0, 1), keepdims=False) / float(ROWS)


def hot_negated_inside(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return mean(b, total(b, -log_p(b, x) * one_hot(b, x, labels), keepdims=False))


def chosen(b: Any, x: Any, labels: Any, w: Any) -> Any:
    picked = b("where", hits(b, x, labels), log_p(b, x), b.constant(0, x.type))
    return mean(b, -total(b, picked, keepdims=False))


def hot_logits(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return mean(b, lse(b, x) - total(b, one_hot(b, x, labels) * x, keepdims=False))


GATHER, HOT = "gather of log-probabilities", "one-hot sum of log-probabilities"
SPELLINGS: list[tuple[str, Build]] = [
    (f"{GATHER}, negated per row", library),
    (f"{GATHER}, negated after the reduction", negated_late),
    (f"{GATHER}, negated per row", times_minus_one),
    (f"{GATHER}, negated per row", summed),
    (f"{GATHER}, negated per row", masked),
    (f"{GATHER}, negated after the reduction", weighed),
    (f"{GATHER}, negated after the reduction", spelled),
    ("gather of shifted logits, negated per row", shifted_logits),
    ("gather of shifted logits, negated per row", shifted_twice),
    ("gather of shifted logits, negated after the reduction", log_likelihood),
    ("log of gathered probabilities, negated after the reduction", log_of_probability),
    (f"{HOT}, negated per row", hot),
    (f"{HOT}, negated after the reduction", hot_over_all),
    (f"{HOT}, negated per row", hot_negated_inside),
    (f"{HOT}, negated per row", chosen),
    ("one-hot sum of shifted logits, negated per row", hot_logits),
]


@pytest.mark.parametrize(("dtype", "tolerance"), [("f64", 1e-10), ("f32", 1e-5)])
@pytest.mark.parametrize(("form", "build"), SPELLINGS, ids=lambda v: getattr(v, "__name__", None))
def test_a_spelling_becomes_one_operation(form: str, build: Build, dtype: str, tolerance: float) -> None:
    found = outcome(build, *TYPES[dtype], below=CLASSES)
    assert found.composites == ("cross_entropy",)
    assert found.forms[-1] == form
    assert found.fell_back == ()
    found.require_equal(tolerance)


@pytest.mark.parametrize("build", [hot, hot_over_all, chosen, hot_logits])
def test_a_label_that_is_no_class_counts_as_a_one_hot_tensor_says(build: Build) -> None:
    found = outcome(build, *TYPES["f64"], below=2 * CLASSES)
    assert found.composites == ("cross_entropy",)
    found.require_equal(1e-10)


def test_a_gathered_label_that_is_no_class_is_an_error_with_the_pass_too() -> None:
    with pytest.raises(SxError, match="E-VALUE-101: cross_entropy"):
        outcome(library, *TYPES["f64"], below=8 * CLASSES)


def test_a_z_loss_reads_the_saved_logarithm() -> None:
    def build(b: Any, x: Any, labels: Any, w: Any) -> Any:
        row = -flat(b, gathered(b, log_p(b, x), labels))
        return mean(b, row + 0.25 * b("square", lse(b, x)))

    found = outcome(build, *TYPES["f64"], below=CLASSES)
    assert found.composites == ("cross_entropy",)
    found.require_equal(1e-10)


def test_lines_may_lie_in_more_axes() -> None:
    def build(b: Any, x: Any, labels: Any) -> Any:
        picked = b("take_along_axis", b("log_softmax", x, axis=2), column(b, labels), axis=2)
        return -b("sum", picked, axes=(0, 1, 2), keepdims=False)

    found = outcome(build, "f64[2, 3, 5]", "i64[2, 3]", below=5)
    assert found.composites == ("cross_entropy",)
    found.require_equal(1e-10)


def test_bf16_logits_go_in_as_they_are() -> None:
    def build(b: Any, x: Any, v: Any, labels: Any) -> Any:
        logits = b("reshape", b("matmul", x, v), shape=(2, 2, CLASSES))
        picked = b("take_along_axis", b("log_softmax", logits, axis=2), column(b, labels), axis=2)
        return -b("sum", picked, axes=(0, 1, 2), keepdims=False)

    found = outcome(build, "f32[4, 3]", "f32[3, 5]", "i32[2, 2]", below=5, policy="bf16")
    assert found.composites == ("cross_entropy",)
    assert "(tensor<2x2x5xbf16>, tensor<2x2xi32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)" in found.text
    found.require_equal(1e-5)


def another_axis(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return -mean(b, gathered(b, b("log_softmax", x, axis=0), labels))


def several_labels(b: Any, x: Any, labels: Any, w: Any) -> Any:
    pairs = b("broadcast", column(b, labels), shape=(ROWS, 2))
    return -mean(b, b("take_along_axis", log_p(b, x), pairs, axis=1))


def logarithm_of_another(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return mean(b, lse(b, x * 2.0) - flat(b, gathered(b, x, labels)))


def counted_along_rows(b: Any, x: Any, labels: Any, w: Any) -> Any:
    places = b("iota", shape=x.type.shape, axis=0, dtype="i32")
    hit = b("eq", b("broadcast", column(b, labels), shape=x.type.shape), places)
    return mean(b, -total(b, b("cast", hit, dtype=x.type.dtype) * log_p(b, x), keepdims=False))


def soft_labels(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return mean(b, -total(b, spread(b, w, x) * log_p(b, x), keepdims=False))


def greatest(b: Any, x: Any, labels: Any, w: Any) -> Any:
    return mean(b, flat(b, peak(b, x)) - flat(b, gathered(b, x, labels)))


@pytest.mark.parametrize(
    "build", [another_axis, several_labels, logarithm_of_another, counted_along_rows, soft_labels, greatest]
)
def test_another_tail_stays(build: Build) -> None:
    found = outcome(build, *TYPES["f64"], below=ROWS)
    assert "cross_entropy" not in found.composites
    found.require_equal(1e-12)


def test_log_probabilities_that_are_read_elsewhere_stay() -> None:
    def build(b: Any, x: Any, labels: Any, w: Any) -> Any:
        p = log_p(b, x)
        return -mean(b, gathered(b, p, labels)) - 0.1 * mean(b, total(b, p, keepdims=False))

    found = outcome(build, *TYPES["f64"], below=CLASSES)
    assert found.composites == ("log_softmax",)
    assert found.fell_back == ("cross_entropy: another operation reads the log_softmax inside",)


def test_the_type_of_the_labels_may_be_small() -> None:
    kind = TensorType((ROWS,), "u8")
    found = outcome(hot, "f64[4, 5]", str(kind), "f64[4]", below=CLASSES)
    assert found.composites == ("cross_entropy",)
    found.require_equal(1e-10)
