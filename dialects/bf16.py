"""bfloat16 in NumPy, which has no such dtype: float32 arrays with values rounded to the upper 16 bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def round_bf16(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """A new array of the nearest bfloat16 values, ties to even; infinities and NaN stay what they are."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    rounded &= np.uint32(0xFFFF0000)
    result = rounded.view(np.float32)
    missing = np.isnan(array)
    if missing.any():
        # Adding the rounding term to a NaN's payload could carry into the sign or make an infinity of it.
        result[missing] = np.nan
    return result.reshape(array.shape)


_STRETCH = 1 << 15


def round_in_place(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """`round_bf16` into the array itself, which it gives back."""
    if not array.flags.c_contiguous:
        np.copyto(array, round_bf16(array))
        return array
    flat = array.reshape(-1)
    for start in range(0, flat.size, _STRETCH):
        part = flat[start : start + _STRETCH]
        part[:] = round_bf16(part)
    return array
