"""Random programs from the table of operations: the plan gives what the reference gives, whatever passes ran."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from attrs import define, field
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sexpgpu.dialects.context import Context, open_context
from sexpgpu.dialects.loops import CALL
from sexpgpu.dialects.opdef import Array
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import op_name
from sexpgpu.driver.pipeline import NEEDED, Passes, run_named, steps_of, whole
from sexpgpu.interp import Program
from sexpgpu.interp.reference import evaluate
from sexpgpu.passes.autodiff import Autodiff
from sexpgpu.passes.base import functions, graphs
from sexpgpu.passes.planned import plan_of
from sexpgpu.plan.records import GraphPlan, Tiles
from sexpgpu.tensortype import DType
from tests.passes.grouping import cut_small
from tests.passes.random_programs import CHECKPOINTED, STEPS, Draft, built, drafted, shaken

PROGRAMS = 200
BOUNDS: dict[DType, float] = {"f64": 1e-10, "f32": 1e-5}
COARSE = 2.0**-6
"""Of gradients on whose way bf16 lies: `accumulate` leaves out a rounding."""
SKIPPABLE = tuple(dict.fromkeys(step.name for step in steps_of(whole()) if step.name not in NEEDED))


@define
class Tally:
    """What the programs of a run had: operations by name, passes that were skipped, fused groups."""

    kinds: Counter[str] = field(factory=Counter)
    skips: Counter[str] = field(factory=Counter)
    groups: int = 0

    def check(self, missing: int) -> None:
        assert len(set(OPS) - set(self.kinds)) <= missing, sorted(set(OPS) - set(self.kinds))
        assert sorted(set(SKIPPABLE) - set(self.skips)) == []
        assert self.kinds[CALL] > 10, "few loops"
        assert self.groups > 500, "few groups"


def holds(
    tally: Tally, steps: list[tuple[str, int]], region: tuple[int, int], skipped: set[str], small: bool, spelled: float
) -> bool:
    """Holds the plans of one program against its reference, with every pass and with each of `skipped` left out.

    False where a few roundings decide what the program gives.
    """
    for dtype in BOUNDS:
        draft = drafted(dtype, steps, spelled)
        with open_context() as context, pytest.MonkeyPatch.context() as patch:
            if small:
                cut_small(patch)
            module = built(context, draft, region)
            wanted = reference(context, module, draft)
            if wanted is None:
                return False
            tally.kinds.update(kinds_of(module))
            for skip in (frozenset[str](), *({name} for name in sorted(skipped))):
                tally.skips.update(skip)
                plan = planned(context, module, frozenset(skip))
                tally.groups += sum(isinstance(step.how, Tiles) for step in plan.steps)
                same(draft, plan, wanted, f"{dtype} without {set(skip) or 'none'}")
    return True


def test_every_operation_in_programs_of_a_few() -> None:
    tally = Tally()
    names = list(OPS)
    rejected = 0
    for start in range(0, 2 * len(names), 5):
        steps = [(names[i % len(names)], 1000 + i) for i in range(start, start + 5)] + [("scan", start)]
        skipped = {SKIPPABLE[start // 5 % len(SKIPPABLE)], "simplify"}
        rejected += not holds(tally, steps, (0, 3), skipped, small=True, spelled=start // len(names))
    assert rejected < 10
    tally.check(missing=0)


@pytest.mark.slow
def test_plans_of_random_programs_give_what_the_reference_gives() -> None:
    tally = Tally()

    @settings(max_examples=PROGRAMS, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(STEPS, CHECKPOINTED, st.sets(st.sampled_from(SKIPPABLE), min_size=2, max_size=2), st.booleans())
    def test(steps: list[tuple[str, int]], region: tuple[int, int], skipped: set[str], small: bool) -> None:
        assume(holds(tally, steps, region, skipped, small, spelled=0.4))

    test()
    tally.check(missing=10)


def kinds_of(module: Any) -> Counter[str]:
    return Counter(
        op_name(op) if op.operation.name.startswith("sx.") else op.operation.name
        for func in functions(module)
        for op in func.regions[0].blocks[0].operations
    )


def reference(context: Context, module: Any, draft: Draft) -> list[Array] | None:
    """What the traced and differentiated module gives, op by op; None where a few roundings decide the outcome."""
    copy = context.clone(module)
    Autodiff().run(copy, context)
    func = graphs(copy)[0]
    with np.errstate(all="ignore"):
        wanted = [np.array(v) for v in evaluate(func, draft.inputs)]
        size = 4 * float(np.finfo(draft.dtype.replace("f", "float")).eps)
        noise = np.random.default_rng(1)
        moved = evaluate(func, [shaken(noise, x, size) for x in draft.inputs])
    bounds = bounds_of(draft, wanted)
    steady = all(apart(a, b) <= bound / 4 for a, b, bound in zip(wanted, moved, bounds, strict=True))
    return wanted if steady else None


def bounds_of(draft: Draft, wanted: list[Array]) -> list[float]:
    """For each result how far it may be off: relative to its largest magnitude, that of all gradients for these.

    Gradients may all be 0 by numbers that cancel: some roundings of the loss's weights, which are about 1, are allowed.
    """
    trained = [argument for argument in draft.arguments if argument.role == "param"]
    bound = BOUNDS[draft.dtype]
    values, gradients = wanted[: -len(trained)], wanted[-len(trained) :]
    largest = max(magnitude(g) for g in gradients)
    coarse = any(value.coarse for value in draft.values)
    cancelled = 16 * float(np.finfo(draft.dtype.replace("f", "float")).eps)
    allowed = max((COARSE if coarse else bound) * largest, cancelled)
    return [*(bound * magnitude(v) for v in values), *[allowed] * len(gradients)]


def magnitude(array: Array) -> float:
    return float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array))) if array.dtype.kind == "f" else 0.0


def apart(left: Array, right: Array) -> float:
    """The largest difference; infinite where one is finite and the other is not, or whole numbers differ."""
    if left.dtype.kind != "f":
        return 0.0 if np.array_equal(left, right) else np.inf
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(all="ignore"):
        differences = np.where(same, 0.0, np.abs(left - right))
    return float(np.max(np.nan_to_num(differences, nan=np.inf, posinf=np.inf), initial=0.0))


def planned(context: Context, module: Any, skip: frozenset[str]) -> GraphPlan:
    copy = context.clone(module)
    run_named(copy, context, whole(), Passes(skip=skip, part=None))
    return plan_of(graphs(copy)[0])


def same(draft: Draft, plan: GraphPlan, wanted: list[Array], how: str) -> None:
    """Holds two calls of the plan against the reference, and the arguments against what they were."""
    inputs = [x.copy() for x in draft.inputs]
    program = Program(plan)
    first = program(inputs)
    second = program(inputs)
    for x, before in zip(inputs, draft.inputs, strict=True):
        np.testing.assert_array_equal(x, before)
    bounds = bounds_of(draft, wanted)
    for output, a, b, right, bound in zip(plan.spec.outputs, first, second, wanted, bounds, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == right.dtype
        assert a.shape == right.shape
        assert apart(right, a) <= bound, f"{how}: {output.role} {output.name} is {apart(right, a):.2g} off"
