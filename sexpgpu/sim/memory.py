"""Global memory of the simulated device: allocations with names in one reserved range, and a shadow of their bytes.

The range is reserved, not used: pages come to life when they are touched and go when an allocation is freed. Addresses
begin above 2³², so that one cut to 32 bits is out of bounds; between two allocations lies a gap that nothing owns.
"""

from __future__ import annotations

import bisect
import mmap

import numpy as np
from attrs import define, field, frozen

from sexpgpu.diag import error
from sexpgpu.sim.lanes import views_of
from sexpgpu.sim.types import Array

BASE = 0x2_0000_0000
RESERVED = (1 << 38, 1 << 36, 1 << 34, 1 << 32)
ALIGN = 256
GAP = 256
NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


@frozen
class Allocation:
    """A range of device memory: `start` an address, `size` in bytes."""

    start: int
    size: int
    name: str

    @property
    def end(self) -> int:
        return self.start + self.size


def reserve(size: int) -> mmap.mmap | None:
    """Pages of zeros that exist once they are touched."""
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
    except (OSError, ValueError, OverflowError):
        return None


@define(eq=False)
class Memory:
    """The bytes, by address. `shadowed` keeps which of them were ever written."""

    shadowed: bool = False
    starts: list[int] = field(factory=list)
    allocations: list[Allocation] = field(factory=list)
    freed: list[Allocation] = field(factory=list)
    top: int = BASE
    pages: mmap.mmap = field(init=False)
    bytes: Array = field(init=False)
    views: dict[int, Array] = field(init=False)
    known: Array | None = None  # 1 where a byte was written
    in_use: int = 0

    def __attrs_post_init__(self) -> None:
        for size in RESERVED:
            pages = reserve(size)
            if pages is not None:
                self.pages = pages
                break
        else:
            raise error("E-SIM-002", "the system gives no address range for the memory of the simulated device")
        self.bytes = np.frombuffer(self.pages, np.uint8)
        self.views = views_of(self.bytes)
        if self.shadowed:
            shadow = reserve(len(self.bytes))
            if shadow is None:
                raise error("E-SIM-002", "the system gives no address range for the shadow of the device's memory")
            self.known = np.frombuffer(shadow, np.uint8)

    def allocate(self, size: int, name: str) -> int:
        """The address of `size` new bytes, of unknown content. Raises E-MEM-002 when the range is spent."""
        room = -(-max(size, 1) // ALIGN) * ALIGN + GAP
        start = self.top if self.top + room <= BASE + len(self.bytes) else self._hole(room)
        if start is None:
            raise error("E-MEM-002", f"the simulated device has no {size} bytes left for {name}")
        self.top = max(self.top, start + room)
        at = bisect.bisect(self.starts, start)
        self.starts.insert(at, start)
        self.allocations.insert(at, Allocation(start, size, name))
        self.in_use += size
        if self.known is not None:
            self.known[start - BASE : start - BASE + size] = 0
        return start

    def _hole(self, room: int) -> int | None:
        end = BASE
        for allocation in self.allocations:
            if allocation.start - end >= room:
                return end
            end = -(-(allocation.end + GAP) // ALIGN) * ALIGN
        return end if end + room <= BASE + len(self.bytes) else None

    def free(self, address: int) -> None:
        """Give an allocation back; later accesses to it are faults. Raises E-SIM-003 for another address."""
        at = bisect.bisect_left(self.starts, address)
        if at == len(self.starts) or self.starts[at] != address:
            raise error("E-SIM-003", f"address {address:#x} is no allocation of the simulated device")
        allocation = self.allocations.pop(at)
        del self.starts[at]
        self.freed = [*self.freed[-63:], allocation]
        self.in_use -= allocation.size
        low = -(-(allocation.start - BASE) // mmap.PAGESIZE) * mmap.PAGESIZE
        high = (allocation.end - BASE) // mmap.PAGESIZE * mmap.PAGESIZE
        if high > low:
            self.pages.madvise(mmap.MADV_DONTNEED, low, high - low)

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds `address`."""
        at = bisect.bisect(self.starts, address) - 1
        if at < 0:
            return None
        allocation = self.allocations[at]
        return allocation if address < allocation.end else None

    def within(self, low: int, high: int) -> bool:
        """Whether the bytes from `low` up to `high` lie in one allocation."""
        found = self.find(low)
        return found is not None and high <= found.end

    def view(self, address: int, size: int) -> Array:
        """The bytes from `address` on, as a view. Raises E-SIM-003 where they are not of one allocation."""
        if size and not self.within(address, address + size):
            raise error(
                "E-SIM-003",
                f"{size} bytes at {address:#x} are not inside an allocation of the simulated device",
                actual=self.describe(address),
            )
        return self.bytes[address - BASE : address - BASE + size]

    def mark(self, address: int, size: int) -> None:
        """The host has written these bytes."""
        if self.known is not None:
            self.known[address - BASE : address - BASE + size] = 1

    def describe(self, address: int) -> str:
        """Where an address lies, in words."""
        found = self.find(address)
        if found is not None:
            return f"byte {address - found.start} of {found.name}, which has {found.size}"
        for gone in reversed(self.freed):
            if gone.start <= address < gone.end:
                return f"byte {address - gone.start} of {gone.name}, which was freed"
        at = bisect.bisect(self.starts, address) - 1
        near: list[tuple[int, str]] = []
        if at >= 0:
            before = self.allocations[at]
            near.append(
                (
                    address - before.end,
                    f"{address - before.end} bytes behind the end of {before.name}, which has {before.size}",
                )
            )
        if at + 1 < len(self.allocations):
            after = self.allocations[at + 1]
            near.append((after.start - address, f"{after.start - address} bytes before {after.name}"))
        distance, text = min(near, default=(1 << 62, ""))
        return text if distance < 1 << 20 else f"address {address & (1 << 64) - 1:#x}, near no allocation"
