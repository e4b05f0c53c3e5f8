"""Where the tensors of a run live and the little arithmetic that the loop itself does on them.

A graph's inputs and results are arrays of its engine: NumPy's on a CPU, others where a device has memory of its own.
The loop holds them without looking inside; what it needs to know it asks of `Arrays`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np
from attrs import define, field

from sexpgpu.experiment import Output, OutputRole
from sexpgpu.runtime import norm
from sexpgpu.runtime.engine import Array, Tensor
from sexpgpu.runtime.memory import Spare, held_bytes, peak_bytes
from sexpgpu.runtime.planned import Captured, Planned
from sexpgpu.tensortype import DType


class NoMemory(Exception):
    """The device has not so many bytes to give, all that could be let go included."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(nbytes)
        self.nbytes = nbytes


class Arrays(Protocol):
    """The arithmetic of one engine's tensors.

    What is said to belong to the callee may be written over. Sums keep the order in which they are asked for, so that
    results do not depend on threads or blocks.
    """

    def place(self, arrays: Mapping[str, Array], dtypes: Mapping[str, DType]) -> dict[str, Tensor]:
        """Host arrays to where graphs read them; `dtypes` has those that NumPy cannot tell: bf16."""
        ...

    def host(self, tensor: Tensor) -> Array:
        """The values as a NumPy array, which may be the tensor itself."""
        ...

    def take(self, outputs: Sequence[Output], roles: frozenset[OutputRole]) -> list[Tensor | None]:
        """Memory for those results of a graph that have one of the roles, where some is to be used again."""
        ...

    def give(self, tensor: Tensor) -> None:
        """Take back a tensor that nobody reads any more."""
        ...

    def plus(self, left: Sequence[Tensor], right: Sequence[Tensor]) -> list[Tensor]:
        """left + right, of each pair; those in `left` belong to the callee."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """What is asked for inside may wait until the host reads something, and then run as one."""
        ...

    def start(self) -> None:
        """Begin with what was asked for and waits."""
        ...

    def settle(self) -> None:
        """Wait for all that was asked for. `E-VALUE-101` where an index was met outside its axis and not told yet."""
        ...

    @property
    def waits(self) -> bool:
        """Whether asking for something is quick and reading a number waits until the device has done all before it, so
        that a step had better read none until all of it was asked for.
        """
        ...

    def times(self, tensor: Tensor, factor: float) -> Tensor:
        """Every element times a number of its type; `tensor` belongs to the callee."""
        ...

    def over(self, tensors: Sequence[Tensor], divisor: float) -> list[Tensor]:
        """Every element of each divided by a number of its type; they belong to the callee."""
        ...

    def with_row(self, current: Tensor, committed: Tensor, row: int, value: Tensor) -> Tensor:
        """`current` with another row; a copy while it still is `committed`, which stays as it is."""
        ...

    def global_norm(self, gradients: Iterable[Tensor]) -> Tensor:
        """sqrt of the sum of all squares: these in the gradients' type, sums of thousands in f64: f64[]."""
        ...

    def clip(self, gradients: dict[str, Tensor], norm: Tensor, limit: float) -> None:
        """Scale all gradients by min(1, limit / (norm + 1e-6)); they belong to the callee."""
        ...

    def finite(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whether each tensor holds no NaN and no infinity: bool[]."""
        ...

    def first_not_finite(self, tensors: Mapping[str, Tensor]) -> str | None:
        """The name of the first tensor that holds a NaN or an infinity."""
        ...

    def release(self) -> None:
        """Let go of all memory that waits to be used again."""
        ...

    @property
    def planned(self) -> Planned | None:
        """What the run was said to hold at once, where anything was said."""
        ...

    def free_bytes(self) -> int | None:
        """Bytes that the device has to give now, where it tells."""
        ...

    def refusals(self) -> list[int]:
        """The sizes of requests that were refused since this was asked last, whether or not a second try met them."""
        ...

    def library_news(self) -> list[str]:
        """What libraries of the device were chosen for, and what they refused, since this was asked last: lines."""
        ...

    def captured(self) -> Captured | None:
        """What captured launches take, on a device that has any."""
        ...

    def chosen(self) -> Mapping[str, str]:
        """What was measured to be faster on the device and is used since, by what it computes."""
        ...

    def peak_bytes(self) -> int:
        """The most memory that was in use at once, without captured launches."""
        ...

    def held_bytes(self) -> int:
        """Memory that is in use now, without captured launches."""
        ...


@define
class HostArrays:
    """NumPy arrays in the memory of this process."""

    _spare: Spare = field(factory=Spare, init=False)

    def place(self, arrays: Mapping[str, Array], dtypes: Mapping[str, DType]) -> dict[str, Tensor]:
        return dict(arrays)

    def host(self, tensor: Tensor) -> Array:
        array: Array = tensor
        return array

    def take(self, outputs: Sequence[Output], roles: frozenset[OutputRole]) -> list[Tensor | None]:
        return list(self._spare.take(outputs, roles))

    def give(self, tensor: Tensor) -> None:
        self._spare.give(tensor)

    def plus(self, left: Sequence[Tensor], right: Sequence[Tensor]) -> list[Tensor]:
        # In place where that is possible: a step's gradients are as large as the model.
        return [np.asarray(np.add(x, y, out=_writeable(x))) for x, y in zip(left, right, strict=True)]

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def start(self) -> None:
        """Nothing waits."""

    def settle(self) -> None:
        """All has been done, and told."""

    @property
    def waits(self) -> bool:
        return False

    def times(self, tensor: Tensor, factor: float) -> Tensor:
        return np.asarray(np.multiply(tensor, tensor.dtype.type(factor), out=_writeable(tensor)))

    def over(self, tensors: Sequence[Tensor], divisor: float) -> list[Tensor]:
        return [np.asarray(np.divide(x, x.dtype.type(divisor), out=_writeable(x))) for x in tensors]

    def with_row(self, current: Tensor, committed: Tensor, row: int, value: Tensor) -> Tensor:
        # The first row to change makes the copy, so that a refused step leaves the committed buffer as it was.
        fresh = current.copy() if current is committed else current
        fresh[row] = value
        return fresh

    def global_norm(self, gradients: Iterable[Tensor]) -> Tensor:
        return np.float64(norm.global_norm(gradients))

    def clip(self, gradients: dict[str, Tensor], norm_: Tensor, limit: float) -> None:
        norm.clip(gradients, float(norm_), limit)

    def finite(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: np.bool_(norm.is_finite(tensor)) for name, tensor in tensors.items()}

    def first_not_finite(self, tensors: Mapping[str, Tensor]) -> str | None:
        return norm.first_not_finite(tensors)

    def release(self) -> None:
        self._spare = Spare()

    @property
    def planned(self) -> Planned | None:
        return None

    def free_bytes(self) -> int | None:
        return None

    def refusals(self) -> list[int]:
        return []

    def library_news(self) -> list[str]:
        return []

    def captured(self) -> Captured | None:
        return None

    def chosen(self) -> Mapping[str, str]:
        return {}

    def peak_bytes(self) -> int:
        return peak_bytes()

    def held_bytes(self) -> int:
        return held_bytes()


def _writeable(array: Array) -> Array | None:
    return array if array.flags.writeable else None
