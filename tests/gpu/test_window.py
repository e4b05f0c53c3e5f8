"""Pools and convolutions on the simulator against the interpreter: strides, padding, dilation, groups, NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.opdef import Sample, Window, numpy_dtype, sample
from sexpgpu.dialects.ops import OPS
from tests.building import function
from tests.gpu.kernels import ALONE, Device

WINDOWS = [op.name for op in OPS.values() if isinstance(op.kind, Window)]
LARGE: dict[str, Any] = {"kernel": (5, 4), "stride": (2, 3), "low": (2, 1), "high": (1, 2)}


def check(name: str, given: Sample, kinds: int = 0) -> None:
    """Of `kinds` integers and a NaN, or of any numbers where it is 0."""
    rng = np.random.default_rng(2)
    arrays = []
    for type in given.types:
        array = np.asarray(rng.uniform(-2, 2, type.shape), numpy_dtype(type.dtype))
        if kinds and array.size:
            array = np.asarray(rng.integers(0, kinds, type.shape), array.dtype)
            array.reshape(-1)[-1] = np.nan
        arrays.append(round_bf16(array) if type.dtype == "bf16" else array)
    with open_context() as context:
        module = function(context, list(given.types), lambda b, v: [b(name, *v, **given.attrs)])
        (found,) = Device.of(context, module, ALONE)(arrays)
    wanted: Any = OPS[name].numpy(*arrays, **given.attrs)
    narrow = OPS[name].infer(*given.types, **given.attrs).dtype
    tolerance = {"f64": 1e-12, "bf16": 1e-2}.get(narrow, 1e-5)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", WINDOWS)
def test_samples(name: str) -> None:
    for given in OPS[name].samples:
        check(name, given)


def test_pools_of_equals_and_nan() -> None:
    for name in ("pool_max", "pool_argmax"):
        check(name, sample("f32[1, 2, 9, 11]", **LARGE), kinds=3)
    made = OPS["pool_max"].infer(sample("f32[1, 2, 9, 11]").types[0], **LARGE)
    check("pool_max_grad", sample(str(made), "f32[1, 2, 9, 11]", **LARGE), kinds=3)
