"""Values that the table-driven tests cannot know: ties, rounding, edges, order of folding, random bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.opdef import Dense, parse_type
from sexpgpu.dialects.ops import OPS
from sexpgpu.philox import philox4x32
from sexpgpu.tensortype import TensorType

Array = NDArray[Any]
INF, NAN = np.inf, np.nan


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize(
    ("op", "x", "attrs", "wanted"),
    [
        ("round", [0.5, 1.5, 2.5, -0.5, -1.5], {}, [0, 2, 2, -0.0, -2]),
        ("sign", [-3.0, 0.0, 2.0, NAN], {}, [-1, 0, 1, NAN]),
        ("relu", [-1.0, 0.0, 2.0, NAN], {}, [0, 0, 2, NAN]),
        ("sigmoid", [-1000.0, 0.0, 1000.0], {}, [0, 0.5, 1]),
        ("softplus", [-1000.0, 0.0, 1000.0], {}, [0, np.log(2), 1000]),
        ("isfinite", [1.0, INF, -INF, NAN], {}, [True, False, False, False]),
        ("cast", [1.9, -1.9, 0.0], {"dtype": "i32"}, [1, -1, 0]),
        ("cast", [0.5, -0.0, NAN], {"dtype": "bool"}, [True, False, True]),
        ("argmax", [1.0, 3.0, 3.0], {"axis": 0, "keepdims": False}, 1),
        ("argmin", [2.0, 1.0, 1.0], {"axis": 0, "keepdims": False}, 1),
        ("amax", [1.0, NAN, 3.0], {"axes": (0,), "keepdims": False}, NAN),
        ("softmax", [1000.0, 1000.0, -INF], {"axis": 0}, [0.5, 0.5, 0]),
        ("log_softmax", [1000.0, 1000.0, -INF], {"axis": 0}, [-np.log(2), -np.log(2), -INF]),
        ("logsumexp", [-INF, -INF], {"axis": 0, "keepdims": False}, -INF),
        ("logsumexp", [INF, 0.0], {"axis": 0, "keepdims": False}, INF),
        ("logsumexp", [-1000.0, -1000.0], {"axis": 0, "keepdims": True}, [-1000 + np.log(2)]),
    ],
)
def test_unary_edges(op: str, x: list[float], attrs: dict[str, Any], wanted: Any) -> None:
    np.testing.assert_allclose(OPS[op].numpy(np.array(x), **attrs), wanted, rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_])
def test_where_selects_bits_and_all(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.integers(0, 256, (100, 100 * np.dtype(dtype).itemsize), np.uint8).view(dtype) for _ in range(2))
    condition = rng.random((100, 100)) < 0.5
    for mask in (condition, condition.T, np.broadcast_to(condition[:, :1], (100, 100))):
        given = OPS["where"].numpy(mask, x, y)
        assert given.tobytes() == np.where(mask, x, y).tobytes()
        splat = np.broadcast_to(y[0, 0], (100, 100))
        assert OPS["where"].numpy(mask, x, splat).tobytes() == np.where(mask, x, splat).tobytes()


def test_mod_takes_the_sign_of_the_divisor() -> None:
    for dtype in (np.float64, np.int32):
        given = OPS["mod"].numpy(np.array([7, -7, 7, -7], dtype), np.array([3, 3, -3, -3], dtype))
        np.testing.assert_array_equal(given, [1, 2, -2, -1])


def test_small_integers_keep_their_dtype_and_wrap() -> None:
    x = np.array([200, 100], np.uint8)
    assert OPS["sum"].numpy(x, axes=(0,), keepdims=False) == 44
    assert OPS["add"].numpy(x, x).tolist() == [144, 200]
    assert OPS["neg"].numpy(x).tolist() == [56, 156]


Graph = Callable[..., Any]


def cotangents(graph: Graph, op: str, operands: list[Array], **attrs: Any) -> list[Array]:
    """Cotangents of the operands for a cotangent of ones."""
    types = [TensorType(a.shape, "f64") for a in operands]
    result = OPS[op].infer(*types, **attrs)

    def build(b: Builder, *xs: Val) -> list[Val | None]:
        vjp = OPS[op].vjp
        assert vjp is not None
        return list(vjp(b, b.constant(1, result), b(op, *xs, **attrs), *xs, **attrs))

    found: list[Array] = graph(types, build).evaluate(operands)
    return found


def test_ties_share_the_cotangent(graph: Graph) -> None:
    x, y = np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0])
    for op, to_x in (("maximum", [0, 0.5, 1]), ("minimum", [1, 0.5, 0])):
        given = cotangents(graph, op, [x, y])
        np.testing.assert_array_equal(given[0], to_x)
        np.testing.assert_array_equal(given[1], 1 - np.array(to_x))
    (given_x,) = cotangents(graph, "amax", [np.array([[1.0, 3.0, 3.0]])], axes=(1,), keepdims=False)
    np.testing.assert_array_equal(given_x, [[0, 0.5, 0.5]])


def test_derivatives_at_kinks(graph: Graph) -> None:
    zero = [np.zeros(1)]
    assert cotangents(graph, "relu", zero)[0] == 0
    assert cotangents(graph, "abs", zero)[0] == 0


def test_the_derivative_of_a_product_holds_at_zeros(graph: Graph) -> None:
    x = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0], [2.0, 3.0, 4.0]])
    (given,) = cotangents(graph, "prod", [x], axes=(1,), keepdims=False)
    np.testing.assert_array_equal(given, [[0, 6, 0], [0, 0, 0], [12, 8, 6]])


def test_the_derivative_of_a_power_at_zero(graph: Graph) -> None:
    given = cotangents(graph, "pow", [np.array([0.0, 0.0, -2.0]), np.array([2.0, 1.0, 3.0])])
    np.testing.assert_array_equal(given[0], [0, 1, 12])
    np.testing.assert_array_equal(given[1], [0, 0, 0])


def test_repeated_indices_fold_in_input_order() -> None:
    """Updates of very different size: each place gets the sum that a plain loop gives, bit for bit."""
    rng = np.random.default_rng(3)
    indices = rng.integers(0, 5, 200).astype(np.int32)
    updates = rng.standard_normal((200, 3)) * 10.0 ** rng.integers(-8, 17, (200, 1))
    start = rng.standard_normal((5, 3))
    wanted, along = start.copy(), start.copy()
    for k, i in enumerate(indices):
        wanted[i] = wanted[i] + updates[k]
    np.testing.assert_array_equal(OPS["scatter_add"].numpy(start, indices, updates, axis=0), wanted)
    lines = np.broadcast_to(indices[:, None], (200, 3))
    np.testing.assert_array_equal(OPS["add_along_axis"].numpy(start, lines, updates, axis=0), wanted)
    np.testing.assert_array_equal(start, along)


def test_out_of_a_scatter_may_be_its_updates() -> None:
    x, updates = np.ones(3), np.array([1.0, 2.0, 4.0])
    indices = np.array([2, 2, 0], np.int32)
    given = OPS["scatter_add"].numpy(x, indices, updates, axis=0, out=updates)
    assert given is updates
    np.testing.assert_array_equal(given, [5, 1, 4])


def test_uniforms_are_the_upper_bits_of_philox() -> None:
    key = 0x0123456789ABCDEF
    counter = np.array([2, 5, 7], np.int32)
    elements = np.arange(12, 18)
    words = philox4x32(0x89ABCDEF, 0x01234567, np.array([[e, 0, 5, 7] for e in elements], np.uint32)).astype(np.uint64)
    bits = OPS["random_bits"].numpy(counter, key=key, shape=(2, 3))
    np.testing.assert_array_equal(bits.view(np.uint32).reshape(-1), words[:, 0])
    single = OPS["random_uniform"].numpy(counter, key=key, shape=(2, 3), dtype="f32")
    np.testing.assert_array_equal(single.reshape(-1), (words[:, 0] >> 8) / 2.0**24)
    double = OPS["random_uniform"].numpy(counter, key=key, shape=(6,), dtype="f64")
    np.testing.assert_array_equal(double, ((words[:, 0] | words[:, 1] << 32) >> 11) / 2.0**53)


def test_one_microbatch_of_eight_draws_what_eight_of_one_draw() -> None:
    attrs = {"key": 9, "dtype": "f32"}
    whole = OPS["random_uniform"].numpy(np.array([0, 1, 0], np.int32), shape=(8, 5), **attrs)
    parts = [OPS["random_uniform"].numpy(np.array([i, 1, 0], np.int32), shape=(1, 5), **attrs) for i in range(8)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_elements_past_32_bits_use_the_second_word() -> None:
    counter = np.array([2**30, 0, 0], np.int32)
    wanted = philox4x32(1, 0, np.array([[e & 0xFFFFFFFF, e >> 32, 0, 0] for e in range(2**33, 2**33 + 8)], np.uint32))
    given = OPS["random_bits"].numpy(counter, key=1, shape=(8,))
    np.testing.assert_array_equal(given.view(np.uint32), wanted[:, 0])


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_uniforms_stay_below_one(dtype: str) -> None:
    counter = np.array([0, 0, 0], np.int32)
    given = OPS["random_uniform"].numpy(counter, key=3, shape=(100_000,), dtype=dtype)
    assert given.min() >= 0
    assert given.max() < 1
    assert abs(given.mean() - 0.5) < 0.01
    if dtype == "bf16":
        np.testing.assert_array_equal(round_bf16(given), given)


def test_bf16_rounds_to_nearest_even() -> None:
    ulp = 2.0**-7  # of bfloat16 between 1 and 2
    x = np.array(
        [1 + ulp / 2, 1 + 1.5 * ulp, 1 + 0.51 * ulp, -1 - ulp / 2, 3.4e38, INF, -INF, NAN, 0, -0.0],
        np.float32,
    )
    wanted = np.array([1, 1 + 2 * ulp, 1 + ulp, -1, INF, INF, -INF, NAN, 0, -0.0], np.float32)
    given = round_bf16(x)
    np.testing.assert_array_equal(given, wanted)
    np.testing.assert_array_equal(np.signbit(given), np.signbit(wanted))
    payload = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], np.uint32).view(np.float32)
    assert np.isnan(round_bf16(payload)).all()
    assert round_bf16(np.float32(1.0) * np.ones((), np.float32)).shape == ()
    np.testing.assert_array_equal(round_bf16(np.ones((2, 3), np.float32).T), np.ones((3, 2)))


def test_a_splat_takes_one_element_and_cannot_be_written() -> None:
    array = Dense(parse_type("f32[1000, 1000]"), 2.5).array()
    assert array.strides == (0, 0)
    assert not array.flags.writeable


def test_matmul_of_repeated_operands_is_not_slow_or_wrong() -> None:
    x = np.arange(6.0).reshape(2, 3)
    y = np.broadcast_to(np.arange(3.0)[:, None], (3, 4))
    np.testing.assert_array_equal(OPS["matmul"].numpy(x, y), x @ np.ascontiguousarray(y))
    scalar = np.broadcast_to(np.array(2.0), (3, 4))
    np.testing.assert_array_equal(OPS["matmul"].numpy(x, scalar), x @ np.full((3, 4), 2.0))
