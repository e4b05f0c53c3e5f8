"""Sorts on the simulator: exactly NumPy's stable order, NaN last, in shared memory and in a temporary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.opdef import Array, Order, Sample, numpy_dtype, sample
from sexpgpu.dialects.ops import OPS
from sexpgpu.passes.gpu import order
from tests.building import function
from tests.gpu.kernels import ALONE, Device

ORDERS = [op.name for op in OPS.values() if isinstance(op.kind, Order)]


def check(name: str, given: Sample, array: Array) -> None:
    record = OPS[name]
    with open_context() as context:

        def build(b: Any, v: Any) -> Any:
            return b.several(name, *v, **given.attrs) if record.results > 1 else [b(name, *v, **given.attrs)]

        found = Device.of(context, function(context, list(given.types), build), ALONE)([array])
    wanted: Any = record.numpy(array, **given.attrs)
    for got, want in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_array_equal(got, want)


def drawn(given: Sample, kinds: int) -> Array:
    """Elements among few, so that many are equal; floats with NaN and both zeros."""
    (type,) = given.types
    rng = np.random.default_rng(1)
    array = np.asarray(rng.integers(0, kinds, type.shape), numpy_dtype(type.dtype))
    if array.dtype.kind == "f" and array.size > 3:
        array = array - kinds // 2
        array.reshape(-1)[[0, 2]] = np.nan, -0.0
    return round_bf16(array) if type.dtype == "bf16" else array


@pytest.mark.parametrize("name", ORDERS)
def test_samples(name: str) -> None:
    for given in OPS[name].samples:
        check(name, given, drawn(given, 5))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_longer_line(axis: int) -> None:
    given = sample("f32[300, 3]" if axis == 0 else "f32[3, 300]", axis=axis)
    check("sort", given, drawn(given, 1000))
    check("argsort", given, drawn(given, 20))


def test_in_a_temporary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "SHARED", 0)
    given = sample("f32[2, 130]", axis=1)
    check("argsort", given, drawn(given, 20))
    top = sample("i32[3, 50]", k=7)
    check("top_k", top, drawn(top, 20))
