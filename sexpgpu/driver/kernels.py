"""From a compiled module to plans of launches and their kernels, kept on disk as plans of the CPU are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from sexpgpu.dialects.context import Context
from sexpgpu.dialects.signature import read_graph
from sexpgpu.driver.compile import Compilation, conclude, finish
from sexpgpu.driver.degrees import ask_for_stacks
from sexpgpu.driver.lowered_device import lowering_below
from sexpgpu.driver.pipeline import Passes, run_named, whole
from sexpgpu.driver.planning import folder_for, kept_graphs, key_for
from sexpgpu.driver.stacking import Chosen, drop, with_predictions
from sexpgpu.driver.traffic import CHIPS
from sexpgpu.lang.collection import uncollected
from sexpgpu.passes.base import Timing, graphs
from sexpgpu.plan.records import DevicePlans
from sexpgpu.plan.store import key_of, load_kernels, save

Decide = Callable[[DevicePlans, str], Chosen]
"""Which degrees of stacking a device is to have kernels for, given all plans; the text names the module."""


def prepare_kernels(done: Compilation, chip: str, decide: Decide) -> DevicePlans | None:
    """Run the passes of a traced experiment up to PTX for a chip, with the degrees of stacking that are decided on, in
    `done.chosen`; None where there were faults, which are reported.

    Plans kept from before spare the passes, as `planning.prepare` says.
    """
    if done.traced is None or done.diagnostics.errors:
        return None
    pipeline = whole("cuda", chip)
    done.chosen = None
    identity = key = _key(done, pipeline)
    plans = _kept(done, identity)
    if plans is not None:
        done.chosen = decide(plans, identity)
        if done.chosen.degrees not in dict(plans.reports):
            # Kept for a device with other memory: those of these degrees are kept beside them.
            ask_for_stacks(done.traced, done.module, sorted({1, *done.chosen.degrees}))
            key = _key(done, pipeline)
            plans = _kept(done, key)
    if plans is None or (done.chosen is not None and done.chosen.degrees not in dict(plans.reports)):
        with uncollected():
            plans = _compiled(done, chip, pipeline, decide, identity, key)
    if plans is None or done.chosen is None:
        return None
    return evolve(plans, lowering=dict(plans.reports)[done.chosen.degrees])


def _key(done: Compilation, pipeline: str) -> str:
    """What plans are known by: the module, and what the model of a step makes of its graphs."""
    traced = done.traced
    assert traced is not None
    generators = [(g.name, g.at, g.every, g.trips) for g in traced.generators]
    step = (traced.run.microbatches, generators, [(u.graph, u.params) for u in traced.updates])
    return key_of([key_for(done.module, pipeline, done.passes), repr(step)])


def _kept(done: Compilation, key: str) -> DevicePlans | None:
    folder = folder_for(done.passes)
    kept = load_kernels(folder, key) if folder is not None else None
    if kept is not None:
        conclude(done, kept_graphs(done.module, kept.plans))
    return kept


def _compiled(
    done: Compilation, chip: str, pipeline: str, decide: Decide, identity: str, key: str
) -> DevicePlans | None:
    """The plans that the passes make, kept for the next run by a key."""
    from sexpgpu.passes.gpu.plans import modules_of

    passes, folder = done.passes, folder_for(done.passes)
    planned: DevicePlans | None = None

    def observe(number: int, name: str, module: Any, timing: Timing | None) -> None:
        """Decide as soon as it can be told what each degree takes: kernels that nobody needs become no PTX."""
        nonlocal planned
        if passes.observer is not None:
            passes.observer(number, name, module, timing)
        if name != "plan-memory":
            return
        conclude(done, map(read_graph, graphs(module)))
        assert done.experiment is not None
        planned = with_predictions(done.experiment, _plans_of(module, done.context), module, CHIPS[chip])
        if done.chosen is None:
            done.chosen = decide(planned, identity)
        drop(planned, module, {way.degree for way in planned.stacked} - {1, *done.chosen.degrees})

    done.passes = evolve(passes, observer=observe)
    finish(done, pipeline)
    done.passes = passes
    if done.experiment is None:
        return None
    if planned is None:  # the module came from a dump behind that pass
        planned = with_predictions(done.experiment, _plans_of(done.module), done.module, CHIPS[chip])
        done.chosen = decide(planned, identity)
    assert done.chosen is not None
    modules, made_for = modules_of(done.module)
    plans = evolve(planned, modules=modules, chip=made_for, reports=_reports(done, done.chosen, chip))
    if folder is not None:
        save(folder, key, plans)
    conclude(done, kept_graphs(done.module, plans.plans))
    return plans


def _reports(done: Compilation, chosen: Chosen, chip: str) -> tuple[tuple[tuple[int, ...], str], ...]:
    """The report of a run by the degrees chosen, and by each that a later run may find to be best."""
    found = []
    for degrees in dict.fromkeys([chosen.degrees, (1,), *((degree,) for degree in chosen.degrees)]):
        done.chosen = evolve(chosen, degrees=degrees)
        found.append((degrees, lowering_below(done, chip)))
    done.chosen = chosen
    return tuple(found)


def kernels_of(module: Any, context: Context, pipeline: str, passes: Passes) -> DevicePlans:
    """The plans of another module that goes through a pipeline, in place."""
    folder = folder_for(passes)
    key = key_for(module, pipeline, passes) if folder is not None else ""
    kept = load_kernels(folder, key) if folder is not None else None
    if kept is None:
        run_named(module, context, pipeline, passes)
        kept = _plans_of(module)
        if folder is not None:
            save(folder, key, kept)
    return kept


def _plans_of(module: Any, context: Context | None = None) -> DevicePlans:
    from sexpgpu.passes.gpu.plans import device_plans_of  # which needs MLIR's GPU dialects

    return device_plans_of(module, context)
