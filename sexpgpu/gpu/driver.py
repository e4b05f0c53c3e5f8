"""What a device that runs kernels is asked to do, and the commands it is given.

A driver has one stream: what it is told happens in that order, and only `copy_out`, `synchronize` and `elapsed` wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from sexpgpu.plan.records import PtxModule
from sexpgpu.plan.tensor_maps import TensorMap
from sexpgpu.runtime.arrays import NoMemory

if TYPE_CHECKING:
    from sexpgpu.gpu.library.choice import Libraries

__all__ = ["Call", "Command", "Copy", "Driver", "Execute", "Fill", "Function", "NoMemory", "Run", "Upload", "Words"]

Words = NDArray[np.uint64]
Function = Any
"""A kernel that the driver has loaded, as the driver knows it."""


@frozen(eq=False)
class Run:
    """A kernel is launched; every argument is an address, and `arguments` may be rewritten between two launches.

    The last of them are parameters that are passed by value, of so many words each as `values` says. `pointers` are
    where each parameter lies in this process, which is what CUDA takes.
    """

    function: Function
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    arguments: Words
    pointers: Words
    values: tuple[int, ...] = ()


@frozen(eq=False)
class Copy:
    """`nbytes` go from one place on the device to another; `arguments` are the target's and the source's address."""

    arguments: Words
    nbytes: int


@frozen(eq=False)
class Upload:
    """A contiguous array of the host goes to the device; `arguments` are the target's address. It may change only when
    it was run.
    """

    arguments: Words
    data: NDArray[Any]


@frozen(eq=False)
class Fill:
    """`nbytes` of the device become one byte; `arguments` are the first one's address."""

    arguments: Words
    byte: int
    nbytes: int


Execute = Callable[[Sequence[int]], None]
"""Queues a library's graph on the driver's stream; its tensors begin at these addresses."""


@frozen(eq=False)
class Call:
    """A library computes a graph; `arguments` are the addresses of its tensors."""

    execute: Execute
    arguments: Words


Command = Run | Copy | Upload | Fill | Call


class Driver(Protocol):
    """An open device. Addresses are numbers; memory is given in blocks aligned to 256 bytes or more."""

    @property
    def name(self) -> str:
        """What the device calls itself."""
        ...

    @property
    def capability(self) -> tuple[int, int]:
        """CUDA compute capability, major and minor."""
        ...

    @property
    def libraries(self) -> Libraries | None:
        """What may compute a step in the stead of its kernels; None on a device that has no libraries."""
        ...

    def enter(self) -> None:
        """Make this device the one that libraries find current, where others of its kind are open."""
        ...

    def memory(self) -> tuple[int, int]:
        """Bytes that are free now, and all that there are."""
        ...

    def allocate(self, nbytes: int) -> int:
        """A block; `NoMemory` where there is none of that size."""
        ...

    def free(self, address: int) -> None:
        """Give a block back, once all that was launched has run."""
        ...

    def copy_in(self, address: int, data: NDArray[Any]) -> None:
        """Copy a contiguous array to the device; it may be changed at once afterwards."""
        ...

    def copy_out(self, data: NDArray[Any], address: int) -> None:
        """Fill a contiguous array from the device, when all before it has run."""
        ...

    def fill(self, address: int, byte: int, nbytes: int) -> None: ...

    def load(self, module: PtxModule) -> Mapping[str, Function]:
        """The kernels of a module by name. `E-DEV-006` where the device does not take it."""
        ...

    def encode(self, map: TensorMap, address: int) -> Words:
        """The words of a tensor map of what begins at an address, with what the map's own offset adds to it."""
        ...

    def allow_shared(self, function: Function, nbytes: int) -> None:
        """Let a kernel be launched with so much dynamic shared memory."""
        ...

    def run(self, command: Command) -> None: ...

    def capture(self, commands: Iterable[Command], uploads: int) -> tuple[Any, int]:
        """The commands with the arguments that each has when its turn comes, to be replayed as one, and what that takes
        of the device's memory. What they upload has so many bytes.

        `NoMemory` where there is none for it.
        """
        ...

    def replay(self, captured: Any, uploads: Sequence[NDArray[Any]]) -> None:
        """Run what was captured, with what its uploads bring this time, in their order; that may be changed at once
        afterwards.
        """
        ...

    def forget(self, captured: Any) -> None:
        """Let go of what was captured."""
        ...

    def mark(self) -> Any:
        """A moment in the stream."""
        ...

    def elapsed(self, start: Any, end: Any) -> float:
        """Seconds between two moments, waiting for the second."""
        ...

    def synchronize(self) -> None: ...

    def close(self) -> None:
        """The end; all memory goes with it."""
        ...
