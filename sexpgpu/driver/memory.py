"""What a run holds at once, against what it may: known before the first step.

Without a limit, by `:memory` or SEXPGPU_MEMORY, nothing is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from attrs import asdict, frozen
from mlir import ir

from sexpgpu import knobs
from sexpgpu.diag import Diagnostic, Span
from sexpgpu.dialects.signature import read_inputs
from sexpgpu.driver.explain_text import size
from sexpgpu.experiment import RunConfig
from sexpgpu.passes.base import graphs
from sexpgpu.passes.recomputing.marks import BUDGET
from sexpgpu.plan.allocation import cpu_bytes
from sexpgpu.plan.records import Plans
from sexpgpu.tensortype import TensorType
from sexpgpu.trace.assemble import TRAIN, Traced

BY_BATCH = frozenset({"batch", "generation", "constants", "arena"})
"""Parts of what a run needs that its batch, its generators or recomputing may make smaller."""


@frozen
class Held:
    """Bytes beside the arena.

    Parameters and states are held twice: a step writes new ones, and one that is refused leaves the old. Gradients are
    those of a microbatch and, where there are several, their sums.
    """

    parameters: int
    states: int
    gradients: int
    buffers: int
    batch: int

    @property
    def total(self) -> int:
        return self.parameters + self.states + self.gradients + self.buffers + self.batch


@frozen
class Limit:
    """Bytes, and what gave them."""

    bytes: int
    source: str


def limit_of(run: RunConfig) -> Limit | None:
    """The environment's limit, else the file's."""
    given = knobs.MEMORY.get()
    if given is not None:
        return Limit(given, "SEXPGPU_MEMORY")
    return Limit(run.memory, ":memory") if run.memory is not None else None


def held_by(traced: Traced) -> Held:
    """What the experiment holds whatever its plan is."""
    trained = [p.type for p in traced.parameters if p.path in {path for g in traced.groups for path in g.params}]
    sums = sum_arrays(traced.run, traced.run.microbatches)
    (func,) = [f for f in graphs(traced.tracer.module) if _name(f) == TRAIN]
    batch = [given.type for given in read_inputs(func) if given.role == "field"]
    return Held(
        2 * _bytes(p.type for p in traced.parameters),
        2 * _bytes(state.type for state in traced.states),
        (1 + sums) * _bytes(trained),
        2 * _bytes(buffer.type for buffer in traced.buffers),
        _bytes(batch),
    )


def sum_arrays(run: RunConfig, calls: int) -> int:
    """Partial sums of gradients that wait at once while so many calls give some: one, or those of a tree."""
    if calls == 1:
        return 0
    return math.ceil(math.log2(calls)) if run.deterministic else 1


def _bytes(types: Iterable[TensorType]) -> int:
    return sum(map(cpu_bytes, types))


def _name(func: Any) -> str | None:
    return ir.StringAttr(func.attributes["sx.graph"]).value if "sx.graph" in func.attributes else None


def write_budget(traced: Traced, module: Any) -> None:
    """Tell the pass `recompute` what is left for the arena of the train graph in `module`."""
    limit = limit_of(traced.run)
    if traced.run.recompute is None or limit is None:
        return
    left = max(limit.bytes - held_by(traced).total, 1)
    for func in graphs(module):
        if _name(func) == TRAIN:
            func.attributes[BUDGET] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context=func.context), left)


@frozen
class Needs:
    """Bytes by what takes them; prints as `1.2 MiB of 2.0 MiB by :memory: parameters 0.4 MiB, ...`."""

    parts: dict[str, int]
    limit: Limit | None

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    @property
    def least(self) -> int:
        """What no smaller batch and no recomputing saves."""
        return sum(count for name, count in self.parts.items() if name not in BY_BATCH)

    def listed(self) -> str:
        return ", ".join(f"{name} {size(count)}" for name, count in self.parts.items() if count)

    def __str__(self) -> str:
        limit = f" of {size(self.limit.bytes)} by {self.limit.source}" if self.limit else ""
        return f"{size(self.total)}{limit}: {self.listed()}"


def needs(traced: Traced, plans: Plans) -> Needs:
    """What a run with these plans holds. The arena is the largest graph's: all graphs share it."""
    arena = max((plan.memory.arena for plan in plans.values() if plan.memory is not None), default=0)
    constants = sum(constant.nbytes for plan in plans.values() for constant in plan.constants)
    parts = {**asdict(held_by(traced)), "constants": constants, "arena": arena}
    return Needs(parts, limit_of(traced.run))


def admission(traced: Traced, plans: Plans) -> Diagnostic | None:
    """E-MEM-001 where the plans of an experiment do not fit."""
    limit = limit_of(traced.run)
    if limit is None or (found := needs(traced, plans)).total <= limit.bytes:
        return None
    return not_admitted(traced.run, found, limit)


def not_admitted(run: RunConfig, found: Needs, limit: Limit) -> Diagnostic:
    """What is said of a run that does not fit: what would make it, where something in its form could."""
    smaller = "a smaller batch with more :microbatches"
    if found.least > limit.bytes:
        help = f"whatever the batch, a run of this model needs more than {size(found.least)}"
    else:
        help = smaller if run.recompute else f"(defrun ... :recompute :auto), or {smaller}"
    return too_large("the run", run.span, found, limit, help)


def too_large(what: str, span: Span | None, found: Needs, limit: Limit, help: str) -> Diagnostic:
    """E-MEM-001 of what needs more than it may hold."""
    return Diagnostic(
        "E-MEM-001",
        f"{what} needs {size(found.total)}, {size(found.total - limit.bytes)} more than it may hold",
        span,
        expected=f"{size(limit.bytes)} at most, by {limit.source}",
        actual=found.listed(),
        help=help,
    )
