"""The plan of a graph as text: what a device executes, a line a step."""

from __future__ import annotations

from collections.abc import Iterator

from sexpgpu.diag import error, nearest
from sexpgpu.plan.records import At, Fixed, Given, GraphPlan, Home, Into, Plans, Step, Tiles, Turns, View
from sexpgpu.plan.store import digest


def plans_text(plans: Plans, graph: str | None) -> str:
    """Every plan, or that of one graph; E-ARG-020 for a graph that has none."""
    by_name = {plan.spec.name: plan for plan in plans.values()}
    if graph is not None and graph not in by_name:
        near = nearest(graph, by_name)
        raise error(
            "E-ARG-020",
            f"there is no plan of a graph `{graph}`",
            expected="one of " + ", ".join(by_name),
            help=f"--graph {near!r}" if near else None,
        )
    chosen = by_name.values() if graph is None else [by_name[graph]]
    return "\n\n".join("\n".join(_lines(plan)) for plan in chosen)


def _lines(plan: GraphPlan) -> Iterator[str]:
    yield f"plan {plan.spec.name}  sha256 {digest(plan)[:16]}"
    if plan.memory is not None:
        at = plan.steps[plan.memory.step] if plan.steps else None
        where = f", at {at.op}" if at is not None else ""
        yield f"  arena {plan.memory.arena:,} bytes, {plan.memory.live:,} alive at once{where}"
    for number, given in enumerate(plan.spec.inputs):
        yield f"  %{number} = {given.role} {given.name}: {given.type}"
    for step in plan.steps:
        yield from (f"  {line}" for line in _step(plan, step))
    results = ", ".join(
        f"{o.role} {o.name} %{n}".replace("  ", " ") for o, n in zip(plan.spec.outputs, plan.results, strict=True)
    )
    yield f"  return {results}"


def _step(plan: GraphPlan, step: Step) -> Iterator[str]:
    outs = ", ".join(f"%{n}: {plan.slots[n].type} {_home(plan.slots[n].home)}" for n in step.outs)
    ins = " ".join(f"%{n}" for n in step.ins)
    attrs = "".join(f" {name}={value}" for name, value in step.attrs)
    place = " ".join(filter(None, (step.path, str(step.span) if step.span else "")))
    yield f"{outs} = {step.op} {ins}{attrs}" + (f"  ; {place}" if place else "")
    if isinstance(step.how, Tiles):
        tiles = " and ".join(str(list(shape)) for shape in step.how.shapes)
        yield f"    tiles {tiles} of {list(step.how.extent)}, workspace {step.workspace[1]:,} at {step.workspace[0]}"
    elif isinstance(step.how, Turns):
        yield f"    {step.how.count} turns, workspace {step.workspace[1]:,} at {step.workspace[0]}"
    for body in step.bodies[:1]:
        yield from ("    " + line for inner in body.steps for line in _step(body, inner))


def _home(home: Home) -> str:
    match home:
        case At(offset):
            return f"@{offset}"
        case Into(place):
            return f"into result {place}"
        case View(of):
            return f"view of %{of}"
        case Given(place):
            return f"argument {place}"
        case Fixed(place):
            return f"constant {place}"
    return "own memory"
