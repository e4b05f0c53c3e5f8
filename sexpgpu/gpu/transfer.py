"""Host arrays to the device: small ones of one call together in one copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sexpgpu.gpu.memory import DeviceArray, Pool, to_stored
from sexpgpu.tensortype import TensorType

PACKED = 4096
"""Bytes up to which an array travels with others; each then starts at a multiple of `_STEP`."""
_STEP = 64


def upload(pool: Pool, array: NDArray[Any], type: TensorType) -> DeviceArray:
    """One array, in memory of its own."""
    target = DeviceArray(type, pool.block(type.nbytes), 0)
    pool.stream.copy_in(target.address, to_stored(array, type))
    pool.writes += 1
    return target


def upload_all(pool: Pool, arrays: Sequence[tuple[NDArray[Any], TensorType]]) -> list[DeviceArray]:
    """Arrays of given types, in order; the small ones share one block."""
    placed: list[DeviceArray | None] = [None] * len(arrays)
    small = [number for number, (_, type) in enumerate(arrays) if type.nbytes <= PACKED]
    offsets: list[int] = []
    size = 0
    for number in small:
        offsets.append(size)
        size += -(-arrays[number][1].nbytes // _STEP) * _STEP
    if small:
        packed = np.zeros(size, np.uint8)
        block = pool.block(size)
        for number, offset in zip(small, offsets, strict=True):
            array, type = arrays[number]
            packed[offset : offset + type.nbytes] = to_stored(array, type).reshape(-1).view(np.uint8)
            placed[number] = DeviceArray(type, block, offset)
        pool.stream.copy_in(block.address, packed)
        pool.writes += 1
    return [
        upload(pool, array, type) if there is None else there
        for there, (array, type) in zip(placed, arrays, strict=True)
    ]


def upload_named(
    pool: Pool, arrays: Mapping[str, NDArray[Any]], types: Mapping[str, TensorType]
) -> dict[str, DeviceArray]:
    """`upload_all` by names."""
    placed = upload_all(pool, [(array, types[name]) for name, array in arrays.items()])
    return dict(zip(arrays, placed, strict=True))


def copy_array(pool: Pool, target: DeviceArray, source: DeviceArray) -> None:
    """Make `target` hold what `source` does; both are of one type."""
    pool.stream.copy(target.address, source.address, target.type.nbytes)
    pool.writes += 1
