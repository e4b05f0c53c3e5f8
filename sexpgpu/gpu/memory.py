"""Memory of a device: blocks that are used again, arrays in them, and small ones that are read together.

Blocks given back wait for the next request of their size. Since a device has one stream, a block may be given back
while kernels that read it are still to run: whatever is written there next comes after them.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np
from attrs import Factory, define, field
from numpy.typing import NDArray

from sexpgpu.data.arrays import NUMPY_DTYPE
from sexpgpu.gpu.driver import Driver, NoMemory
from sexpgpu.gpu.faults import Faults
from sexpgpu.gpu.stream import Stream
from sexpgpu.tensortype import TensorType

ALIGNMENT = 256
SMALL = 16
"""Bytes up to which an array is one of many in a block that the host reads whole."""
_SMALL_COUNT = 4096
SMALL_BLOCK = SMALL * _SMALL_COUNT
"""Bytes of such a block."""
_SCALE = TensorType((2,), "f64")
_SCALES = np.dtype([("f64", np.float64), ("f32", np.float32, 2)])
_GRAIN = 128 << 10


def block_size(nbytes: int) -> int:
    """What a request of so many bytes takes: at most an eighth more, or 128 KiB for large ones."""
    if nbytes >= 8 * _GRAIN:
        return -(-nbytes // _GRAIN) * _GRAIN
    grain = max(ALIGNMENT, 1 << max(0, nbytes.bit_length() - 4))
    return max(ALIGNMENT, -(-nbytes // grain) * grain)


@define(eq=False)
class Pool:
    """Blocks of one device. `live` bytes are in arrays, `held` are taken from the device, `peak` was the most live.

    `limit` bounds what is held. A request that the device or the limit refuses is made once more after every block
    that waits was let go, and is one of those `refused`; `NoMemory` where that does not help. What is written and run
    goes by the `stream`; `faults` are looked at whenever an array is read.
    """

    driver: Driver
    limit: int | None = None
    stream: Stream = field(default=Factory(lambda self: Stream(self.driver), takes_self=True), init=False)
    faults: Faults = field(default=Factory(lambda self: Faults(self), takes_self=True), init=False)
    live: int = field(default=0, init=False)
    held: int = field(default=0, init=False)
    peak: int = field(default=0, init=False)
    refused: list[int] = field(factory=list, init=False)
    writes: int = field(default=0, init=False)
    """Grows with everything that may change memory, so that a copy on the host knows whether it is old."""
    _waiting: dict[int, list[int]] = field(factory=dict, init=False)
    _small: list[_Small] = field(factory=list, init=False)
    _closed: bool = field(default=False, init=False)
    _scale: DeviceArray | None = field(default=None, init=False)

    def block(self, nbytes: int) -> Block:
        """A block of `nbytes` or more. Its contents are undefined."""
        size = block_size(nbytes)
        stock = self._waiting.get(size)
        address = heappop(stock) if stock else self._more(size)
        self.live += size
        self.peak = max(self.peak, self.live)
        return Block(self, address, size)

    def array(self, type: TensorType) -> DeviceArray:
        """A new array of undefined contents."""
        nbytes = type.nbytes
        if nbytes > SMALL:
            return DeviceArray(type, self.block(nbytes), 0)
        small = next((each for each in self._small if each.free), None)
        if small is None:
            small = _Small(self.block(SMALL_BLOCK))
            self._small.append(small)
        return DeviceArray(type, Place(small, heappop(small.free)), 0)

    @property
    def scales(self) -> list[DeviceArray]:
        """What updates multiply gradients by, f64[] and behind it f32[], which are 1 until they are written."""
        if self._scale is None:
            self._scale = self.array(_SCALE)
            self.stream.copy_in(self._scale.address, np.ones(1, _SCALES))
            self.writes += 1
        f64, f32 = TensorType((), "f64"), TensorType((), "f32")
        return [DeviceArray(f64, self._scale.memory, 0), DeviceArray(f32, self._scale.memory, f64.nbytes)]

    def give_back(self, address: int, size: int) -> None:
        if not self._closed:
            self.live -= size
            heappush(self._waiting.setdefault(size, []), address)

    def release(self) -> None:
        """Let every block that waits go back to the device, when nothing that was launched can read it any more."""
        self.stream.synchronize()
        for size, stock in self._waiting.items():
            for address in stock:
                self.driver.free(address)
                self.held -= size
        self._waiting.clear()

    def close(self) -> None:
        """Nothing of the pool is used any more."""
        self._closed = True
        self.driver.close()

    def _more(self, size: int) -> int:
        try:
            return self._asked(size)
        except NoMemory:
            self.release()
            self.refused.append(size)
            return self._asked(size)

    def _asked(self, size: int) -> int:
        if self.limit is not None and self.held + size > self.limit:
            raise NoMemory(size)
        address = self.driver.allocate(size)
        self.held += size
        return address


class Block:
    """Memory of the pool, given back when nothing holds it any more."""

    __slots__ = ("address", "pool", "size")

    def __init__(self, pool: Pool, address: int, size: int) -> None:
        self.pool = pool
        self.address = address
        self.size = size

    def __del__(self) -> None:
        self.pool.give_back(self.address, self.size)


@define(eq=False)
class _Small:
    """A block cut into places of `SMALL` bytes, and the copy of it that the host has."""

    block: Block
    free: list[int] = field(init=False)
    _copy: NDArray[np.uint8] = field(init=False)
    _copied: int = field(default=-1, init=False)  # `writes` of the pool when it was made

    def __attrs_post_init__(self) -> None:
        self.free = list(range(_SMALL_COUNT))
        self._copy = np.zeros(SMALL_BLOCK, np.uint8)
        self.block.pool.stream.fill(self.block.address, 0, self._copy.nbytes)

    def bytes_at(self, place: int) -> NDArray[np.uint8]:
        pool = self.block.pool
        if self._copied != pool.writes:
            pool.stream.copy_out(self._copy, self.block.address)
            self._copied = pool.writes
            pool.faults.check()
        return self._copy[place * SMALL : (place + 1) * SMALL]


class Place:
    """One place of a block of small arrays."""

    __slots__ = ("address", "number", "small")

    def __init__(self, small: _Small, number: int) -> None:
        self.small = small
        self.number = number
        self.address = small.block.address + number * SMALL

    @property
    def pool(self) -> Pool:
        return self.small.block.pool

    def __del__(self) -> None:
        heappush(self.small.free, self.number)


class DeviceArray:
    """A tensor on a device, in row-major order from byte `offset` of memory that it holds on to.

    `dtype` is that of its elements on the host, where bf16 is float32 with rounded values. `narrow` is the same tensor
    cast to a narrower dtype, where there is one, and `squares` f64 numbers whose sum is that of its squares; they go
    with it.
    """

    __slots__ = ("memory", "narrow", "offset", "squares", "type")

    def __init__(self, type: TensorType, memory: Block | Place, offset: int) -> None:
        self.type = type
        self.memory = memory
        self.offset = offset
        self.narrow: DeviceArray | None = None
        self.squares: DeviceArray | None = None

    @property
    def address(self) -> int:
        return self.memory.address + self.offset

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return NUMPY_DTYPE[self.type.dtype]

    def __getitem__(self, row: int) -> DeviceArray:
        """The part of one place along the first axis: the same memory."""
        part = TensorType(self.type.shape[1:], self.type.dtype)
        return DeviceArray(part, self.memory, self.offset + row * part.nbytes)

    def __float__(self) -> float:
        return float(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def numpy(self) -> NDArray[Any]:
        """A copy on the host, when all that writes it has run. `E-VALUE-101` where a kernel met an index outside its
        axis and that was not told yet.
        """
        stored = np.empty(self.type.size, stored_dtype(self.type))
        if isinstance(self.memory, Place):
            seen = self.memory.small.bytes_at(self.memory.number)
            stored[:] = seen[self.offset : self.offset + stored.nbytes].view(stored.dtype)
        else:
            self.memory.pool.stream.copy_out(stored, self.address)
            self.memory.pool.faults.check()
        return from_stored(stored, self.type)


def as_one_axis(tensor: DeviceArray) -> DeviceArray:
    """The same memory as one axis."""
    return DeviceArray(TensorType((tensor.type.size,), tensor.type.dtype), tensor.memory, tensor.offset)


def stored_dtype(type: TensorType) -> np.dtype[Any]:
    """How an element lies on the device: bf16 as the 16 bits that it is."""
    return np.dtype(np.uint16) if type.dtype == "bf16" else NUMPY_DTYPE[type.dtype]


def to_stored(array: NDArray[Any], type: TensorType) -> NDArray[Any]:
    """A host array of the type as it lies on the device: contiguous, bf16 as the upper halves of its float32."""
    whole = np.ascontiguousarray(array)
    if type.dtype != "bf16":
        return whole
    return (whole.view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def from_stored(stored: NDArray[Any], type: TensorType) -> NDArray[Any]:
    """The host array of what lies on the device; it may be the same memory."""
    if type.dtype == "bf16":
        stored = (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored.reshape(type.shape)
