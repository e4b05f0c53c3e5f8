"""Random programs, compiled for the device and run on the simulator: groups of every family beside each other."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import open_context
from sexpgpu.driver.pipeline import Passes, run_named, whole
from sexpgpu.interp.reference import evaluate
from sexpgpu.passes.base import graphs
from sexpgpu.passes.gpu.plans import device_plans_of
from sexpgpu.passes.simplify import Simplify
from sexpgpu.sim import Checks
from sexpgpu.tensortype import TensorType
from tests.building import function
from tests.gpu.agreement import agrees
from tests.gpu.corpus import COUNT, Member
from tests.gpu.kernels import Device
from tests.passes.grouping import STEPS, build_program
from tests.passes.test_random_programs import apart, bounds_of, reference

SHAPES = ((4, 3, 5), (7, 6), (1, 4, 3), (12,), (2, 3, 2, 4), (3, 64), (2, 300), (6, 6), (4, 4, 4))
SHORT = 20
"""How many programs of the corpus every run of the tests tries."""


def check(number: int) -> bool:
    """The loss, values and gradients of a program by its kernels, all checks on, in a random order of warps.

    False where a few roundings decide what the program gives.
    """
    member = Member.of(number)
    with open_context() as context:
        module = member.module(context)
        wanted = reference(context, module, member.draft)
        if wanted is None:
            return False
        # Narrow parameters, which a device gives beside the others, are no arguments here.
        run_named(module, context, whole("cuda", "sm_80"), Passes(frozenset({"parameter-results"}), part=None))
        made = device_plans_of(module)
    (plan,) = made.plans.values()
    device = Device.over(plan, [each.text for each in made.modules], Checks.every(race=number))
    found = device(member.draft.inputs)
    bounds = bounds_of(member.draft, wanted)
    for output, got, want, bound in zip(plan.spec.outputs, found, wanted, bounds, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert apart(want, got) <= bound, (
            f"{output.role} {output.name} is {apart(want, got):.2g} off, {bound:.2g} allowed"
        )
    return True


def tried(numbers: range) -> int:
    """How many of the programs were compared; the first that fails is named."""
    compared = 0
    for number in numbers:
        try:
            compared += check(number)
        except Exception as fault:
            raise AssertionError(f"program {number} of the corpus") from fault
        gc.collect()  # each device reserves addresses
    return compared


def test_values_and_gradients_of_some_programs() -> None:
    assert tried(range(SHORT)) > 0.6 * SHORT


@pytest.mark.slow
def test_values_and_gradients_of_the_corpus() -> None:
    assert tried(range(SHORT, COUNT)) > 0.6 * (COUNT - SHORT)


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


def test_a_product_without_elements_is_in_no_group() -> None:
    agrees(["f64[2, 3]", "f64[3, 0]"], lambda b, v: [b("neg", b("matmul", b("neg", v[0]), v[1])), b("neg", v[0])])
