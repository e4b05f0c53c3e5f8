"""Which value of a graph was the first that is not finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve

from sexpgpu.diag import Span, SxError
from sexpgpu.dialects.opdef import Array
from sexpgpu.interp.bodies import Tiling
from sexpgpu.plan.records import At, GraphPlan, Into, Own

if TYPE_CHECKING:
    from sexpgpu.interp.program import Program

Origin = tuple[str, Span | None]


def without_memory(plan: GraphPlan) -> GraphPlan:
    """The plan with every value in memory of its own, so that none is overwritten."""
    slots = [evolve(s, home=Own()) if isinstance(s.home, At | Into) else s for s in plan.slots]
    steps = [evolve(s, bodies=tuple(map(without_memory, s.bodies)), workspace=(0, 0)) for s in plan.steps]
    return evolve(plan, slots=tuple(slots), steps=tuple(steps), memory=None)


def find_origin(program: Program, inputs: Sequence[Array]) -> Origin | None:
    """An input, or the result of an operation, in words, and its place; None when all is finite.

    An operation counts that makes NaN of what has none, or infinities of finite numbers; passing on the -inf of a mask
    does not. `program` is bound and has a plan without memory.
    """
    for given, array in zip(program.spec.inputs, inputs, strict=False):
        if badness(array):
            return f"the {given.role} {given.name}", None
    slots = program.fresh_slots(inputs)
    found = [badness(array) for array in slots]
    for action in program.actions:
        try:
            action.run(slots)
        except SxError as fault:
            raise SxError(fault.diagnostic.at(action.step.span)) from None
        for number in action.step.outs:
            found[number] = badness(slots[number])
        if max(found[o] for o in action.step.outs) > max((found[i] for i in action.step.ins), default=0):
            inside = None
            if isinstance(action.bodies, Tiling):
                inside = _inside(action.bodies, [slots[i] for i in action.step.ins])
            return inside or (f"the result of {action.step.op}", action.step.span)
    return None


def _inside(tiling: Tiling, operands: Sequence[Array]) -> Origin | None:
    found = (find_origin(body, inputs) for body, inputs in tiling.tiles_of(operands))
    return next((origin for origin in found if origin is not None), None)


def badness(array: Any) -> int:
    """2 where there is a NaN, 1 where there is an infinity, else 0."""
    if array is None or array.dtype.kind != "f" or np.isfinite(array).all():
        return 0
    return 2 if np.isnan(array).any() else 1
