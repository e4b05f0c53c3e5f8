"""Kernels on the simulator, with all of its checks, against the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.opdef import Array, OpDef, Sample, numpy_dtype, parse_type
from sexpgpu.interp.reference import evaluate
from sexpgpu.passes.base import graphs
from sexpgpu.sim import Checks
from sexpgpu.tensortype import TensorType
from tests.building import function
from tests.gpu.kernels import FUSED, Device

TOLERANCE = {"f64": 1e-12, "f32": 1e-5, "bf16": 2**-7}
"""Relative, of the largest number beside it; integers and bools are equal."""

Build = Callable[[Builder, Sequence[Val]], Sequence[Val]]


def drawn(types: Sequence[TensorType], domain: tuple[float, float] = (-2.0, 2.0), below: int = 2) -> list[Array]:
    """Arrays of the types: floats from `domain`, integers from range(`below`)."""
    rng = np.random.default_rng(20)
    arrays = []
    for type in types:
        if type.is_float:
            array = np.asarray(rng.uniform(*domain, type.shape), numpy_dtype(type.dtype))
            arrays.append(round_bf16(array) if type.dtype == "bf16" else array)
        else:
            arrays.append(np.asarray(rng.integers(below, size=type.shape), numpy_dtype(type.dtype)))
    return arrays


def agrees(
    types: Sequence[TensorType | str],
    build: Build,
    arrays: Sequence[Array] | None = None,
    passes: Sequence[str] = FUSED,
    checks: Checks | None = None,
) -> Device:
    """Compile what `build` makes of arguments of these types, compare what it gives, and give the device."""
    kinds = [parse_type(type) if isinstance(type, str) else type for type in types]
    inputs = drawn(kinds, below=5) if arrays is None else list(arrays)
    with open_context() as context:
        module = function(context, kinds, build)
        with np.errstate(all="ignore"):
            wanted = [np.array(value) for value in evaluate(graphs(module)[0], inputs)]
        device = Device.of(context, module, passes, checks or Checks(uninitialised=True, traffic=True))
        found = device(inputs)
    for got, want, slot in zip(found, wanted, device.plan.results, strict=True):
        same(got, want, device.plan.slots[slot].type)
    return device


def sample_agrees(op: OpDef, sample: Sample, passes: Sequence[str]) -> Device:
    """As `agrees`, one operation of a sample."""

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        made: Any = (
            b.several(op.name, *values, **sample.attrs) if op.results > 1 else [b(op.name, *values, **sample.attrs)]
        )
        return list(made)

    return agrees(sample.types, build, drawn(sample.types, sample.domain, sample.below), passes)


def same(got: Array, want: Array, type: TensorType) -> None:
    assert got.shape == want.shape
    if not type.is_float:
        np.testing.assert_array_equal(got, want)
        return
    finite = np.abs(want[np.isfinite(want)])
    scale = float(finite.max(initial=0.0))
    bound = TOLERANCE[type.dtype]
    np.testing.assert_allclose(got, want, rtol=bound, atol=bound * min(scale, 1e30))
