"""From a compiled module to plans: kept on disk by the content of what they are made from.

A hit spares the passes. It changes nothing that anybody can see: where stages are dumped or looked on, or passes are
skipped or begun in the middle, they run.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve

from sexpgpu import knobs
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.signature import read_graph
from sexpgpu.driver.compile import Compilation, compiling, conclude, finish
from sexpgpu.driver.pipeline import EVERY, ROOMY, Passes, steps_of, whole
from sexpgpu.experiment import Graph
from sexpgpu.interp import Program
from sexpgpu.lang.collection import uncollected
from sexpgpu.lang.selection import Selection
from sexpgpu.passes.base import graphs
from sexpgpu.passes.flow import read_flow
from sexpgpu.passes.planned import plan_of
from sexpgpu.plan.build import allocation_of, build
from sexpgpu.plan.records import Plans
from sexpgpu.plan.store import key_of, save
from sexpgpu.plan.store import load as load_entry

_CODE = ("dialects", "passes", "plan")
"""The folders whose code decides what a plan says."""
_RECORDS = ("experiment.py", "tensortype.py", "diag/record.py")
"""The files beside them whose records a plan holds."""
_REPORT = (
    "loop_traffic.py",
    "lowered.py",
    "lowered_device.py",
    "lowered_libraries.py",
    "lowering.py",
    "lowering_text.py",
    "stacking.py",
    "traffic.py",
)
"""The files of this folder that write the lowering report, which plans of a GPU hold."""


def load(func: Any) -> Program:
    """The program of a `func.func`, in an arena laid out for it in the order in which it stands."""
    flow = read_flow(func)
    return Program(build(read_graph(func), flow, allocation_of(flow)))


def is_closed(func: Any) -> bool:
    """Whether a graph takes nothing: an initializer, which runs once."""
    return len(func.regions[0].blocks[0].arguments) == 0


def plans_of(module: Any, context: Context) -> Plans:
    """The plan of every graph that takes something, by symbol; from what the last pass found, where it planned."""
    symbols = {func.attributes["sym_name"].value: func for func in graphs(module) if not is_closed(func)}
    return {symbol: plan_of(func, context.found.pop((module, symbol), None)) for symbol, func in symbols.items()}


@contextmanager
def preparing(path: Path, selection: Selection, passes: Passes = EVERY) -> Iterator[Compilation]:
    """Compile `path` as a run does; the compilation lives as long as the block."""
    with compiling(path, selection, pipeline=None, passes=passes) as done:
        prepare(done)
        yield done


def prepare(done: Compilation) -> None:
    """Run the passes of a traced experiment up to the device's, and plan its graphs: `done.plans`.

    Diagnostics of passes are reported there as `finish` reports them. Plans kept from before spare the passes.
    """
    if done.traced is None or done.diagnostics.errors:
        return
    pipeline = whole("cpu")
    folder = folder_for(done.passes)
    key = key_for(done.module, pipeline) if folder is not None else ""
    plans = load_entry(folder, key) if folder is not None else None
    if plans is None:
        finish(done, pipeline)
        if done.experiment is None:
            return
        with uncollected():
            plans = plans_of(done.module, done.context)
        if folder is not None:
            save(folder, key, plans)
    else:
        conclude(done, kept_graphs(done.module, plans))
    done.plans = plans


def kept_graphs(module: Any, plans: Plans) -> list[Graph]:
    """The graphs of a traced module as the passes left them, in its order, then those that a pass added."""
    left = {symbol: plan.spec for symbol, plan in plans.items()}
    traced = map(read_graph, graphs(module))
    return [*[left.pop(graph.symbol, graph) for graph in traced], *left.values()]


def by_module() -> bool:
    """Whether SEXPGPU_CHECK or SEXPGPU_CPU asks for what only the module itself can tell."""
    return knobs.CHECK.get() or knobs.CPU.get() == "reference"


def folder_for(passes: Passes) -> Path | None:
    """Where plans are kept; None where somebody looks at the passes or asks for other ones."""
    watched = knobs.DUMP.get() is not None or knobs.VERIFY.get()
    others = evolve(passes, skip=passes.skip - ROOMY) != EVERY
    return None if watched or by_module() or others else knobs.cache_folder()


def key_for(module: Any, pipeline: str, passes: Passes = EVERY) -> str:
    """What plans are known by: the traced module with its places, the passes, and the code that both go through."""
    text = str(module.operation.get_asm(enable_debug_info=True))
    run = [step.spec for step in steps_of(pipeline) if step.name not in passes.skip]
    return key_of([text, *run, code_digest()])


def code_files() -> list[Path]:
    """The files that decide what a plan says, and how it is written."""
    root = Path(__file__).resolve().parent.parent
    found = [path for folder in _CODE for path in sorted((root / folder).resolve().rglob("*.py"))]
    return [*found, *(root / name for name in _RECORDS), *(root / "driver" / name for name in _REPORT)]


@functools.cache
def code_digest() -> str:
    hasher = hashlib.sha256()
    for path in code_files():
        hasher.update(path.name.encode())
        hasher.update(path.read_bytes())
    return hasher.hexdigest()
