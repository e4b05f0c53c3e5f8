"""The device that a verb runs on, opened before anything is compiled for it: what is not there is told at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from attrs import evolve, field, frozen

from sexpgpu import __version__, knobs
from sexpgpu.diag import Diagnostic, SxError, error
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
from sexpgpu.driver.engine import CpuEngine
from sexpgpu.driver.kernels import prepare_kernels
from sexpgpu.driver.lowered_libraries import absent
from sexpgpu.driver.lowering_text import note_line
from sexpgpu.driver.memory import Limit, admission
from sexpgpu.driver.pipeline import ROOMY, rounding
from sexpgpu.driver.planning import prepare
from sexpgpu.driver.stacking import Choosing, Chosen, choose, graph_of
from sexpgpu.experiment import Experiment, Generator
from sexpgpu.gpu.captures import SMALL, launches_of, reservation
from sexpgpu.gpu.choices import FILE, Choices, key_of
from sexpgpu.gpu.driver import Driver
from sexpgpu.gpu.memory import Pool
from sexpgpu.gpu.ranks import Settings, having_ranks, nodes, one_kind, only_first, ordinals, simulated
from sexpgpu.plan.records import DevicePlans
from sexpgpu.runtime.arrays import Arrays, HostArrays
from sexpgpu.runtime.calls import Calls
from sexpgpu.runtime.engine import Engine
from sexpgpu.runtime.faults import internal
from sexpgpu.runtime.meeting import Place
from sexpgpu.runtime.peers import Peers
from sexpgpu.runtime.planned import Planned
from sexpgpu.runtime.ranks import Links, Team, not_divided, rounds
from sexpgpu.runtime.stacking import Stacking
from sexpgpu.tensortype import binary_size

KEPT_FREE = 1 << 30
"""Bytes of a GPU that libraries may take."""
CHIPS = ((10, "sm_100"), (9, "sm_90"), (8, "sm_80"))
"""The chips that kernels are made for, by the least major number of the compute capabilities that run them."""
OWN = {(9, 0): "sm_90a"}
"""Those whose kernels run on one compute capability alone, with instructions that others do not have."""


@frozen(eq=False)
class Device:
    """An open device: its kind and what it is in words.

    Where it has memory of its own, that, the bytes of it which are kept free, and its chip. `others` are the memories
    of the ranks behind the first, which `links` join. `choices` keep what is measured on it. `peers` are the other
    machines of the run.
    """

    kind: str
    words: str
    pool: Pool | None = None
    kept: int = 0
    chip: str = ""
    others: tuple[Pool, ...] = ()
    links: Links | None = None
    choices: Choices = field(factory=Choices)
    peers: Peers | None = None

    @property
    def ranks(self) -> int:
        """Ranks of the whole run."""
        return (1 + len(self.others)) * self.machines

    @property
    def machines(self) -> int:
        return 1 if self.peers is None else self.peers.count


def _untold(diagnostic: Diagnostic) -> None:
    """Nobody hears of it."""


@contextmanager
def opened(kind: str, several: bool = False, told: Callable[[Diagnostic], None] = _untold) -> Iterator[Device]:
    """The device of a kind, closed behind the block: with `several` all that SEXPGPU_DEVICES names, of this machine and
    others, else the first.

    `told` hears of what was measured before on the device and cannot be read.
    `E-DEV-…` and `E-DP-…` where it cannot be had as asked for.
    """
    asked = settings()
    joined = nodes(asked) if several else None
    if joined is None:
        with _closing(_open(kind, asked, several, told)) as device:
            yield device
        return
    peers = Peers(joined.rank, joined.count, joined.gradients, Place(joined.host, joined.port, knobs.NODE_WAIT.get()))
    try:
        having_ranks(kind)
        with _closing(_open(kind, asked, several, told)) as device:
            yield evolve(device, peers=peers)
    except Exception as fault:
        # Whatever keeps this machine from the run, the others are not to wait for it.
        peers.leave(fault.diagnostic if isinstance(fault, SxError) else internal(fault))
        raise
    finally:
        peers.close()


@contextmanager
def _closing(device: Device) -> Iterator[Device]:
    try:
        yield device
    finally:
        if device.links is not None:
            device.links.close()
        for pool in (device.pool, *device.others):
            if pool is not None:
                pool.close()


def settings() -> Settings:
    """What the environment says of GPUs and machines."""
    wait = knobs.NODE_WAIT.read()
    return Settings(
        knobs.DEVICES.get(),
        knobs.NODES.get(),
        knobs.NODE_RANK.get(),
        knobs.RENDEZVOUS.get(),
        knobs.NODE_GRADIENTS.get(),
        str(wait.value) if wait.source == "environment" else None,
    )


def _open(kind: str, asked: Settings, several: bool, told: Callable[[Diagnostic], None]) -> Device:
    if kind == "cuda":
        return _open_cuda(asked, several, told)
    if kind == "sim":
        from sexpgpu.gpu.collectives import DeviceLinks, SimCollective
        from sexpgpu.gpu.sim import SimDriver
        from sexpgpu.sim import Checks

        count = len(simulated(asked)) if several else 1
        drivers = [SimDriver(Checks.every() if knobs.CHECK.get() else Checks()) for _ in range(count)]
        first, *others = [Pool(driver) for driver in drivers]
        links = DeviceLinks([first, *others], SimCollective(drivers)) if others else None
        chip = knobs.TARGET.get() or "sm_80"
        words = f"sim {chip}, {drivers[0].name}" + (f", {count} ranks" if others else "") + rounding()
        return Device(kind, words, first, chip=chip, others=tuple(others), links=links)
    only_first(asked, f"the device {kind}")
    return Device(kind, "cpu interpreter")


def _open_cuda(asked: Settings, several: bool, told: Callable[[Diagnostic], None]) -> Device:
    from sexpgpu.gpu.collectives import DeviceLinks
    from sexpgpu.gpu.contexts import Turn
    from sexpgpu.gpu.cubin import Assembler
    from sexpgpu.gpu.cuda import open_cuda, visible_gpus
    from sexpgpu.gpu.library.opened import open_libraries
    from sexpgpu.gpu.nccl import open_nccl, require_nccl
    from sexpgpu.gpu.probe import require_bindings

    api = require_bindings()
    chosen = ordinals(asked, visible_gpus(api))
    chosen = chosen if several else chosen[:1]
    turn = Turn() if len(chosen) > 1 else None
    nccl = require_nccl() if turn is not None else None
    folder = knobs.cache_folder()
    assembler = Assembler(folder / "cubin" if folder is not None else None)
    drivers = [open_cuda(ordinal, api, assembler, turn) for ordinal in chosen]
    one_kind(chosen, [each.capability for each in drivers])
    # Communicators take memory of the GPUs, so they come before anybody asks what is free.
    collective = None if turn is None else open_nccl(nccl, chosen, drivers, turn)
    choices = Choices(folder / FILE if folder is not None else None, told)
    for driver in drivers:
        driver.enter()
        driver.libraries = open_libraries(int(driver.stream), driver.allocate, KEPT_FREE // 2, choices)
    _share_choices(drivers)
    first, *others = [Pool(each, each.memory()[0] - KEPT_FREE) for each in drivers]
    links = None if collective is None else DeviceLinks([first, *others], collective)
    major, minor = drivers[0].capability
    ranks = f", {len(drivers)} ranks" if others else ""
    words = f"cuda compute_{major}{minor} {drivers[0].name}{ranks}{rounding()}"
    chip = chip_of(drivers[0].capability, knobs.TARGET.get())
    return Device("cuda", words, first, KEPT_FREE, chip, tuple(others), links, choices)


def _share_choices(drivers: Sequence[Driver]) -> None:
    """What one rank measures of its libraries is for all."""
    libraries = [driver.libraries for driver in drivers if driver.libraries is not None]
    for each in libraries[1:]:
        each.chosen = libraries[0].chosen


def chip_of(capability: tuple[int, int], asked: str | None = None) -> str:
    """The chip whose kernels a GPU of a compute capability gets: what is asked for, else what suits it best.

    `E-DEV-001` where it does not run those.
    """
    running = [name for least, name in CHIPS if capability[0] >= least]
    if capability in OWN:
        running.insert(0, OWN[capability])
    if asked is not None and asked not in running:
        raise error(
            "E-DEV-001",
            "SEXPGPU_TARGET names a chip whose kernels this GPU does not run",
            expected=" or ".join(reversed(running)),
            actual=f"{asked}, on compute capability {capability[0]}.{capability[1]}",
        )
    return asked or running[0]


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
