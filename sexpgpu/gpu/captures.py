"""Commands that are kept as one: those that come again with the same addresses, in the memory that is set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import define, field, frozen
from numpy.typing import NDArray

from sexpgpu.gpu.driver import Command, Driver, NoMemory, Upload
from sexpgpu.plan.records import GraphPlan, Launches, Turns

SMALL = 256 << 20
"""Bytes set aside where no graph is large."""
LARGE = 4 << 30
"""Bytes set aside where one is."""
LAUNCH = 64 << 10
"""Bytes that a captured launch is taken to need of a device before one was captured: a guess on the safe side."""
ALTERNATE = 2
"""Sets of addresses that a step comes to alternate between: results go where those of two steps ago were."""
_SEEN = 1 << 13
"""What is remembered of commands that came once: more than an evaluation of many batches has between two steps."""


def _nothing() -> None:
    """Arguments that stand as they are."""


@frozen(eq=False)
class Queued:
    """Commands that are to be run, whose arguments `ready` sees to. Of one `owner` those with the same `name` are the
    same, but for what an upload brings.
    """

    owner: object
    name: bytes
    commands: Sequence[Command]
    ready: Callable[[], None] = _nothing


@define
class _Kept:
    """Commands captured as one, their bytes, and when they were last replayed."""

    handle: Any
    nbytes: int
    used: int


Key = tuple[tuple[object, bytes], ...]
"""Owners and names, in order."""


@define(eq=False)
class Captures:
    """What is captured of one device, in at most `reserved` bytes beside its pool.

    What comes a second time is captured, all that was queued as one. Where that is too much, those go that were not
    replayed since these were first seen; where there are none, each of what was queued is captured for itself, or stays
    a list of launches, so that calls in full swing never take each other's place by turns.
    """

    driver: Driver
    reserved: int = SMALL
    held: int = field(default=0, init=False)
    peak: int = field(default=0, init=False)
    replayed: int = field(default=0, init=False)
    """How often something was launched as one."""
    _kept: dict[Key, _Kept] = field(factory=dict, init=False)
    _seen: dict[Key, int] = field(factory=dict, init=False)  # when each that is not kept was first run
    _never: set[Key] = field(factory=set, init=False)  # those for which there was no room
    _turns: int = field(default=0, init=False)

    def run(self, queued: Sequence[Queued]) -> None:
        """Run commands in order: as one where they were captured, and captured where they come again."""
        if sum(len(each.commands) for each in queued) < 2:
            for command in _commands(queued):
                self.driver.run(command)
            return
        key = tuple([(each.owner, each.name) for each in queued])
        self._turns += 1
        if (kept := self._kept.get(key)) is not None:
            kept.used = self._turns
            self._replay(kept.handle, queued)
            return
        since = self._seen.get(key)
        if since is not None and key not in self._never and self._capture(key, queued, since):
            return
        self._remember(key)
        if key in self._never and len(queued) > 1:
            for each in queued:
                self.run([each])
            return
        for command in _commands(queued):
            self.driver.run(command)

    def count(self, owner: object) -> int:
        """How much is captured that has commands of one owner."""
        return sum(_has(key, owner) for key in self._kept)

    def forget(self, owner: object) -> None:
        """Let go of all that has commands of one owner."""
        for key in [key for key in self._kept if _has(key, owner)]:
            self._let_go(key)
        self._seen = {key: since for key, since in self._seen.items() if not _has(key, owner)}
        self._never = {key for key in self._never if not _has(key, owner)}

    def _capture(self, key: Key, queued: Sequence[Queued], since: int) -> bool:
        """Capture and run; False where the device, or the reservation, has no room for it."""
        try:
            handle, nbytes = self.driver.capture(_commands(queued), sum(data.nbytes for data in _uploads(queued)))
        except NoMemory:
            self._never.add(key)
            return False
        stale = [(other, kept) for other, kept in self._kept.items() if kept.used < since]
        stale.sort(key=lambda each: (each[1].used, each[1].nbytes))
        while self.held + nbytes > self.reserved and stale:
            self._let_go(stale.pop(0)[0])
        if self.held + nbytes > self.reserved:
            self.driver.forget(handle)
            self._never.add(key)
            return False
        del self._seen[key]
        self._kept[key] = _Kept(handle, nbytes, self._turns)
        self.held += nbytes
        self.peak = max(self.peak, self.held)
        self._replay(handle, queued)
        return True

    def _replay(self, handle: Any, queued: Sequence[Queued]) -> None:
        self.replayed += 1
        self.driver.replay(handle, _uploads(queued))

    def _let_go(self, key: Key) -> None:
        kept = self._kept.pop(key)
        self.held -= kept.nbytes
        self.driver.forget(kept.handle)

    def _remember(self, key: Key) -> None:
        self._seen.setdefault(key, self._turns)
        if len(self._seen) > _SEEN:
            oldest = next(iter(self._seen))
            del self._seen[oldest]
            self._never.discard(oldest)


def _has(key: Key, owner: object) -> bool:
    return any(each is owner for each, _ in key)


def _commands(queued: Sequence[Queued]) -> Iterator[Command]:
    """All commands, each with its arguments when its turn comes: calls of one program share theirs."""
    for each in queued:
        each.ready()
        yield from each.commands


def _uploads(queued: Sequence[Queued]) -> list[NDArray[Any]]:
    """What uploads bring, in order; each is queued by itself."""
    found = []
    for each in queued:
        match each.commands:
            case [Upload(data=data)]:
                found.append(data)
    return found


def reservation(launches: int) -> int:
    """Bytes to set aside where so many launches are captured as one."""
    return SMALL if launches * LAUNCH * ALTERNATE <= SMALL else LARGE


def launches_of(plan: GraphPlan) -> int:
    """The kernels that one call of a graph launches, those of every turn of its loops among them."""
    count = 0
    for step in plan.steps:
        match step.how:
            case Launches(kernels=kernels):
                count += len(kernels)
            case Turns(count=turns):
                count += turns * sum(map(launches_of, step.bodies))
            case _:
                pass
    return count
