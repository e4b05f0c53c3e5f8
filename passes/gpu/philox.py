"""Philox4x32-10 in registers: the words behind random numbers, equal to those of `sexpgpu.philox`.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

from collections.abc import Sequence

from sexpgpu.passes.gpu.kernel import Kernel, Reg
from sexpgpu.tensortype import DType

ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def words(k: Kernel, key: int, size: int, numbers: Reg, counter: Sequence[Reg]) -> tuple[Reg, Reg]:
    """The first two words of elements `numbers` (i64) of a tensor of `size`, under (microbatch, step, trip)."""
    lanes = numbers.lanes
    microbatch, step, trip = counter
    first = k.op("arith.muli", k.op("arith.extsi", microbatch, type="i64"), k.const(size, "i64"))
    element = k.op("arith.addi", numbers, k.splat(first, lanes))
    low = k.op("arith.trunci", element, type="i32")
    high = k.op("arith.trunci", k.op("arith.shrui", element, k.const(32, "i64", lanes)), type="i32")
    state = [low, high, k.splat(step, lanes), k.splat(trip, lanes)]
    keys = (key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF)
    for i in range(ROUNDS):
        state = _round(k, state, [(word + i * weyl) & 0xFFFFFFFF for word, weyl in zip(keys, _WEYL, strict=True)])
    return state[0], state[1]


def _round(k: Kernel, state: list[Reg], keys: list[int]) -> list[Reg]:
    c0, c1, c2, c3 = state
    low0, high0 = k.wide_product(c0, _MULTIPLIERS[0])
    low1, high1 = k.wide_product(c2, _MULTIPLIERS[1])
    return [_xor(k, high1, c1, keys[0]), low1, _xor(k, high0, c3, keys[1]), low0]


def _xor(k: Kernel, a: Reg, b: Reg, key: int) -> Reg:
    return k.op("arith.xori", k.op("arith.xori", a, b), k.const(key, "i32", a.lanes))


def uniform(k: Kernel, given: tuple[Reg, Reg], dtype: DType) -> Reg:
    """Numbers in [0, 1): 24 bits of the first word for f32, 8 for bf16, 53 of both for f64."""
    low, high = given
    lanes = low.lanes
    if dtype == "f64":
        shifted = k.op("arith.shli", k.op("arith.extui", high, type="i64"), k.const(32, "i64", lanes))
        whole = k.op("arith.ori", k.op("arith.extui", low, type="i64"), shifted)
        top = k.op("arith.shrui", whole, k.const(11, "i64", lanes))
        return k.op("arith.mulf", k.op("arith.uitofp", top, type="f64"), k.const(2.0**-53, "f64", lanes))
    bits = 8 if dtype == "bf16" else 24
    top = k.op("arith.shrui", low, k.const(32 - bits, "i32", lanes))
    return k.op("arith.mulf", k.op("arith.uitofp", top, type="f32"), k.const(2.0**-bits, "f32", lanes))
