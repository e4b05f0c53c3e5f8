"""What the devices of one process do together, and how a simulated one does it.

The runtime sees `DeviceLinks`; below them a `Collective` moves the bytes. Ranks are the places of the devices in the
order they were named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from sexpgpu.gpu.driver import Driver
from sexpgpu.gpu.memory import DeviceArray, Pool, stored_dtype


class Collective(Protocol):
    """Operations of all devices of a process at once, each queued on the device's own stream."""

    def add(self, addresses: Sequence[Sequence[int]], counts: Sequence[int], dtypes: Sequence[np.dtype[Any]]) -> None:
        """Of several arrays each device's, by the array and then the rank: all become their sum, f32 or f64."""
        ...

    def broadcast(self, rank: int, addresses: Sequence[int], nbytes: int) -> None:
        """What lies at the address of one rank goes to those of all."""
        ...

    def close(self) -> None: ...


@frozen(eq=False)
class SimCollective:
    """Simulated GPUs: their memory is this process's. Sums are made in the order of the ranks."""

    drivers: Sequence[Driver]

    def add(self, addresses: Sequence[Sequence[int]], counts: Sequence[int], dtypes: Sequence[np.dtype[Any]]) -> None:
        for places, count, dtype in zip(addresses, counts, dtypes, strict=True):
            first, *others = [
                _read(driver, place, np.empty(count, dtype)) for driver, place in zip(self.drivers, places, strict=True)
            ]
            with np.errstate(over="ignore", invalid="ignore"):
                for other in others:
                    first += other
            for driver, place in zip(self.drivers, places, strict=True):
                driver.copy_in(place, first)

    def broadcast(self, rank: int, addresses: Sequence[int], nbytes: int) -> None:
        data = _read(self.drivers[rank], addresses[rank], np.empty(nbytes, np.uint8))
        for other, (driver, place) in enumerate(zip(self.drivers, addresses, strict=True)):
            if other != rank:
                driver.copy_in(place, data)

    def close(self) -> None:
        """Nothing of it is outside this process."""


def _read(driver: Driver, address: int, into: NDArray[Any]) -> NDArray[Any]:
    driver.copy_out(into, address)
    return into


@frozen(eq=False)
class DeviceLinks:
    """`Links` of devices: arrays in the pools, moved by a collective."""

    pools: Sequence[Pool]
    collective: Collective

    def add(self, tensors: Sequence[Sequence[DeviceArray]]) -> None:
        addresses = [[array.address for array in each] for each in tensors]
        types = [each[0].type for each in tensors]
        self._flush()
        self.collective.add(addresses, [t.size for t in types], [stored_dtype(t) for t in types])
        self._written()

    def copies(self, tensor: DeviceArray, rank: int) -> list[DeviceArray]:
        found = [tensor if other == rank else pool.array(tensor.type) for other, pool in enumerate(self.pools)]
        self._flush()
        self.collective.broadcast(rank, [array.address for array in found], tensor.type.nbytes)
        self._written()
        return found

    def close(self) -> None:
        self.collective.close()

    def _flush(self) -> None:
        """What the devices were asked for before has to be on their streams."""
        for pool in self.pools:
            pool.stream.flush()

    def _written(self) -> None:
        for pool in self.pools:
            pool.writes += 1
