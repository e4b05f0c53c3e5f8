"""The lowering report of a GPU: what became kernels, what a step moves against the least, and how long it should take.

Everything is read from the module, so no device has to be there.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from sexpgpu import knobs
from sexpgpu.dialects.signature import read_graph, read_inputs, read_outputs
from sexpgpu.driver.compile import Compilation, conclude
from sexpgpu.driver.device_memory import device_needs
from sexpgpu.driver.explain_text import size
from sexpgpu.driver.loop_traffic import loop_traffic
from sexpgpu.driver.lowered import FAMILIES, cpu_lowering, functions_of, rows_of
from sexpgpu.driver.lowered_libraries import library_calls, not_installed
from sexpgpu.driver.lowering import Lowering
from sexpgpu.driver.lowering_text import text_of
from sexpgpu.driver.memory import limit_of
from sexpgpu.driver.pipeline import kernels_for, rounding, run_named
from sexpgpu.driver.stacking import Choosing, Chosen, choose, graph_of, with_predictions
from sexpgpu.driver.traffic import CHIPS, Chip, Traffic, by_family, total, traffic_of
from sexpgpu.passes.base import graphs
from sexpgpu.passes.gpu.plans import device_plans_of
from sexpgpu.passes.planned import plan_of
from sexpgpu.plan.allocation import device_bytes
from sexpgpu.plan.records import Launches
from sexpgpu.plan.together import updating


def lowering_for(done: Compilation, device: str, target: str | None) -> Lowering:
    """The report of a device for a compiled experiment: its passes run over the module, up to what has to be told."""
    if device == "cpu":
        run_named(done.module, done.context, device, done.passes.again(device))
        return cpu_lowering(done)
    chip = knobs.TARGET.get(target) or "sm_80"
    passes = done.passes.again(device)
    passes = evolve(passes, skip=passes.skip | {"to-nvvm", "to-ptx"})  # which say nothing that is told here
    run_named(done.module, done.context, kernels_for(chip), passes)
    conclude(done, map(read_graph, graphs(done.module)))
    done.chosen = _chosen(done, CHIPS[chip], timed=device == "cuda")
    report = device_lowering(done, chip, f"{device} {chip}{rounding()}, no device opened")
    return evolve(report, notes=(*report.notes, ("stacking", done.chosen.why), *not_installed()))


def _chosen(done: Compilation, chip: Chip, timed: bool) -> Chosen:
    """How a device without anything in its memory would stack."""
    assert done.experiment is not None
    experiment = done.experiment
    plans = with_predictions(experiment, device_plans_of(done.module), done.module, chip)
    limit = limit_of(experiment.run)

    def fits(degree: int) -> bool:
        return limit is None or device_needs(experiment, plans, degrees=(degree,)).total <= limit.bytes

    return choose(experiment, plans, Choosing(1, fits, timed, lambda degrees: None))


def device_lowering(done: Compilation, target: str, device: str) -> Lowering:
    """What the passes of `target`, a chip, made of each graph; `device` names what runs it, in words."""
    chip = CHIPS[target]
    notes = (*_notes(chip, step_traffic(done, chip)), *_parameter_results(done), *library_calls(done))
    return Lowering(device, rows_of(done), notes)


def lowering_below(done: Compilation, target: str) -> str:
    """The text of the report for a chip without its first line, which names the device: it is kept with the plans."""
    return text_of(device_lowering(done, target, "")).partition("\n")[2]


def step_traffic(done: Compilation, chip: Chip) -> list[Traffic]:
    """What one training step moves: its microbatches, as many a call as is likeliest, the loop's, and all updates."""
    experiment = done.experiment
    assert experiment is not None
    degree = done.chosen.likely if done.chosen is not None else 1
    count = experiment.run.microbatches // degree
    calls = {graph_of(experiment, degree): count}
    for update in experiment.updates:
        calls[update.graph] = calls.get(update.graph, 0) + len(update.params)
    functions = dict(functions_of(done))
    plans = {experiment.graphs[u.graph].symbol: plan_of(functions[u.graph]) for u in experiment.updates}
    together = updating(experiment, plans)
    found = []
    for name, func in functions.items():
        if name in calls:
            every = [each.times(calls[name]) for each in traffic_of(func, chip)]
            found += [each.launched(0) for each in every] if name in together.graphs else every
    if together.together is not None:
        kernels = sum(len(step.how.kernels) for step in together.together.plan.steps if isinstance(step.how, Launches))
        found.append(Traffic("update", 0, 0, 0, 0.0).launched(kernels))
    train = functions[graph_of(experiment, degree)]
    squares = {output.name: output.type for output in read_outputs(train) if output.role == "squares"}
    return [*found, *loop_traffic(experiment, chip, count, together.graphs, squares)]


def _notes(chip: Chip, step: list[Traffic]) -> Iterator[tuple[str, str]]:
    whole = total(step)
    yield "a step", _line(whole)
    yield "predicted", f"{_time(whole.seconds)} on {chip.name} (data sheet)"
    for each in by_family(step):
        yield f"  {FAMILIES[each.family]}", _line(each)


def _parameter_results(done: Compilation) -> Iterator[tuple[str, str]]:
    """The parameters that graphs read in a narrower dtype, which the device keeps."""
    assert done.experiment is not None
    paths = {parameter.path for parameter in done.experiment.parameters}
    slots = [slot for _, func in functions_of(done) for slot in read_inputs(func) if slot.role == "narrow"]
    kept = {slot.name: slot.type for slot in slots if slot.name in paths}
    if kept:
        dtypes = ", ".join(sorted({type.dtype for type in kept.values()}))
        yield "parameter results", f"{len(kept)} kept in {dtypes}, {size(sum(map(device_bytes, kept.values())))}"


def _line(each: Traffic) -> str:
    moved = f"{each.kernels} kernel{'s' * (each.kernels != 1)}, {size(each.moved)} moved"
    if not each.least:
        return moved
    return f"{moved}, at least {size(each.least)} ({each.moved / each.least:.2f}x)"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
