"""SEXPGPU_CHECK finds a plan that is wrong, and has nothing to say of one that is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from sexpgpu.diag import SxError
from sexpgpu.dialects.context import open_context
from sexpgpu.driver.planning import load
from sexpgpu.interp import Program
from sexpgpu.interp.check import Checked
from sexpgpu.interp.reference import Reference
from sexpgpu.plan.records import At, GraphPlan
from sexpgpu.tensortype import TensorType
from tests.building import function

KIND = TensorType((8, 16), "f32")
X = np.linspace(-2, 2, 128, dtype=np.float32).reshape(8, 16)


@pytest.fixture
def func() -> Iterator[Any]:
    """(exp x) + (sin x) transposed and back, and a running sum of it."""
    with open_context() as context:
        module = function(
            context,
            [KIND],
            lambda b, v: [
                b("cumsum", b("add", b("exp", v[0]), b("sin", v[0])), axis=1),
                b("sum", b("exp", v[0]), axes=(0,), keepdims=False),
            ],
        )
        yield module.body.operations[0]


def placed(plan: GraphPlan, offsets: dict[int, int]) -> GraphPlan:
    """The plan with other offsets for some of its slots, by their place among those in the arena."""
    numbers = [n for n, slot in enumerate(plan.slots) if isinstance(slot.home, At)]
    slots = list(plan.slots)
    for place, offset in offsets.items():
        slots[numbers[place]] = evolve(slots[numbers[place]], home=At(offset))
    return evolve(plan, slots=tuple(slots))


def test_a_right_plan_passes_and_equals_the_reference(func: Any) -> None:
    program = load(func)
    checked, plain = Checked(program, func)([X]), Reference(func, program)([X])
    for left, right in zip(checked, plain, strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_value_that_is_overwritten_is_found(func: Any) -> None:
    plan = load(func).plan
    homes = [slot.home for slot in plan.slots if isinstance(slot.home, At)]
    assert len(set(homes)) > 1, "the test needs two values that live at one time"
    wrong = placed(plan, dict.fromkeys(range(len(homes)), 0))
    with pytest.raises(SxError) as found:
        Checked(Program(wrong), func)([X])
    assert found.value.diagnostic.code == "E-PLAN-001"
    assert "overwritten" in found.value.diagnostic.message


def test_a_step_that_computes_something_else_is_found(func: Any) -> None:
    plan = load(func).plan
    steps = [evolve(step, op="cos") if step.op == "sin" else step for step in plan.steps]
    with pytest.raises(SxError) as found:
        Checked(Program(evolve(plan, steps=tuple(steps))), func)([X])
    diagnostic = found.value.diagnostic
    assert diagnostic.code == "E-PLAN-001"
    assert "element [0, 0]" in diagnostic.message
    assert diagnostic.expected is not None
    assert diagnostic.expected.startswith("-0.909")
