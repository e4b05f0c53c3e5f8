"""What a device is asked to do: at once, or, between two looks of the host, kept and then launched as one.

A step asks for the same in the same order at the same addresses, so all of it becomes one CUDA graph:

    upload batch, train, upload batch, train, add, norm, upload rates, update   =>   one launch, with what is uploaded
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
from attrs import Factory, define, field
from numpy.typing import NDArray

from sexpgpu.gpu.bind import Bound
from sexpgpu.gpu.captures import Captures, Queued
from sexpgpu.gpu.driver import Copy, Driver, Fill, Upload

_LAUNCHES = 1 << 14
"""Commands that wait at most: a graph of more is slow to make and saves no more of each."""
_BYTES = 64 << 20
"""Bytes of the host that wait at most to be uploaded."""
_NAME = 16
_COPIES = "copies"
"""Who owns copies and fills, which belong to no program."""


@define(eq=False)
class Stream:
    """The commands of one device, in the order in which they are asked for.

    Inside `together` they wait: until the block ends, the host reads something, or many wait. `captures` launch as one
    what comes again.
    """

    driver: Driver
    captures: Captures = field(default=Factory(lambda self: Captures(self.driver), takes_self=True), init=False)
    _together: bool = field(default=False, init=False)
    _waiting: list[Queued] = field(factory=list, init=False)
    _launches: int = field(default=0, init=False)  # of those that wait
    _bytes: int = field(default=0, init=False)  # that those bring from the host

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is asked for inside is launched as one, up to where the host wants to know something."""
        before, self._together = self._together, True
        try:
            yield
            if not before:
                self.flush()
        finally:
            self._together = before
            if not before:
                self._forget_waiting()

    def call(self, bound: Bound, addresses: Sequence[int]) -> None:
        """Run a program with what lies at these addresses: its inputs and results."""
        where = np.array(addresses, np.uint64)
        name = blake2b(where.tobytes(), digest_size=_NAME).digest()  # short, since many are remembered
        self._queue(Queued(bound, name, bound.commands, partial(bound.give, where, self.driver)))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy from one place on the device to another."""
        words = np.array([target, source, nbytes], np.uint64)
        if nbytes:
            self._queue(Queued(_COPIES, words.tobytes(), (Copy(words[:2], nbytes),)))

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        words = np.array([address, byte, nbytes], np.uint64)
        if nbytes:
            self._queue(Queued(_COPIES, words.tobytes() + b"=", (Fill(words[:1], byte, nbytes),)))

    def copy_in(self, address: int, data: NDArray[Any]) -> None:
        """Copy a contiguous array to the device; it may be changed at once afterwards."""
        if not self._together or data.nbytes > _BYTES:
            self.flush()
            self.driver.copy_in(address, data)
        elif data.nbytes:
            words = np.array([address, data.nbytes], np.uint64)
            self._bytes += data.nbytes
            self._queue(Queued(_COPIES, words.tobytes(), (Upload(words[:1], data.copy()),)))

    def copy_out(self, data: NDArray[Any], address: int) -> None:
        """Fill a contiguous array from the device, when all before it has run."""
        self.flush()
        self.driver.copy_out(data, address)

    def mark(self) -> Any:
        """The moment at which the device has done all that was asked for so far."""
        self.flush()
        return self.driver.mark()

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked for."""
        self.flush()
        self.driver.synchronize()

    def flush(self) -> None:
        """Launch what waits."""
        if self._waiting:
            queued = self._waiting
            self._forget_waiting()
            self.captures.run(queued)

    def _queue(self, queued: Queued) -> None:
        if not self._together:
            self.captures.run([queued])
            return
        self._waiting.append(queued)
        self._launches += len(queued.commands)
        if self._launches >= _LAUNCHES or self._bytes >= _BYTES:
            self.flush()

    def _forget_waiting(self) -> None:
        self._waiting, self._launches, self._bytes = [], 0, 0
