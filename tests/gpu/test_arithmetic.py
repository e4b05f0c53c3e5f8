"""The loop's arithmetic on the simulated device against NumPy's: sums, scales, norms, what is not finite."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.context import open_context
from sexpgpu.driver.arithmetic import MANY, Arithmetic, Wanted, arithmetic_module
from sexpgpu.driver.kernels import kernels_of
from sexpgpu.driver.pipeline import EVERY
from sexpgpu.gpu.arrays import DeviceArrays, Function, sums_type
from sexpgpu.gpu.memory import DeviceArray
from sexpgpu.gpu.program import DeviceProgram
from sexpgpu.plan.records import Launches
from sexpgpu.runtime.arrays import HostArrays
from sexpgpu.runtime.norm import clip_factor
from sexpgpu.tensortype import DType, TensorType
from tests.gpu.devices import Simulated, type_of

ELEMENTS: tuple[Function, ...] = ("times",)
SHAPES = ((), (1,), (3, 5), (8192,), (3, 3000), (2, 8192), (20011,))
DTYPES: tuple[DType, ...] = ("f32", "f64")


def flat(*shapes: tuple[int, ...], dtype: DType = "f32") -> tuple[TensorType, ...]:
    return tuple([type_of((math.prod(shape),), dtype) for shape in shapes])


@pytest.fixture(scope="module")
def arrays() -> DeviceArrays:
    """Arithmetic for every shape and dtype, on a device that checks everything."""
    sizes = {math.prod(shape) for shape in SHAPES}
    wanted = [Wanted(f, (type_of((n,), d),)) for f in ELEMENTS for n in sizes for d in DTYPES]
    wanted += [Wanted(f, (type_of((n,), d),)) for f in sorted(MANY) for n in sizes for d in DTYPES]
    wanted += [Wanted("norm", (sums_type(count),)) for count in range(1, len(SHAPES) + 1)]
    wanted.append(Wanted("factors", (type_of((), "f64"),)))
    with open_context() as context:
        plans = kernels_of(arithmetic_module(context, wanted), context, "cuda", EVERY)
    device = Simulated()
    functions = device.functions(plans)
    bind = Arithmetic(wanted, plans, lambda plan: DeviceProgram(plan, functions, device.arena))
    return DeviceArrays(device.pool, bind)


def numbers(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(np.float64 if dtype == "f64" else "f4")


def placed(arrays: DeviceArrays, array: np.ndarray) -> DeviceArray:
    return arrays.place({"x": array}, {})["x"]


def norm_of(arrays: DeviceArrays, tensors: Iterable[DeviceArray]) -> float:
    return float(arrays.global_norm(tensors))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_elements_are_what_numpy_makes_of_them(shape: tuple[int, ...], dtype: DType, arrays: DeviceArrays) -> None:
    x = numbers(shape, dtype)
    a = placed(arrays, x)
    assert np.array_equal(arrays.host(arrays.times(a, 3.0)), HostArrays().times(x.copy(), 3.0))
    assert np.array_equal(arrays.host(a), x), "an operand was written over"


@pytest.mark.parametrize("dtype", DTYPES)
def test_many_tensors_are_added_and_divided_in_one_call_over_the_first_of_them(
    dtype: DType, arrays: DeviceArrays
) -> None:
    lefts, rights = ([numbers(shape, dtype, seed + k) for k, shape in enumerate(SHAPES)] for seed in (0, 9))
    a, b = ([placed(arrays, array) for array in each] for each in (lefts, rights))
    host = HostArrays()
    sums = arrays.plus(a, b)
    (step,) = arrays.kernels("plus", flat(*SHAPES, dtype=dtype)).plan.steps
    assert isinstance(step.how, Launches)
    assert len(step.how.kernels) == 1
    wanted = host.plus([array.copy() for array in lefts], rights)
    assert [x.address for x in sums] == [x.address for x in a]
    for found, right, want, array in zip(sums, b, wanted, rights, strict=True):
        assert np.array_equal(arrays.host(found), want)
        assert np.array_equal(arrays.host(right), array), "a right operand was written over"
    for found, want in zip(arrays.over(sums, 7.0), host.over(wanted, 7.0), strict=True):
        assert np.array_equal(arrays.host(found), want)
    assert arrays.plus([], []) == arrays.over([], 2.0) == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_norm_is_that_of_the_host(dtype: DType, arrays: DeviceArrays) -> None:
    gradients = [numbers(shape, dtype, seed) for seed, shape in enumerate(SHAPES)]
    on_device = [placed(arrays, gradient) for gradient in gradients]
    found = norm_of(arrays, on_device)
    assert found == pytest.approx(HostArrays().global_norm(gradients), rel=1e-6 if dtype == "f32" else 1e-14)
    assert norm_of(arrays, on_device) == found


def test_the_norm_takes_the_squares_that_came_with_a_gradient(arrays: DeviceArrays) -> None:
    """Once, and does not read that gradient: another may be written there."""
    known, other = placed(arrays, np.full(8192, np.nan, np.float32)), numbers((3, 5), "f32")
    squares = np.square(numbers((20011,), "f64"))
    known.squares = placed(arrays, squares)
    found = norm_of(arrays, [known, placed(arrays, other)])
    assert found == pytest.approx(math.sqrt(squares.sum() + np.square(other.astype(np.float64)).sum()), rel=1e-7)
    assert math.isnan(norm_of(arrays, [known])), "what came with it is there no more"


def test_a_norm_keeps_what_float32_loses(arrays: DeviceArrays) -> None:
    """Each block of 8192 sums to 8192: a million of them would stand still in float32 alone."""
    one = np.full(20011, 1.0, np.float32)
    large = np.full(1, 4096.0 * 4096.0, np.float32)
    found = norm_of(arrays, [placed(arrays, large), placed(arrays, one)])
    assert found == math.sqrt(2.0**48 + 20011)


def test_a_tensor_gives_the_same_bits_with_others_and_alone(arrays: DeviceArrays) -> None:
    """In launches of few kernels, however many tensors there are."""
    tensors = [placed(arrays, numbers((math.prod(shape),), "f32", seed)) for seed, shape in enumerate(SHAPES * 40)]
    program = arrays.kernels("squares", tuple([tensor.type for tensor in tensors]))
    (step,) = program.plan.steps
    assert isinstance(step.how, Launches)
    assert len(step.how.kernels) < 12
    for tensor, found in zip(tensors[:14], program(tensors), strict=False):
        (alone,) = arrays.kernels("squares", (tensor.type,))([tensor])
        assert found.numpy().tobytes() == alone.numpy().tobytes()


def test_clipping_scales_down_alone(arrays: DeviceArrays) -> None:
    given = {"a": numbers((3, 5), "f32"), "b": numbers((20011,), "f32", 1)}
    norm = HostArrays().global_norm(given.values())
    for limit in (norm * 2, norm / 3):
        wanted = {path: array.copy() for path, array in given.items()}
        HostArrays().clip(wanted, norm, limit)
        found = arrays.place(given, {})
        arrays.clip(found, placed(arrays, np.array(norm)), float(limit))
        for path, array in wanted.items():
            assert np.array_equal(arrays.host(found[path]), array)


@pytest.mark.parametrize("norm", [0.0, 1e-9, 0.3, 2.7182818, 1e30, math.inf])
@pytest.mark.parametrize("limit", [1e-6, 1.0, 123.456])
def test_factors_of_clipping_are_those_of_numpy(norm: float, limit: float, arrays: DeviceArrays) -> None:
    found = [factor.numpy() for factor in arrays.factors(placed(arrays, np.array(norm)), limit)]
    wanted = [min(1.0, clip_factor(np.dtype(dtype), norm, limit)) for dtype in ("f8", "f4")]
    assert [factor.item() for factor in found] == [*wanted, round_bf16(np.array(wanted[1], "f4")).item()]


def test_tensors_without_elements_are_passed_over(arrays: DeviceArrays) -> None:
    """There are no kernels for them: they stay what they are, and add nothing to a norm."""
    empty, x = np.zeros((0, 4), np.float32), numbers((3, 5), "f32")
    found = arrays.plus([placed(arrays, a) for a in (empty, x, empty)], [placed(arrays, a) for a in (empty, x, empty)])
    found = arrays.over(found, 4.0)
    assert [a.type.shape for a in found] == [(0, 4), (3, 5), (0, 4)]
    assert np.array_equal(arrays.host(found[1]), (x + x) / np.float32(4))
    assert norm_of(arrays, found) == norm_of(arrays, [found[1]]) > 0
    assert norm_of(arrays, [found[0]]) == 0
    assert arrays.first_not_finite({"empty": found[0], "x": found[1]}) is None
    spoilt = placed(arrays, np.full((3, 5), np.nan, np.float32))
    assert arrays.first_not_finite({"empty": found[0], "spoilt": spoilt}) == "spoilt"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 8191, 8192, 20010])
def test_the_first_that_is_not_finite_is_named(place: int, bad: float, arrays: DeviceArrays) -> None:
    spoilt = numbers((20011,), "f32")
    spoilt[place] = bad
    tensors = arrays.place(
        {"whole": numbers((3, 5), "f32"), "spoilt": spoilt, "worse": np.array([bad], np.float32)}, {}
    )
    assert arrays.first_not_finite(tensors) == "spoilt"
    assert arrays.first_not_finite({"whole": tensors["whole"]}) is None
    counted = arrays.place({"count": np.array(3, np.int32)}, {})
    assert arrays.first_not_finite(counted) is None


def test_a_row_is_replaced_in_a_copy(arrays: DeviceArrays) -> None:
    committed = placed(arrays, numbers((4, 300), "f32"))
    value = placed(arrays, numbers((300,), "f32", 1))
    before = arrays.host(committed)
    first = arrays.with_row(committed, committed, 2, value)
    second = arrays.with_row(first, committed, 0, value)
    assert second is first
    wanted = before.copy()
    wanted[[0, 2]] = numbers((300,), "f32", 1)
    assert np.array_equal(arrays.host(second), wanted)
    assert np.array_equal(arrays.host(committed), before)


def test_types_of_what_is_placed(arrays: DeviceArrays) -> None:
    given: dict[str, np.ndarray] = {
        "half": np.array([1.5, -2.0], np.float32),
        "i": np.arange(3),
        "b": np.array([True, False]),
    }
    found = arrays.place(given, {"half": "bf16"})
    assert {name: array.type.dtype for name, array in found.items()} == {"half": "bf16", "i": "i64", "b": "bool"}
    assert all(np.array_equal(arrays.host(found[name]), array) for name, array in given.items())
