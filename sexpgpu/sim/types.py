"""PTX's scalar types: width, how a register of the type is stored, and how an instruction sees it.

A register holds bits: an unsigned array of its width, or booleans for a predicate. An instruction takes a view of
those bits in its own type. The 16-bit floats have no NumPy type that fits (bfloat16) or that is fast (float16): they
stay bits and are widened to float32 where they are computed with.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

Array = npt.NDArray[Any]
Class = Literal["int", "uint", "bits", "float", "pred"]


@frozen
class Scalar:
    """A PTX type: `dtype` is what arithmetic sees, `storage` what a register of this width holds."""

    name: str
    kind: Class
    bits: int
    dtype: np.dtype[Any]
    storage: np.dtype[Any]

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return max(self.bits // 8, 1)

    @property
    def signed(self) -> bool:
        return self.kind == "int"


def _scalar(name: str, kind: Class, bits: int, dtype: Any) -> Scalar:
    return Scalar(name, kind, bits, np.dtype(dtype), STORAGE[bits])


STORAGE: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}
WIDE: dict[int, np.dtype[Any]] = {16: np.dtype(np.uint16), 32: np.dtype(np.uint32), 64: np.dtype(np.uint64)}

TYPES: dict[str, Scalar] = {
    t.name: t
    for t in (
        _scalar("pred", "pred", 1, np.bool_),
        *(_scalar(f"u{n}", "uint", n, f"u{n // 8}") for n in (8, 16, 32, 64)),
        *(_scalar(f"s{n}", "int", n, f"i{n // 8}") for n in (8, 16, 32, 64)),
        *(_scalar(f"b{n}", "bits", n, f"u{n // 8}") for n in (8, 16, 32, 64)),
        _scalar("f16", "float", 16, np.uint16),
        _scalar("bf16", "float", 16, np.uint16),
        _scalar("f32", "float", 32, np.float32),
        _scalar("tf32", "float", 32, np.float32),
        _scalar("f64", "float", 64, np.float64),
        _scalar("f16x2", "float", 32, np.uint32),
        _scalar("bf16x2", "float", 32, np.uint32),
        _scalar("f32x2", "float", 64, np.uint64),
        _scalar("u16x2", "uint", 32, np.uint32),
        _scalar("s16x2", "int", 32, np.uint32),
        _scalar("e4m3x2", "float", 16, np.uint16),
        _scalar("e5m2x2", "float", 16, np.uint16),
    )
}
U8, U16, U32, U64 = TYPES["u8"], TYPES["u16"], TYPES["u32"], TYPES["u64"]
S32, S64, B16, B32, B64 = TYPES["s32"], TYPES["s64"], TYPES["b16"], TYPES["b32"], TYPES["b64"]
F32, F64, PRED = TYPES["f32"], TYPES["f64"], TYPES["pred"]


def last_type(parts: tuple[str, ...]) -> Scalar | None:
    """The type that an opcode ends in: of `add`, `rn`, `f32` it is f32."""
    for part in reversed(parts):
        if part in TYPES:
            return TYPES[part]
    return None
