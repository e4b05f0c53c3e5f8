"""Memory that the graphs of libraries work in: one runs at a time, so all share what the largest needs."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from sexpgpu.gpu.driver import NoMemory


@define(eq=False)
class Workspace:
    """Blocks from `allocate`, of at most `limit` bytes in all: what the memory plan leaves to libraries.

    A larger block does not replace a smaller one, whose address is in launches that were captured.
    """

    allocate: Callable[[int], int]
    limit: int
    held: int = field(default=0, init=False)
    _blocks: dict[int, int] = field(factory=dict, init=False)  # by size

    def at_least(self, nbytes: int) -> int:
        """The address of a block; `NoMemory` where the device or the limit has none of that size."""
        large = [size for size in self._blocks if size >= nbytes]
        if large:
            return self._blocks[min(large)]
        if self.held + nbytes > self.limit:
            raise NoMemory(nbytes)
        self._blocks[nbytes] = self.allocate(max(nbytes, 1))
        self.held += nbytes
        return self._blocks[nbytes]
