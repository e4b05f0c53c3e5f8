"""One operation or a few as a graph of its own, compiled for a device, and the seconds that a call takes there."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from attrs import evolve, frozen
from mlir import ir

from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.function import Build, write_function
from sexpgpu.driver.devices import Device
from sexpgpu.gpu.library.choice import Source
from sexpgpu.gpu.memory import DeviceArray
from sexpgpu.gpu.program import DeviceArena, DeviceProgram
from sexpgpu.passes import PASSES, PIPELINES
from sexpgpu.passes.base import parse_pass, run_pipeline
from sexpgpu.passes.gpu.plans import device_plans_of
from sexpgpu.plan.library import Library
from sexpgpu.plan.records import GraphPlan, Launches
from sexpgpu.tensortype import TensorType

REPEATS, CALLS = 7, 10
"""Timings, of which the median counts, and the calls of each."""


class Refused(Exception):
    """A library does not compute what it was asked for; the text says why."""


def library_of(device: Device, kind: type[Library]) -> str | None:
    """The library with graphs of a kind on a device; None where there is none."""
    assert device.pool is not None
    libraries = device.pool.driver.libraries
    source = libraries.sources.get(kind) if libraries is not None else None
    return source.name if isinstance(source, Source) else None


def program_of(device: Device, types: Sequence[TensorType], build: Build, *, library: bool = False) -> DeviceProgram:
    """The graph that `build` makes of arguments of these types, by our kernels.

    With `library` a library's likely fastest way computes each step that it has. `Refused` where it has no way.
    """
    assert device.pool is not None
    with open_context() as context:
        module = ir.Module.create(loc=context.location(None))
        write_function(module, context, "f", [("value", type) for type in types], build)
        specs = [f"{spec}=chip={device.chip}" if spec == "sx-to-nvvm" else spec for spec in PIPELINES["cuda"]]
        run_pipeline(module, context, [parse_pass(spec, PASSES) for spec in specs])
        plans = device_plans_of(module)
    functions = {name: f for each in plans.modules for name, f in device.pool.driver.load(each).items()}
    plan = plans.plans["f"]
    if library:
        _prefer_library(device, plan)
    return DeviceProgram(plan if library else _without_libraries(plan), functions, DeviceArena(device.pool))


def _prefer_library(device: Device, plan: GraphPlan) -> None:
    """Have the steps of a plan that libraries have computed by them, whatever that takes."""
    assert device.pool is not None
    libraries = device.pool.driver.libraries
    assert libraries is not None
    for step in plan.steps:
        graph = step.how.library if isinstance(step.how, Launches) else None
        source = libraries.sources.get(type(graph)) if graph is not None else None
        if graph is not None and isinstance(source, Source):
            ways = source.ways(graph)
            if isinstance(ways, str):
                raise Refused(ways)
            libraries.chosen[graph] = next(iter(ways))


def _without_libraries(plan: GraphPlan) -> GraphPlan:
    """The same by our kernels alone."""
    steps = [
        evolve(step, how=evolve(step.how, library=None)) if isinstance(step.how, Launches) else step
        for step in plan.steps
    ]
    return evolve(plan, steps=tuple(steps))


@frozen(eq=False)
class Timed:
    """Seconds of a call, and what it gave."""

    seconds: float
    results: Sequence[DeviceArray]


def timed(device: Device, program: DeviceProgram, inputs: Sequence[DeviceArray], *, once: bool) -> Timed:
    """The median of several timings by the device's clock, each of several calls; with `once` only of one."""
    assert device.pool is not None
    driver = device.pool.driver
    into = program(inputs)
    seconds = []
    calls = 1 if once else CALLS
    for number in range(1 if once else REPEATS + 1):
        start = driver.mark()
        for _ in range(calls):
            program(inputs, into)
        elapsed = driver.elapsed(start, driver.mark()) / calls
        if once or number:  # the first also captures
            seconds.append(elapsed)
    return Timed(statistics.median(seconds), into)
