"""Random programs, fused for the device and run on the simulator: groups of every family beside each other."""

from __future__ import annotations

import gc

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import open_context
from sexpgpu.interp.reference import evaluate
from sexpgpu.passes.base import graphs
from sexpgpu.passes.simplify import Simplify
from sexpgpu.sim import Checks
from sexpgpu.tensortype import TensorType
from tests.building import function
from tests.gpu.kernels import Device
from tests.passes.grouping import STEPS, build_program

SHAPES = ((4, 3, 5), (7, 6), (1, 4, 3), (12,), (2, 3, 2, 4), (3, 64), (2, 300))


def written(b: Builder, values: list[Val], steps: list[tuple[str, int, int]]) -> list[Val]:
    """A program whose results are no views of others, which the host would have to read by strides."""
    return [b("neg", value) for value in build_program(b, values, steps)]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.sampled_from(SHAPES), st.integers(0, 9))
def test_programs_give_what_the_interpreter_gives(
    steps: list[tuple[str, int, int]], shape: tuple[int, ...], seed: int
) -> None:
    kinds = [TensorType(shape, "f64"), TensorType(shape, "f64"), TensorType(shape[-1:], "f64")]
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=kind.shape) for kind in kinds]
    with open_context() as context:
        module = function(context, kinds, lambda b, v: written(b, v, steps))
        Simplify().run(module, context)
        with np.errstate(all="ignore"):
            wanted = [np.array(x) for x in evaluate(graphs(module)[0], arrays)]
        found = Device.of(context, module, checks=Checks(uninitialised=True))(arrays)
    gc.collect()  # each device reserves addresses
    for got, want in zip(found, wanted, strict=True):
        scale = max(1.0, np.abs(want[np.isfinite(want)]).max(initial=0))
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * scale)
