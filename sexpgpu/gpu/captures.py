"""Launches that are kept as one: calls whose addresses come again, within the memory that is set aside for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from sexpgpu.gpu.driver import Command, Driver, NoMemory
from sexpgpu.plan.records import GraphPlan, Launches, Turns

SMALL = 256 << 20
"""Bytes set aside where no graph is large."""
LARGE = 4 << 30
"""Bytes set aside where one is."""
LAUNCH = 64 << 10
"""Bytes that a captured launch is taken to need of a device before one was captured: a guess on the safe side."""
ALTERNATE = 2
"""Sets of addresses that a graph comes to alternate between: results go where those of two calls ago were."""
_SEEN = 256

Key = tuple[object, tuple[int, ...]]
"""Who calls, and the addresses of its inputs and results."""


@define
class _Kept:
    """Commands captured as one, their bytes, and when they were last replayed."""

    handle: Any
    nbytes: int
    used: int


@define(eq=False)
class Captures:
    """The captured calls of one device, in at most `reserved` bytes beside its pool.

    Addresses that come a second time are captured. Where that is too much, those go that were not replayed since these
    were first seen; where there are none, the call stays a list of launches, so that calls in full swing never take
    each other's place by turns.
    """

    driver: Driver
    reserved: int = SMALL
    held: int = field(default=0, init=False)
    peak: int = field(default=0, init=False)
    _kept: dict[Key, _Kept] = field(factory=dict, init=False)
    _seen: dict[Key, int] = field(factory=dict, init=False)  # when each that is not kept was first called
    _never: set[Key] = field(factory=set, init=False)  # those for which there was no room
    _calls: int = field(default=0, init=False)

    def replay(self, key: Key) -> bool:
        """Run a call that was captured; False where it was not."""
        kept = self._kept.get(key)
        if kept is None:
            return False
        self._calls += 1
        kept.used = self._calls
        self.driver.replay(kept.handle)
        return True

    def run(self, key: Key, commands: Sequence[Command]) -> None:
        """Run a call that was not, captured where its addresses come again."""
        self._calls += 1
        since = self._seen.get(key)
        if since is not None and len(commands) > 1 and key not in self._never and self._capture(key, commands, since):
            return
        for command in commands:
            self.driver.run(command)
        self._remember(key)

    def count(self, owner: object) -> int:
        """Calls of one owner that are captured."""
        return sum(kept is owner for kept, _ in self._kept)

    def forget(self, owner: object) -> None:
        """Let go of all that one owner's addresses were known by."""
        for key in [key for key in self._kept if key[0] is owner]:
            self._let_go(key)
        self._seen = {key: since for key, since in self._seen.items() if key[0] is not owner}
        self._never = {key for key in self._never if key[0] is not owner}

    def _capture(self, key: Key, commands: Sequence[Command], since: int) -> bool:
        """Capture and run; False where the device, or the reservation, has no room for it."""
        try:
            handle, nbytes = self.driver.capture(commands)
        except NoMemory:
            self._never.add(key)
            return False
        stale = sorted((kept.used, kept.nbytes, other) for other, kept in self._kept.items() if kept.used < since)
        while self.held + nbytes > self.reserved and stale:
            self._let_go(stale.pop(0)[2])
        if self.held + nbytes > self.reserved:
            self.driver.forget(handle)
            self._never.add(key)
            return False
        del self._seen[key]
        self._kept[key] = _Kept(handle, nbytes, self._calls)
        self.held += nbytes
        self.peak = max(self.peak, self.held)
        self.driver.replay(handle)
        return True

    def _let_go(self, key: Key) -> None:
        kept = self._kept.pop(key)
        self.held -= kept.nbytes
        self.driver.forget(kept.handle)

    def _remember(self, key: Key) -> None:
        self._seen.setdefault(key, self._calls)
        if len(self._seen) > _SEEN:
            oldest = next(iter(self._seen))
            del self._seen[oldest]
            self._never.discard(oldest)


def reservation(plans: Sequence[GraphPlan]) -> int:
    """Bytes to set aside for the captured calls of graphs with these plans."""
    most = max((launches_of(plan) for plan in plans), default=0)
    return SMALL if most * LAUNCH * ALTERNATE <= SMALL else LARGE


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
