"""An experiment on an open device: its passes and kernels, whether it fits, the engines and ranks that run it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from attrs import evolve

from sexpgpu import __version__
from sexpgpu.diag import Diagnostic
from sexpgpu.driver.compile import Compilation
from sexpgpu.driver.device_memory import (
    device_admission,
    device_limit,
    device_needs,
    generator_admission,
    generator_needs,
    gradient_types,
    has_narrow,
    step_launches,
)
from sexpgpu.driver.devices import Device
from sexpgpu.driver.engine import CpuEngine
from sexpgpu.driver.kernels import prepare_kernels
from sexpgpu.driver.lowered_libraries import absent
from sexpgpu.driver.lowering_text import note_line
from sexpgpu.driver.memory import Limit, admission
from sexpgpu.driver.pipeline import ROOMY
from sexpgpu.driver.planning import prepare
from sexpgpu.driver.stacking import Choosing, Chosen, choose, graph_of
from sexpgpu.experiment import Experiment, Generator
from sexpgpu.gpu.captures import SMALL, launches_of, reservation
from sexpgpu.gpu.choices import key_of
from sexpgpu.plan.records import DevicePlans
from sexpgpu.runtime.arrays import Arrays, HostArrays
from sexpgpu.runtime.calls import Calls
from sexpgpu.runtime.engine import Engine
from sexpgpu.runtime.planned import Planned
from sexpgpu.runtime.ranks import Team, not_divided, rounds
from sexpgpu.runtime.stacking import Stacking
from sexpgpu.tensortype import binary_size


def prepare_for(done: Compilation, device: Device) -> DevicePlans | None:
    """Run the passes of a traced experiment for a device: `done.plans` on a CPU, else the plans with their kernels.

    Where a run fits the device only without narrow parameters, which it keeps beside the others, its graphs cast these
    for themselves.
    """
    if device.pool is None:
        prepare(done)
        return None
    traced = done.context.clone(done.module) if done.traced is not None else None
    kernels = _kernels(done, device)
    if done.traced is None or kernels is None or not has_narrow(kernels):
        return kernels
    planned, limit = _admission(done, device, kernels)
    if planned.total <= limit.bytes:
        return kernels
    done.traced.tracer.module, done.chosen = traced, None
    done.passes = evolve(done.passes, skip=done.passes.skip | ROOMY)
    casting = _kernels(done, device)
    assert casting is not None
    over = f"dropped, with {binary_size(planned.total)} for {binary_size(limit.bytes)} the run fits only without"
    return evolve(casting, lowering=f"{casting.lowering}\n{note_line('parameter results', over)}")


def _kernels(done: Compilation, device: Device) -> DevicePlans | None:
    return prepare_kernels(done, device.chip, lambda plans, identity: _chosen(done, device, plans, identity))


def _chosen(done: Compilation, device: Device, plans: DevicePlans, identity: str) -> Chosen:
    """How calls of the train graph stack microbatches on an open device, and the key of what is measured of that."""
    assert done.experiment is not None
    assert device.pool is not None
    experiment = done.experiment
    key = key_of("stacking", __version__, device.pool.driver.name, str(device.ranks), identity)

    def fits(degree: int) -> bool:
        planned = device_needs(experiment, plans, device.peers, (degree,), device.ranks)
        launches = step_launches(experiment, plans, degree, device.ranks)
        return planned.total <= _limited(experiment, device, launches, planned).bytes

    def measured(degrees: Collection[int]) -> dict[int, float] | None:
        found = device.choices.find(key, [str(degree) for degree in degrees])
        return None if found is None else {int(degree): seconds for degree, seconds in found.items()}

    # The simulator's time says nothing, and machines that measured would not all stack alike.
    timed = device.kind == "cuda" and device.peers is None
    chosen = choose(experiment, plans, Choosing(device.ranks, fits, timed, measured))
    return evolve(chosen, generating=plans.generating, key=key)


def stacking_of(done: Compilation, device: Device) -> Stacking:
    """How the loop calls the train graph; on a CPU a microbatch at a time, of which nothing is said."""
    chosen, pool = done.chosen, device.pool
    if chosen is None or done.experiment is None or pool is None:
        return Stacking()
    graphs = {degree: graph_of(done.experiment, degree) for degree in chosen.degrees}
    predicted = {degree: chosen.predicted[degree] for degree in chosen.degrees if degree in chosen.predicted}
    models = {degree: seconds - chosen.generating for degree, seconds in predicted.items()}
    if len(chosen.degrees) == 1:
        return Stacking(graphs, chosen.degrees[0], chosen.why, models)

    def clock(run: Callable[[], object]) -> float:
        start = pool.stream.mark()
        run()
        return pool.driver.elapsed(start, pool.stream.mark())

    def remember(measured: Mapping[int, float]) -> None:
        device.choices.keep(chosen.key, {str(degree): seconds for degree, seconds in measured.items()})

    return Stacking(graphs, chosen.likely, chosen.why, models, clock, remember)


def lowering_text(done: Compilation, device: Device, kernels: DevicePlans | None) -> str:
    """The lowering report of a run on an open device; nothing for the interpreter, which lowers nothing."""
    if kernels is None:
        return ""
    patterns = "off" if "raise" in done.passes.skip else "on"
    libraries = device.pool.driver.libraries if device.pool is not None else None
    lacking = [absent(reason) for reason in libraries.absent()] if libraries is not None else []
    return "\n".join(
        [f"lowering: {device.words}, patterns {patterns}", kernels.lowering, *(note_line(*note) for note in lacking)]
    )


def engine_of(done: Compilation, device: Device, kernels: DevicePlans | None) -> tuple[Engine, Arrays]:
    """The engine of an experiment that was prepared for a device, and the arithmetic on its tensors."""
    calls = team_of(done, evolve(device, others=(), links=None), kernels).calls[0]
    return calls.engine, calls.arrays


def team_of(done: Compilation, device: Device, kernels: DevicePlans | None) -> Team:
    """The ranks of a run on a device, each with its engine and its arithmetic."""
    if device.pool is None:
        return Team([Calls(CpuEngine(done, device.words), HostArrays())])
    from sexpgpu.driver.device import DeviceEngine, Resized
    from sexpgpu.gpu.transport import DeviceTransport

    assert kernels is not None
    assert done.experiment is not None
    rounding = rounds(done.experiment.run, device.peers)
    resized = Resized(done, device.chip)
    engines = []
    for pool in (device.pool, *device.others):
        planned, _ = _admission(done, evolve(device, pool=pool), kernels)
        engines.append(DeviceEngine(done, kernels, pool, device.words, device.chip, planned, rounding, resized))
    types = gradient_types(done.experiment) if device.peers is not None else {}
    transports = [DeviceTransport(engine.arrays, types, rounding) for engine in engines] if types else []
    calls = [Calls(engine, engine.arrays) for engine in engines]
    return Team(calls, device.links, device.peers, transports, stacking_of(done, device))


def admitted(done: Compilation, device: Device, kernels: DevicePlans | None) -> Diagnostic | None:
    """`E-MEM-001` where an experiment that was prepared for a device does not fit it, `E-DP-003` where its microbatches
    do not divide over the ranks.
    """
    if done.traced is None or done.experiment is None:
        return None
    undivided = not_divided(done.experiment.run, device.ranks, device.machines)
    if undivided is not None:
        return undivided
    if kernels is not None:
        return device_admission(done.experiment, *_admission(done, device, kernels))
    return admission(done.traced, done.plans) if done.plans is not None else None


def admitted_generator(
    done: Compilation, device: Device, kernels: DevicePlans | None, generator: Generator
) -> Diagnostic | None:
    """`E-MEM-001` where a generator of a checkpoint, in an experiment that was prepared for a device, does not fit."""
    if kernels is None or done.experiment is None:
        return None
    planned = generator_needs(done.experiment, kernels, generator)
    launches = max(map(launches_of, kernels.plans.values()))
    return generator_admission(generator, planned, _limited(done.experiment, device, launches, planned))


def _admission(done: Compilation, device: Device, kernels: DevicePlans) -> tuple[Planned, Limit]:
    """What a run will hold of an open device, and what it may."""
    assert done.experiment is not None
    degrees = done.chosen.degrees if done.chosen is not None else (1,)
    planned = device_needs(done.experiment, kernels, device.peers, degrees, device.ranks)
    launches = max(step_launches(done.experiment, kernels, degree, device.ranks) for degree in degrees)
    return planned, _limited(done.experiment, device, launches, planned)


def _limited(experiment: Experiment, device: Device, launches: int, planned: Planned) -> Limit:
    """What a run may hold of an open device: its pool is held to that, and its captured launches, so many at once, to
    the rest.

    More is set aside for many where the run fits beside it.
    """
    assert device.pool is not None
    free = device.pool.driver.memory()[0] - device.kept
    reserved = reservation(launches)
    if planned.total > free - reserved:
        reserved = SMALL
    device.pool.stream.captures.reserved = reserved
    limit = device_limit(experiment, free - reserved, f"what {device.kind} has free")
    device.pool.limit = limit.bytes
    return limit
