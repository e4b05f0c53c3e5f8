"""The loop's arithmetic on tensors of a device: kernels over elements in a row, and numbers that the host reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from sexpgpu.data.arrays import NUMPY_DTYPE
from sexpgpu.experiment import Output, OutputRole
from sexpgpu.gpu.memory import DeviceArray, Pool, as_one_axis
from sexpgpu.gpu.program import DeviceProgram, on_host
from sexpgpu.gpu.transfer import copy_array, upload, upload_named
from sexpgpu.plan.build import VECTOR
from sexpgpu.runtime.planned import Captured, Planned
from sexpgpu.tensortype import DType, TensorType

Function = Literal["plus", "times", "over", "rounding", "squares", "total", "finite", "norm", "factors"]
"""Of tensors x, y of one axis and a number a: x · a; of x + y in f32 the nearest bf16 and what it lacks, in f32. Of any
number of tensors, each: x + y, x / a, Σ x², as f64[], Σ x of f64, and whether x is finite, as bool[]. Of sums of
squares, √Σ. Of a norm and limits in f64 and f32 what clipping multiplies by, in f64, f32 and bf16.
"""
Types = tuple[TensorType, ...]
_NUMBER = TensorType((), "f64")

_OF_NUMPY: dict[np.dtype[Any], DType] = {dtype: name for name, dtype in NUMPY_DTYPE.items() if name != "bf16"}


class Kernels(Protocol):
    """Compiled functions of the loop's."""

    def __call__(self, function: Function, types: Types) -> DeviceProgram:
        """The function of tensors of those types, each with one axis; of the first where the others follow from it."""
        ...


def sums_type(count: int) -> TensorType:
    """Room for so many numbers in f64, each at a place that kernels may write alone."""
    return TensorType((count * VECTOR // _NUMBER.nbytes,), "f64")


@frozen(eq=False)
class DeviceArrays:
    """`Arrays` of one device. Only kernels of many tensors write in place, each over its first."""

    pool: Pool
    kernels: Kernels
    planned: Planned | None = None
    _numbers: dict[tuple[str, DType], tuple[float, DeviceArray]] = field(factory=dict, init=False)  # by what they are
    _sums: dict[int, DeviceArray] = field(factory=dict, init=False)  # of squares, by how many

    def place(self, arrays: Mapping[str, NDArray[Any]], dtypes: Mapping[str, DType]) -> dict[str, DeviceArray]:
        types = {
            name: TensorType(array.shape, dtypes.get(name) or _OF_NUMPY[array.dtype]) for name, array in arrays.items()
        }
        return upload_named(self.pool, arrays, types)

    def host(self, tensor: DeviceArray | NDArray[Any]) -> NDArray[Any]:
        return on_host(tensor)

    def take(self, outputs: Sequence[Output], roles: frozenset[OutputRole]) -> list[DeviceArray | None]:
        """Nothing: the pool gives the same blocks again by itself."""
        return [None] * len(outputs)

    def give(self, tensor: DeviceArray) -> None:
        """The pool takes it back when nobody holds it."""

    def plus(self, left: Sequence[DeviceArray], right: Sequence[DeviceArray]) -> list[DeviceArray]:
        return self._each("plus", left, [as_one_axis(tensor) for tensor in right])

    def together(self) -> AbstractContextManager[None]:
        return self.pool.stream.together()

    def start(self) -> None:
        self.pool.stream.flush()

    def settle(self) -> None:
        self.pool.stream.synchronize()
        self.pool.faults.check()

    @property
    def waits(self) -> bool:
        return True

    def times(self, tensor: DeviceArray, factor: float) -> DeviceArray:
        return self._elements("times", tensor, np.array(factor, tensor.dtype))

    def over(self, tensors: Sequence[DeviceArray], divisor: float) -> list[DeviceArray]:
        return self._each("over", tensors, [self._number("divisor", divisor, tensor.type.dtype) for tensor in tensors])

    def with_row(self, current: DeviceArray, committed: DeviceArray, row: int, value: DeviceArray) -> DeviceArray:
        fresh = current
        if current is committed:
            fresh = self.pool.array(current.type)
            copy_array(self.pool, fresh, current)
        copy_array(self.pool, fresh[row], value)
        return fresh

    def global_norm(self, gradients: Iterable[DeviceArray]) -> DeviceArray:
        every = [gradient for gradient in gradients if gradient.type.size]
        known = [gradient.squares for gradient in every if gradient.squares is not None]
        rest = [gradient for gradient in every if gradient.squares is None]
        if not every:
            return self._number("nothing", 0.0, "f64")
        sums = self._sums_of(len(every))
        places = [DeviceArray(_NUMBER, sums.memory, sums.offset + number * VECTOR) for number in range(len(every))]
        self._folded("squares", rest, places[: len(rest)])
        self._folded("total", known, places[len(rest) :])
        for gradient in every:
            gradient.squares = None
        (norm,) = self.kernels("norm", (sums.type,))([sums])
        return norm

    def clip(self, gradients: dict[str, DeviceArray], norm: DeviceArray, limit: float) -> None:
        factors = dict(zip(("f64", "f32", "bf16"), self.factors(norm, limit), strict=True)) if gradients else {}
        for path, gradient in gradients.items():
            gradients[path] = self._elements("times", gradient, factors[gradient.type.dtype])

    def factors(
        self, norm: DeviceArray, limit: float, into: Sequence[DeviceArray | None] = ()
    ) -> Sequence[DeviceArray]:
        """What gradients of f64, f32 and bf16 are multiplied by to be clipped: numbers of these types."""
        limits = [self._number("limit", limit, "f64"), self._number("limit", limit, "f32")]
        return self.kernels("factors", (norm.type,))([norm, *limits], into)

    def finite(self, tensors: Mapping[str, DeviceArray]) -> dict[str, DeviceArray]:
        floats = {name: tensor for name, tensor in tensors.items() if tensor.type.is_float and tensor.type.size}
        return dict(zip(floats, self._folded("finite", list(floats.values())), strict=True))

    def first_not_finite(self, tensors: Mapping[str, DeviceArray]) -> str | None:
        return next((name for name, finite in self.finite(tensors).items() if not finite.numpy()), None)

    def release(self) -> None:
        self.pool.release()

    def free_bytes(self) -> int | None:
        return self.pool.driver.memory()[0]

    def refusals(self) -> list[int]:
        told = list(self.pool.refused)
        self.pool.refused.clear()
        return told

    def library_news(self) -> list[str]:
        libraries = self.pool.driver.libraries
        return [] if libraries is None else libraries.news()

    def captured(self) -> Captured:
        captures = self.pool.stream.captures
        return Captured(captures.held, captures.peak, captures.reserved)

    def chosen(self) -> Mapping[str, str]:
        libraries = self.pool.driver.libraries
        chosen = {} if libraries is None else libraries.chosen
        return {str(what): way for what, way in chosen.items()}

    def peak_bytes(self) -> int:
        return self.pool.peak

    def held_bytes(self) -> int:
        return self.pool.held

    def _elements(self, function: Function, tensor: DeviceArray, other: DeviceArray | NDArray[Any]) -> DeviceArray:
        """A function that gives an element for each."""
        flat = as_one_axis(tensor)
        (result,) = self.kernels(function, (flat.type,))([flat, other])
        return DeviceArray(tensor.type, result.memory, result.offset)

    def _each(
        self, function: Function, tensors: Sequence[DeviceArray], others: Sequence[DeviceArray]
    ) -> list[DeviceArray]:
        """A function that gives an element for each of every tensor, all in one call, over the tensors themselves."""
        made = list(tensors)
        places = [place for place, tensor in enumerate(tensors) if tensor.type.size]
        if not places:
            return made
        flat = [as_one_axis(tensors[place]) for place in places]
        given = [array for x, place in zip(flat, places, strict=True) for array in (x, others[place])]
        into = [tensor if tensor.address % VECTOR == 0 else None for tensor in flat]
        results = self.kernels(function, tuple([x.type for x in flat]))(given, into)
        for place, result in zip(places, results, strict=True):
            made[place] = DeviceArray(tensors[place].type, result.memory, result.offset)
        return made

    def _folded(
        self, function: Function, tensors: Sequence[DeviceArray], into: Sequence[DeviceArray | None] = ()
    ) -> list[DeviceArray]:
        """A function that gives a number for each, all in one call; of tensors that have elements."""
        flat = [as_one_axis(tensor) for tensor in tensors]
        return self.kernels(function, tuple([x.type for x in flat]))(flat, into) if flat else []

    def _number(self, what: str, value: float, dtype: DType) -> DeviceArray:
        """A number that kernels take step after step, uploaded when it is another than before."""
        kept = self._numbers.get((what, dtype))
        if kept is None or kept[0] != value:
            array = np.array(value, NUMPY_DTYPE[dtype])
            kept = self._numbers[what, dtype] = value, upload(self.pool, array, TensorType((), dtype))
        return kept[1]

    def _sums_of(self, count: int) -> DeviceArray:
        """Where so many sums of squares go, with zeros behind each."""
        if count not in self._sums:
            sums = self._sums[count] = self.pool.array(sums_type(count))
            self.pool.stream.fill(sums.address, 0, sums.type.nbytes)
            self.pool.writes += 1
        return self._sums[count]
