"""From a compiled module to plans of launches and their kernels, kept on disk as plans of the CPU are."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from sexpgpu.dialects.context import Context
from sexpgpu.driver.compile import Compilation, conclude, finish
from sexpgpu.driver.lowered_device import lowering_below
from sexpgpu.driver.pipeline import Passes, run_named, whole
from sexpgpu.driver.planning import folder_for, kept_graphs, key_for
from sexpgpu.plan.records import DevicePlans
from sexpgpu.plan.store import load_kernels, save


def prepare_kernels(done: Compilation, chip: str) -> DevicePlans | None:
    """Run the passes of a traced experiment up to PTX for a chip; None where there were faults, which are reported.

    Plans kept from before spare the passes, as `planning.prepare` says.
    """
    if done.traced is None or done.diagnostics.errors:
        return None
    pipeline = whole("cuda", chip)
    folder = folder_for(done.passes)
    key = key_for(done.module, pipeline) if folder is not None else ""
    kept = load_kernels(folder, key) if folder is not None else None
    if kept is not None:
        conclude(done, kept_graphs(done.module, kept.plans))
        return kept
    finish(done, pipeline)
    if done.experiment is None:
        return None
    plans = evolve(_plans_of(done.module), lowering=lowering_below(done, chip))
    if folder is not None:
        save(folder, key, plans)
    return plans


def kernels_of(module: Any, context: Context, pipeline: str, passes: Passes) -> DevicePlans:
    """The plans of another module that goes through a pipeline, in place."""
    folder = folder_for(passes)
    key = key_for(module, pipeline) if folder is not None else ""
    kept = load_kernels(folder, key) if folder is not None else None
    if kept is None:
        run_named(module, context, pipeline, passes)
        kept = _plans_of(module)
        if folder is not None:
            save(folder, key, kept)
    return kept


def _plans_of(module: Any) -> DevicePlans:
    from sexpgpu.passes.gpu.plans import device_plans_of  # which needs MLIR's GPU dialects

    return device_plans_of(module)
