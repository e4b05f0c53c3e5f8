"""Which faults a launch looks for. Bounds and alignment are always checked: the engine relies on them."""

from __future__ import annotations

from attrs import frozen


@frozen
class Checks:
    """The switches, dearest last. `race` is the seed of a random order of warps; None runs them in lock step.

    `uninitialised` follows every byte of global, shared and local memory; `races` who touched it last; `traffic`
    counts bank conflicts of shared memory and sectors of global memory. `most_visits` bounds how often warps that run
    together, or in a random order one warp of every block, come to a straight piece of code: E-SIM-043 beyond.
    """

    barriers: bool = True
    uninitialised: bool = False
    races: bool = False
    traffic: bool = False
    race: int | None = None
    most_visits: int = 5_000_000

    @classmethod
    def every(cls, race: int | None = None, most_visits: int = 5_000_000) -> Checks:
        """All of them, for tests and CI."""
        return cls(uninitialised=True, races=True, traffic=True, race=race, most_visits=most_visits)

    @property
    def watching(self) -> bool:
        """Whether single accesses are looked at, beyond bounds and alignment."""
        return self.uninitialised or self.races or self.traffic
