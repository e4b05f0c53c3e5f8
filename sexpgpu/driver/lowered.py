"""The lowering report of the CPU: read from the module that its passes have grouped, ordered and laid out."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Any

from mlir import ir

from sexpgpu import knobs
from sexpgpu.dialects.groups import REASON
from sexpgpu.dialects.locations import path_of, span_of
from sexpgpu.dialects.opdef import Composite, Constant, Contract, Move, Window
from sexpgpu.dialects.read import definition_of
from sexpgpu.dialects.signature import type_of
from sexpgpu.driver.compile import Compilation
from sexpgpu.driver.explain import place_of
from sexpgpu.driver.lowering import GraphRow, GroupRow, Launch, Lowering, summed
from sexpgpu.driver.memory import limit_of, needs
from sexpgpu.driver.planning import plans_of
from sexpgpu.experiment import Experiment
from sexpgpu.passes.base import graphs
from sexpgpu.passes.flow import operations_of
from sexpgpu.passes.gpu.calls import Groups
from sexpgpu.passes.plan_memory import ARENA, LIVE, PEAK
from sexpgpu.passes.raise_ import AS
from sexpgpu.passes.recomputing.marks import BUDGET, CLONE, KEPT_ALL
from sexpgpu.plan.records import Launches

COMPOSITES = {"attention": "attention", "cross_entropy": "cross-entropy tail", "norm": "norms"}
FAMILIES = {
    "pointwise": "pointwise programs",
    "row": "row programs",
    "column": "column programs",
    "product": "products",
    "update": "update programs",
    "index": "scatters",
    "order": "sorts",
    "scan": "running sums",
    "window": "windows",
    "attention": "attention",
    "loop": "sums, norm, checks",
}


def cpu_lowering(done: Compilation) -> Lowering:
    """What the CPU made of each graph that a step, an evaluation or a generator runs; initializers are left out.

    SEXPGPU_EXPLAIN=kernels adds what each launches.
    """
    device = f"cpu {platform.machine()}, interpreter"
    return Lowering(device, rows_of(done), tuple(_notes(done)))


def rows_of(done: Compilation) -> tuple[GraphRow, ...]:
    """A row for each graph that takes something, in the module's order; an optimizer group's updates as one."""
    experiment = done.experiment
    assert experiment is not None
    groups = Groups(done.module.operation)
    rows = [_row(name, func, groups) for name, func in functions_of(done)]
    return tuple(_by_update(experiment, rows))


def functions_of(done: Compilation) -> list[tuple[str, Any]]:
    """The graphs of the experiment that take something, by name; of stacked ones those that the run may call."""
    assert done.experiment is not None
    degrees = (1, *done.chosen.degrees) if done.chosen is not None else (1,)
    by_symbol = {graph.symbol: graph.name for graph in done.experiment.graphs.values() if graph.stacked in degrees}
    taking = [func for func in graphs(done.module) if len(func.regions[0].blocks[0].arguments)]
    named = [(by_symbol.get(ir.StringAttr(func.attributes["sym_name"]).value), func) for func in taking]
    return [(name, func) for name, func in named if name is not None]


def _notes(done: Compilation) -> Iterator[tuple[str, str]]:
    assert done.traced is not None
    if limit_of(done.traced.run) is not None:
        yield "memory", str(needs(done.traced, plans_of(done.module, done.context)))


def _by_update(experiment: Experiment, rows: list[GraphRow]) -> Iterator[GraphRow]:
    """The rows, those of each optimizer group's update graphs as one."""
    group_of_graph = {update.graph: update.group for update in experiment.updates}
    yield from (row for row in rows if row.name not in group_of_graph)
    for group in dict.fromkeys(group_of_graph.values()):
        mine = [row for row in rows if group_of_graph.get(row.name) == group]
        yield summed(f"update {group}", mine)


def _row(name: str, func: Any, groups: Groups) -> GraphRow:
    ops = operations_of(func)[:-1]
    every = [inner for op in ops for inner in _computing(op, groups)]
    kernels = [op for op in ops if not _is_free(op)]
    arena, live, peak = (_integer(func, attribute) for attribute in (ARENA, LIVE, PEAK))
    return GraphRow(
        name,
        nodes=len(every),
        kernels=sum(_launched(op, groups) for op in kernels),
        groups=tuple(_groups(ops, groups)),
        products=sum(_is_product(op) for op in every),
        bytes_before=_integer(func, "sx.bytes_before"),
        bytes_after=_integer(func, "sx.bytes_after"),
        arena=arena,
        lower_bound=live,
        peak_place=place_of(span_of(ops[peak].location)) if arena else "",
        again=sum(CLONE in op.attributes for op in every),
        kept_all=_integer(func, KEPT_ALL),
        budget=_integer(func, BUDGET),
        launches=tuple([_launch(op, groups) for op in kernels]) if knobs.EXPLAIN.get() == "kernels" else (),
    )


def _launched(op: Any, groups: Groups) -> int:
    """The kernels that an operation of a graph becomes."""
    found = groups.called(op)
    return len(found.launches.kernels) if found is not None and found.launches is not None else 1


def _launch(op: Any, groups: Groups) -> Launch:
    found = groups.called(op)
    record = definition_of(op)
    name = found.group.symbol if found is not None else record.name if record is not None else "scan"
    return Launch(name, str(type_of(op.results[0])), path_of(op.location))


def _groups(ops: list[Any], groups: Groups) -> Iterator[GroupRow]:
    for op in ops:
        path = path_of(op.location)
        inside = list(_computing(op, groups))
        composites = [kind for inner in inside if isinstance(kind := _kind(inner), Composite)]
        form = next((text for inner in inside if (text := _text(inner, AS)) is not None), None)
        if (found := groups.called(op)) is not None:
            kind = found.group.family
            tail = next((c for c in composites if c.family != "norm"), None)
            kernel = f"{composites[0].family} in {kind}" if composites else kind
            family = COMPOSITES[tail.family] if tail else FAMILIES[kind] + _by_warpgroups(found.launches)
            yield GroupRow(family, kernel, len(inside), path, form)
        elif composites:
            kernel = "backward" if composites[0].backward else "forward"
            yield GroupRow(COMPOSITES[composites[0].family], kernel, 1, path, form)
        for inner in inside:
            if (reason := _text(inner, REASON)) is not None:
                family, _, why = reason.partition(": ")
                yield GroupRow(family, "", 1, path_of(inner.location), None, why)


def _by_warpgroups(launches: Launches | None) -> str:
    """What is said of a group behind its family where its kernels have instructions that few chips have."""
    found = launches is not None and any(launch.how.startswith("wgmma") for launch in launches.kernels)
    return " by wgmma" * found


def _computing(op: Any, groups: Groups) -> Iterator[Any]:
    """The operations that an operation of a graph stands for, constants apart."""
    if (found := groups.called(op)) is not None:
        for inner in found.inside:
            yield from _computing(inner, groups)
    elif not isinstance(_kind(op), Constant):
        yield op


def _kind(op: Any) -> Any:
    record = definition_of(op)
    return record.kind if record is not None else None


def _is_free(op: Any) -> bool:
    """Whether running the operation costs nothing: a constant, or a view that is no copy."""
    kind = _kind(op)
    return isinstance(kind, Constant) or (isinstance(kind, Move) and kind.views)


def _is_product(op: Any) -> bool:
    kind = _kind(op)
    return isinstance(kind, Contract) or (isinstance(kind, Window) and kind.combine == "dot")


def _text(op: Any, name: str) -> str | None:
    return ir.StringAttr(op.attributes[name]).value if name in op.attributes else None


def _integer(func: Any, name: str) -> int:
    return ir.IntegerAttr(func.attributes[name]).value if name in func.attributes else 0
