"""Random numbers: each element is a function of the key and of (element, step, trip), so nothing is ever
replayed.

The element counts over the whole step (microbatch * size + flat index): one microbatch of 8 and eight of 1
draw the same numbers. Bits come from Philox4x32-10 with the counter words (element low, element high, step,
trip).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sexpgpu.diag import error
from sexpgpu.dialects.arrays import plain
from sexpgpu.dialects.opdef import Array, Attr, OpDef, Random, no_cotangent, sample
from sexpgpu.dialects.rules import require_dtype, require_sizes
from sexpgpu.philox import philox_words
from sexpgpu.tensortype import FLOATS, DType, TensorType

Ints = tuple[int, ...]
_COUNTER = TensorType((3,), "i32")


def _require(op: str, counter: TensorType, shape: Ints) -> None:
    require_sizes(op, shape)
    if counter != _COUNTER:
        raise error(
            "E-SHAPE-014",
            f"{op}: the counter is not (microbatch, step, trip)",
            expected=f"counter: {_COUNTER}",
            actual=f"counter: {counter}",
        )


def _bits_infer(counter: TensorType, *, key: int, shape: Ints) -> TensorType:
    _require("random_bits", counter, shape)
    return TensorType(shape, "i32")


def _uniform_infer(counter: TensorType, *, key: int, shape: Ints, dtype: DType) -> TensorType:
    _require("random_uniform", counter, shape)
    type = TensorType(shape, dtype)
    require_dtype("random_uniform", "the result", type, FLOATS)
    return type


def _words(counter: Array, key: int, shape: Ints, words: int) -> NDArray[np.uint32]:
    """The leading words of every element: u32[words, size]."""
    size = math.prod(shape)
    microbatch, step, trip = (int(n) for n in counter)
    return philox_words(key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF, microbatch * size, size, step, trip, words)


def _bits(counter: Array, *, key: int, shape: Ints) -> Array:
    return _words(counter, key, shape, 1).view(np.int32).reshape(shape)


def _uniform(counter: Array, *, key: int, shape: Ints, dtype: DType) -> Array:
    if dtype == "f64":
        low, high = _words(counter, key, shape, 2)
        whole = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
        fraction: Array = (whole >> np.uint64(11)) * 2.0**-53
        return fraction.reshape(shape)
    (word,) = _words(counter, key, shape, 1)
    bits = 8 if dtype == "bf16" else 24  # more would round up to 1
    numbers: Array = (word >> np.uint32(32 - bits)).astype(np.float32)
    numbers *= np.float32(2.0**-bits)
    return numbers.reshape(shape)


OPERATIONS = (
    OpDef(
        name="random_bits",
        kind=Random(),
        operands=("counter",),
        attrs=(Attr("key", "int"), Attr("shape", "ints")),
        infer=_bits_infer,
        numpy=plain(_bits),
        vjp=None,
        samples=(
            sample("i32[3]", key=7, shape=(2, 3)),
            sample("i32[3]", key=2**64 - 5, shape=()),
            sample("i32[3]", key=-1, shape=(0,)),
        ),
        doc="32 random bits an element, as i32: the first word of Philox4x32-10",
    ),
    OpDef(
        name="random_uniform",
        kind=Random(),
        operands=("counter",),
        attrs=(Attr("key", "int"), Attr("shape", "ints"), Attr("dtype", "dtype")),
        infer=_uniform_infer,
        numpy=plain(_uniform),
        vjp=no_cotangent,
        samples=(
            sample("i32[3]", key=7, shape=(2, 3), dtype="f32"),
            sample("i32[3]", key=2**63, shape=(5,), dtype="f64"),
            sample("i32[3]", key=0, shape=(), dtype="bf16"),
        ),
        doc="uniform in [0, 1): the upper 24 bits of a word for f32, 53 of two words for f64, 8 for bf16",
    ),
)
