"""The device that a verb runs on, opened before anything is compiled for it: what is not there is told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from attrs import evolve, field, frozen

from sexpgpu import knobs
from sexpgpu.diag import Diagnostic, SxError, error
from sexpgpu.driver.pipeline import rounding
from sexpgpu.gpu.choices import FILE, Choices
from sexpgpu.gpu.driver import Driver
from sexpgpu.gpu.memory import Pool
from sexpgpu.gpu.ranks import (
    Settings,
    having_ranks,
    nodes,
    one_kind,
    only_first,
    ordinals,
    reachable,
    settings,
    simulated,
)
from sexpgpu.runtime.faults import internal
from sexpgpu.runtime.meeting import FAREWELL, Place
from sexpgpu.runtime.peers import Peers
from sexpgpu.runtime.ranks import Links

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
    try:
        joined = nodes(asked) if several else None
    except SxError as fault:
        stay_out(fault.diagnostic)
        raise
    if joined is None:
        with _closing(_open(kind, asked, several, told)) as device:
            yield device
        return
    peers = Peers(joined.rank, joined.count, joined.gradients, Place(joined.host, joined.port, knobs.NODE_WAIT.get()))
    try:
        peers.knock()
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


def stay_out(why: Diagnostic) -> None:
    """Tell the other machines of a run, where the environment says enough to reach them, that this one is not going to
    begin; nothing where it is alone.
    """
    found = reachable(settings())
    if found is None:
        return
    try:
        peers = Peers(found.rank, found.count, found.gradients, Place(found.host, found.port, FAREWELL))
    except SxError:  # another one listens there
        return
    try:
        peers.leave(why)
    finally:
        peers.close()


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
