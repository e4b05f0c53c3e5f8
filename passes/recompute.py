"""recompute: what is cheap enough to compute again is not kept for the gradients.

    %a = sx.exp %x {sx.checkpoint = 1}                 %a = sx.exp %x
    ...                                                ...
    %g = sx.mul %c, %a                           =>    %b = sx.exp %x {sx.recompute = 1}
                                                       %g = sx.mul %c, %b

Regions that `(checkpoint ...)` marked always are: their values that later forward operations read stay as they are, and
the clones stand before the first gradient that reads one of them (Chen et al. 2016, Training Deep Nets with Sublinear
Memory Cost). A graph with a budget (`sx.budget`, or the option), in bytes of its arena, gives up more where it needs
more: as little as the passes that follow, tried on a copy, then lay out within it (`recomputing.choice` says in which
order). It says what it needed before (`sx.kept_all`). Runs after autodiff, whose operations stand behind all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from attrs import define, field
from mlir import ir

from sexpgpu.dialects.context import Context
from sexpgpu.dialects.signature import read_outputs
from sexpgpu.passes import PASSES, PIPELINES
from sexpgpu.passes.base import Pass, functions, graphs, parse_pass, run_pipeline
from sexpgpu.passes.flow import operations_of
from sexpgpu.passes.plan_memory import ARENA
from sexpgpu.passes.recomputing.choice import chains, peak, ranking
from sexpgpu.passes.recomputing.clones import compute_again
from sexpgpu.passes.recomputing.marks import BUDGET, CLONE, KEPT_ALL, REGION
from sexpgpu.passes.recomputing.saved import Saved, gradients_from, read_saved

TRIES = 6
"""How often the passes that follow are tried on a copy."""
CLOSE = 0.97
"""The part of a budget that is used well enough not to look for less work."""


@dataclass(frozen=True)
class Recompute(Pass):
    """Clones every marked region for its gradients, and what else does not fit.

    `budget` is in bytes and counts for graphs that name none; 0 is no limit. `target` lays out the arena.
    """

    name: ClassVar[str] = "recompute"
    budget: int = 0
    target: str = "cpu"

    def run(self, module: Any, context: Context) -> str:
        marked = sum(_recompute_marked(func) for func in functions(module))
        said = [f"{marked} marked operation{'s' * (marked != 1)} again"] if marked else []
        for func in graphs(module):
            budget = ir.IntegerAttr(func.attributes[BUDGET]).value if BUDGET in func.attributes else self.budget
            if budget and any(output.role == "grad" for output in read_outputs(func)):
                said.append(_fit(func, budget, _Trial(module, func, context, self.target)))
        return "; ".join(said)


def _recompute_marked(func: Any) -> int:
    ops = operations_of(func)
    regions: dict[int, list[int]] = {}
    for number, op in enumerate(ops):
        if REGION in op.attributes:
            regions.setdefault(ir.IntegerAttr(op.attributes[REGION]).value, []).append(number)
    if not regions:
        return 0
    order = {op: number for number, op in enumerate(ops)}
    gradients = gradients_from(func)
    count = sum(_recompute_region(regions[number], number, ops, order, gradients) for number in sorted(regions)[::-1])
    for op in ops:
        if REGION in op.attributes:
            del op.attributes[REGION]
    return count


def _recompute_region(region: list[int], number: int, ops: list[Any], order: dict[Any, int], gradients: int) -> int:
    """Clone what the gradients read of a region and no later forward operation does; how many operations that took."""
    inside = {ops[i] for i in region}
    reads: dict[Any, list[Any]] = {}  # of the values that nothing but the gradients reads outside
    for i in region:
        for result in ops[i].results:
            users = [use.owner.operation for use in result.uses]
            later = [user for user in users if order.get(user, -1) >= gradients]  # clones have no number
            if all(user in inside or user in later for user in users):
                reads[result] = later
    needed = {value for value, users in reads.items() if users}
    if not needed:
        return 0
    first = min(order[user] for value in needed for user in reads[value])
    before = {}
    for i in reversed(region):
        if any(result in needed for result in ops[i].results):
            before[i] = first
            needed.update(v for v in ops[i].operands if v in reads)
    compute_again(ops, before, number, {value: users for value, users in reads.items() if users})
    return len(before)


@define(eq=False)
class _Trial:
    """Tries what becomes of a graph's arena."""

    module: Any
    func: Any
    context: Context
    target: str
    arenas: dict[int, int] = field(factory=dict)

    def arena(self, saved: Saved, dropped: Sequence[int]) -> int:
        """The bytes of the arena once the first `dropped` of the ranking are computed again."""
        if len(dropped) not in self.arenas:
            self.arenas[len(dropped)] = self._arena(saved, dropped)
        return self.arenas[len(dropped)]

    def _arena(self, saved: Saved, dropped: Sequence[int]) -> int:
        copy = self.context.clone(self.module)
        symbol = self.func.attributes["sym_name"]
        for func in graphs(copy):
            if func.attributes["sym_name"] != symbol:
                func.operation.erase()
        (func,) = graphs(copy)
        _drop(func, saved, dropped)
        shared = PIPELINES["shared"]
        rest = (*shared[shared.index(f"sx-{Recompute.name}") + 1 :], *PIPELINES[self.target])
        run_pipeline(copy, self.context, [parse_pass(spec, PASSES) for spec in rest])
        arena: int = ir.IntegerAttr(func.attributes[ARENA]).value
        return arena


def _fit(func: Any, budget: int, trial: _Trial) -> str:
    """Compute again as little as brings the arena below the budget, or what makes it smallest."""
    saved = read_saved(func)
    everything = trial.arena(saved, ())
    if everything <= budget:
        return f"{everything:,} bytes fit into {budget:,}"
    order = ranking(saved)
    count = _search(saved, order, budget, trial)
    again = _drop(func, saved, order[:count])
    i64 = ir.IntegerType.get_signless(64, context=func.context)
    func.attributes[KEPT_ALL] = ir.IntegerAttr.get(i64, everything)
    func.attributes[BUDGET] = ir.IntegerAttr.get(i64, budget)
    arena = trial.arenas[count]
    fits = "within" if arena <= budget else f"{arena - budget:,} above"
    operations = f"{again} operation{'s' * (again != 1)}"
    return f"{operations} again: {everything:,} bytes become {arena:,}, {fits} the budget of {budget:,}"


def _search(saved: Saved, order: list[int], budget: int, trial: _Trial) -> int:
    """How many of the ranking to drop.

    `peak` knows nothing of groups, so it says how the arena changes from what was tried, and each trial corrects it.
    """
    peaks = [peak(saved, order[:count]) for count in range(len(order) + 1)]
    low, high = 0, len(order) + 1  # too few, enough
    near = 0
    for _ in range(TRIES):
        inside = range(low + 1, high)
        if not inside:
            break
        spare = budget - trial.arenas[near] + peaks[near]
        enough = next((count for count in inside if peaks[count] <= spare), None)
        near = enough if enough is not None else min(inside, key=lambda count: peaks[count])
        arena = trial.arena(saved, order[:near])
        if arena > budget:
            low = near
            if enough is None:
                break
        else:
            high = near
            if arena >= budget * CLOSE:
                break
    return min(trial.arenas, key=lambda count: (max(trial.arenas[count] - budget, 0), count))


def _drop(func: Any, saved: Saved, dropped: Sequence[int]) -> int:
    """Clone what the values take that are no longer kept; how many operations that is."""
    ops = operations_of(func)
    values = list(func.regions[0].blocks[0].arguments) + [result for op in ops[:-1] for result in op.results]
    reads: dict[Any, list[Any]] = {}
    for root in dropped:
        for reader, value in saved.reads[root]:
            reads.setdefault(values[value], []).append(ops[reader])
    before = chains(saved, dropped)
    regions = [ir.IntegerAttr(op.attributes[CLONE]).value for op in ops if CLONE in op.attributes]
    compute_again(ops, before, max(regions, default=0) + 1, reads)
    return len(before)
