"""SEXPGPU_CHECK: the reference beside the plan, step by step.

Two things are held for every step: that each operand is bit for bit what the step that made it left there, so nothing
has overwritten it, and that the results are what the reference makes of these operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sexpgpu.diag import SxError, error
from sexpgpu.dialects.opdef import Array
from sexpgpu.interp.program import Action, Program
from sexpgpu.interp.reference import results_of
from sexpgpu.plan.records import Slot

TOLERANCE = {"f32": 1e-5, "f64": 1e-10, "bf16": 2.0**-6}
"""Of the largest magnitude among the results: what another order of sums may change."""

Meaning = Callable[[list[Array]], Sequence[Array]]


class Checked:
    """A program that raises E-PLAN-001 at the first step that differs from the reference on `func`."""

    def __init__(self, program: Program, func: Any) -> None:
        self.program = program
        self.spec = program.spec
        self._meanings = _meanings(func)

    def __call__(self, inputs: Sequence[Array], into: Sequence[Array | None] = ()) -> list[Array]:
        made: dict[int, Array] = {number: array.copy() for number, array in enumerate(inputs)}

        def watch(action: Action, slots: list[Any]) -> None:
            before = [np.array(slots[number]) for number in action.step.ins]
            for number, array in zip(action.step.ins, before, strict=True):
                if number in made and not _same(made[number], array):
                    raise self._overwritten(action, number)
            action.run(slots)
            wanted = self._meanings[action.step.outs](before)
            for number, value in zip(action.step.outs, wanted, strict=True):
                self._compare(action, number, slots[number], value)
                made[number] = np.array(slots[number])

        return self.program(inputs, into, watch)

    def origin_not_finite(self, inputs: Sequence[Array]) -> Any:
        return self.program.origin_not_finite(inputs)

    def _compare(self, action: Action, number: int, value: Array, wanted: Array) -> None:
        slot = self.program.plan.slots[number]
        place = first_difference(slot, value, wanted)
        if place is not None:
            raise error(
                "E-PLAN-001",
                f"{action.step.op} in graph `{self.spec.name}` differs from its reference at element {list(place)}",
                action.step.span,
                expected=f"{wanted[place]}",
                actual=f"{value[place]}, of {slot.type}",
                help="this is a fault of the compiler; SEXPGPU_CPU=reference runs without it",
            )

    def _overwritten(self, action: Action, number: int) -> SxError:
        slot = self.program.plan.slots[number]
        return error(
            "E-PLAN-001",
            f"an operand of {action.step.op} in graph `{self.spec.name}` was overwritten before it was read",
            action.step.span,
            actual=f"slot {number}, {slot.type} at {slot.home}",
            help="this is a fault of the compiler; SEXPGPU_CPU=reference runs without it",
        )


def first_difference(slot: Slot, value: Array, wanted: Array) -> tuple[int, ...] | None:
    """The first element that differs by more than another order of sums explains; None when there is none."""
    tolerance = TOLERANCE.get(slot.type.dtype, 0.0)
    if value.size == 0:
        return None
    if tolerance == 0 or not np.isfinite(wanted).any():
        differs = ~((value == wanted) | (value != value) & (wanted != wanted))
    else:
        scale = float(np.max(np.abs(wanted), where=np.isfinite(wanted), initial=0.0))
        differs = ~np.isclose(value, wanted, rtol=0, atol=tolerance * max(scale, 1e-30), equal_nan=True)
    return tuple(int(i) for i in np.argwhere(differs)[0]) if differs.any() else None


def _same(left: Array, right: Array) -> bool:
    return bool(left.tobytes() == right.tobytes())


def _meanings(func: Any) -> dict[tuple[int, ...], Meaning]:
    """What the reference makes of the operands of each operation, by the numbers of its results."""
    block = func.regions[0].blocks[0]
    count = len(block.arguments)
    meanings: dict[tuple[int, ...], Meaning] = {}
    for op in list(block.operations)[:-1]:
        outs = tuple(range(count, count + len(op.operation.results)))
        count += len(outs)
        meanings[outs] = _meaning(op.operation)
    return meanings


def _meaning(op: Any) -> Meaning:
    return lambda operands: results_of(op, operands)
