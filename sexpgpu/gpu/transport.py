"""How a rank's gradients leave its device for other machines, and how their sums come back.

The sums come back in one copy, into one block, and go from there to arrays that may be written over. Gradients that
travel as bf16 are rounded on the device, into another block that goes out in one copy; what rounding takes from a
step's gradient is added to that of the next step, so that nothing is lost for good (error feedback: Seide et al.,
"1-bit stochastic gradient descent", Interspeech 2014). These blocks last from the first step to the end.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from sexpgpu.gpu.arrays import DeviceArrays
from sexpgpu.gpu.memory import ALIGNMENT, Block, DeviceArray, as_one_axis, block_size, stored_dtype, to_stored
from sexpgpu.gpu.transfer import copy_array
from sexpgpu.runtime.engine import Array
from sexpgpu.tensortype import TensorType

Types = Mapping[str, TensorType]


@define(eq=False)
class DeviceTransport:
    """`Transport` of one device, for gradients of these types; with `rounding` those in f32 are rounded."""

    arrays: DeviceArrays
    types: Types
    rounding: bool
    _sums: Block = field(init=False)
    _bits: Block | None = field(default=None, init=False)
    _errors: dict[str, DeviceArray] = field(factory=dict, init=False)
    _fresh: dict[str, DeviceArray] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        pool = self.arrays.pool
        self._sums = pool.block(_end(self.types))
        rounded = rounded_types(self.types) if self.rounding else {}
        if rounded:
            self._bits = pool.block(_end(_as_bf16(rounded)))
        for name, type in rounded.items():
            self._errors[name] = error = pool.array(type)
            pool.stream.fill(error.address, 0, type.nbytes)
            pool.writes += 1

    def rounded(self, gradients: dict[str, DeviceArray]) -> dict[str, Array]:
        if not gradients:
            return {}
        assert self._bits is not None
        types = _as_bf16(rounded_types(self.types))
        offsets = _offsets(types)
        for name in list(gradients):
            gradient = as_one_axis(gradients.pop(name))
            bits = DeviceArray(TensorType((gradient.type.size,), "bf16"), self._bits, offsets[name])
            rounding = self.arrays.kernels("rounding", (gradient.type,))
            _, self._fresh[name] = rounding([gradient, as_one_axis(self._errors[name])], [bits, None])
        whole = np.empty(_end(types), np.uint8)
        self.arrays.pool.stream.copy_out(whole, self._bits.address)
        return {name: _part(whole, offsets[name], types[name]) for name in self._fresh}

    def commit(self) -> None:
        for name, error in self._fresh.items():
            self._errors[name] = DeviceArray(self._errors[name].type, error.memory, error.offset)
        self._fresh = {}

    def errors(self) -> dict[str, Array]:
        return {name: self.arrays.host(error) for name, error in self._errors.items()}

    def take(self, errors: Mapping[str, Array]) -> None:
        pool = self.arrays.pool
        for name in self._errors.keys() & errors.keys():  # a parameter that is frozen now has no gradient
            array = errors[name]
            pool.stream.copy_in(self._errors[name].address, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
            pool.writes += 1

    def placed(self, sums: Mapping[str, Array]) -> dict[str, DeviceArray]:
        offsets = _offsets(self.types)
        whole = np.zeros(_end(self.types), np.uint8)
        for name, array in sums.items():
            _part(whole, offsets[name], self.types[name])[...] = to_stored(array, self.types[name])
        pool = self.arrays.pool
        pool.stream.copy_in(self._sums.address, whole)
        pool.writes += 1
        # An update may write its parameter over the gradient, which then outlasts the next sums in that block.
        found = {name: pool.array(self.types[name]) for name in sums}
        for name, own in found.items():
            copy_array(pool, own, DeviceArray(self.types[name], self._sums, offsets[name]))
        return found


def transport_bytes(types: Types, rounding: bool) -> int:
    """What the blocks of a device's transport take of its pool."""
    rounded = rounded_types(types) if rounding else {}
    bits = block_size(_end(_as_bf16(rounded))) if rounded else 0
    # A gradient gives way to the next step's error, which stands beside the last one until the step is kept.
    errors = sum(block_size(type.nbytes) for type in rounded.values())
    return block_size(_end(types)) + bits + errors


def rounded_types(types: Types) -> dict[str, TensorType]:
    """The gradients that travel as bf16, where any does."""
    return {name: type for name, type in types.items() if type.dtype == "f32"}


def _as_bf16(types: Types) -> dict[str, TensorType]:
    return {name: TensorType(type.shape, "bf16") for name, type in types.items()}


def _offsets(types: Types) -> dict[str, int]:
    """Where each array begins in a block that holds them all."""
    offsets, end = {}, 0
    for name, type in types.items():
        offsets[name] = end
        end += -(-type.nbytes // ALIGNMENT) * ALIGNMENT
    return offsets


def _end(types: Types) -> int:
    return max(sum(-(-type.nbytes // ALIGNMENT) * ALIGNMENT for type in types.values()), ALIGNMENT)


def _part(whole: NDArray[np.uint8], offset: int, type: TensorType) -> Array:
    """One array of a block's copy on the host, as it lies on the device: the same memory."""
    return whole[offset : offset + type.nbytes].view(stored_dtype(type)).reshape(type.shape)
