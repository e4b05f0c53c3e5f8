"""The type of a tensor: a static shape and a dtype name. Shared by the compiler, the data and the loop."""

from __future__ import annotations

import math
from typing import Literal, get_args

from attrs import frozen

DType = Literal["f32", "f64", "bf16", "i32", "i64", "u8", "bool"]
DTYPES: tuple[DType, ...] = get_args(DType)

FLOATS = frozenset({"f32", "f64", "bf16"})
INTEGERS = frozenset({"i32", "i64", "u8"})
_BYTES = {"f32": 4, "f64": 8, "bf16": 2, "i32": 4, "i64": 8, "u8": 1, "bool": 1}


@frozen(slots=True, cache_hash=True)
class TensorType:
    """Shape and dtype of a tensor; prints as `f32[12, 64]`, a scalar as `f32[]`."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in memory as the language counts them (bf16 takes 2)."""
        return self.size * _BYTES[self.dtype]

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def binary_size(nbytes: int) -> str:
    """Bytes in binary units, `50.8 MiB`."""
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
