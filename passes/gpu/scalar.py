"""Scalar functions in registers: what each `Pointwise.scalar` is in `arith` and `math`, for vectors too.

bf16 is computed in f32 and rounded after each operation, as the interpreter does; u8 is an i32 between 0 and 255;
bool is an i1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from sexpgpu.passes.gpu.kernel import FLOATS, Kernel, Reg
from sexpgpu.tensortype import DType

REGISTER = {"f32": "f32", "f64": "f64", "bf16": "f32", "i32": "i32", "i64": "i64", "u8": "i32", "bool": "i1"}
MEMORY = {"f32": "f32", "f64": "f64", "bf16": "bf16", "i32": "i32", "i64": "i64", "u8": "i8", "bool": "i8"}
"""The types in registers and in memory of each dtype."""

Function = Callable[[Kernel, tuple[Reg, ...], DType], Reg]


def loaded(k: Kernel, value: Reg, dtype: DType) -> Reg:
    """What was read from memory, as it is in a register."""
    match dtype:
        case "bf16":
            return k.op("arith.extf", value, type="f32")
        case "u8":
            return k.op("arith.extui", value, type="i32")
        case "bool":
            return k.compare("ne", value, k.const(0, "i8", value.lanes))
        case _:
            return value


def stored(k: Kernel, value: Reg, dtype: DType) -> Reg:
    """A value as it is written to memory."""
    match dtype:
        case "bf16":
            return k.op("arith.truncf", value, type="bf16")
        case "u8":
            return k.op("arith.trunci", value, type="i8")
        case "bool":
            return k.op("arith.extui", value, type="i8")
        case _:
            return value


def rounded(k: Kernel, value: Reg, dtype: DType) -> Reg:
    """The nearest value that the dtype has."""
    match dtype:
        case "bf16":
            return k.op("arith.extf", k.op("arith.truncf", value, type="bf16"), type="f32")
        case "u8":
            return k.op("arith.andi", value, k.const(255, "i32", value.lanes))
        case _:
            return value


def apply(k: Kernel, scalar: str, operands: tuple[Reg, ...], dtype: DType, attrs: Mapping[str, Any]) -> Reg:
    """The function `scalar` of operands of `dtype`, in the precision of registers."""
    if scalar == "cast":
        return cast(k, operands[0], dtype, attrs["dtype"])
    return FUNCTIONS[scalar](k, operands, dtype)


def combine(k: Kernel, how: str, a: Reg, b: Reg) -> Reg:
    """`add mul max min or and` of two registers, as reductions fold; NaN wins in max and min."""
    return k.op(_FOLDS[how][a.type not in FLOATS], a, b)


_FOLDS = {
    "add": ("arith.addf", "arith.addi"),
    "mul": ("arith.mulf", "arith.muli"),
    "max": ("arith.maximumf", "arith.maxsi"),
    "min": ("arith.minimumf", "arith.minsi"),
    "or": ("", "arith.ori"),
    "and": ("", "arith.andi"),
}


def cast(k: Kernel, x: Reg, dtype: DType, to: DType) -> Reg:
    """x of `dtype` in the registers of `to`, not yet rounded to it."""
    source, target = REGISTER[dtype], REGISTER[to]
    if to == "bool":
        return x if dtype == "bool" else k.compare("ne", x, k.const(0, source, x.lanes))
    if dtype == "bool":
        whole = k.op("arith.extui", x, type="i32")
        return cast(k, whole, "i32", to)
    if source == target:
        return x
    if source in FLOATS:
        if target in FLOATS:
            return k.op("arith.extf" if target == "f64" else "arith.truncf", x, type=target)
        return k.op("arith.fptosi", x, type=target)
    if target in FLOATS:
        return k.op("arith.sitofp", x, type=target)
    return k.op("arith.extsi" if target == "i64" else "arith.trunci", x, type=target)


def _like(k: Kernel, x: Reg, value: float) -> Reg:
    return k.const(value, x.type, x.lanes)


def _direct(on_floats: str, on_integers: str = "") -> Function:
    """One operation."""

    def write(k: Kernel, operands: tuple[Reg, ...], dtype: DType) -> Reg:
        return k.op(on_floats if operands[0].type in FLOATS else on_integers, *operands)

    return write


def _compare(how: str) -> Function:
    def write(k: Kernel, operands: tuple[Reg, ...], dtype: DType) -> Reg:
        # As a signed number of one bit, true is less than false.
        a, b = (k.op("arith.extui", x, type="i32") if x.type == "i1" else x for x in operands)
        return k.compare(how, a, b)

    return write


def _neg(k: Kernel, operands: tuple[Reg, ...], dtype: DType) -> Reg:
    (x,) = operands
    return k.op("arith.negf", x) if x.type in FLOATS else k.op("arith.subi", _like(k, x, 0), x)


def _abs(k: Kernel, operands: tuple[Reg, ...], dtype: DType) -> Reg:
    (x,) = operands
    return k.op("math.absf", x) if x.type in FLOATS else k.op("arith.maxsi", x, _neg(k, operands, dtype))


def _sign(k: Kernel, operands: tuple[Reg, ...], dtype: DType) -> Reg:
    (x,) = operands
    zero = _like(k, x, 0)
    below = k.select(k.compare("lt", x, zero), _like(k, x, -1), x)  # x itself is 0 or NaN
    return k.select(k.compare("gt", x, zero), _like(k, x, 1), below)


def _sigmoid(k: Kernel, operands: tuple[Reg, ...], dtype: DType) -> Reg:
    (x,) = operands
    one = _like(k, x, 1)
    return k.op("arith.divf", one, k.op("arith.addf", one, k.op("math.exp", k.op("arith.negf", x))))


def _rsqrt(k: Kernel, operands: tuple[Reg, ...], dtype: DType) -> Reg:
    (x,) = operands
    # In double precision the instruction gives a few digits only.
    if x.type == "f32":
        return k.op("math.rsqrt", x)
    return k.op("arith.divf", _like(k, x, 1), k.op("math.sqrt", x))


def _logical_not(k: Kernel, operands: tuple[Reg, ...], dtype: DType) -> Reg:
    (x,) = operands
    return k.op("arith.xori", x, _like(k, x, 1))


def _isfinite(k: Kernel, operands: tuple[Reg, ...], dtype: DType) -> Reg:
    (x,) = operands
    return k.compare("lt", k.op("math.absf", x), _like(k, x, math.inf))


def _relu(k: Kernel, operands: tuple[Reg, ...], dtype: DType) -> Reg:
    (x,) = operands
    return combine(k, "max", x, _like(k, x, 0))


def _square(k: Kernel, operands: tuple[Reg, ...], dtype: DType) -> Reg:
    (x,) = operands
    return combine(k, "mul", x, x)


def _reciprocal(k: Kernel, operands: tuple[Reg, ...], dtype: DType) -> Reg:
    (x,) = operands
    return k.op("arith.divf", _like(k, x, 1), x)


def _mod(k: Kernel, operands: tuple[Reg, ...], dtype: DType) -> Reg:
    """The remainder with the sign of y; of integers, 0 where y is 0."""
    x, y = operands
    zero = _like(k, x, 0)
    if x.type in FLOATS:
        rest = k.op("arith.remf", x, y)
        add = "arith.addf"
    else:
        safe = k.select(k.compare("eq", y, zero), _like(k, x, 1), y)
        rest = k.op("arith.remsi", x, safe)
        add = "arith.addi"
    # The remainder of the truncated quotient has the sign of x.
    opposite = k.op("arith.xori", k.compare("lt", rest, zero), k.compare("lt", y, zero))
    moved = k.op("arith.andi", opposite, k.compare("ne", rest, zero))
    return k.select(moved, k.op(add, rest, y), rest)


def _select(k: Kernel, operands: tuple[Reg, ...], dtype: DType) -> Reg:
    return k.select(*operands)


FUNCTIONS: dict[str, Function] = {
    "neg": _neg,
    "abs": _abs,
    "sign": _sign,
    "exp": _direct("math.exp"),
    "expm1": _direct("math.expm1"),
    "log": _direct("math.log"),
    "log1p": _direct("math.log1p"),
    "sqrt": _direct("math.sqrt"),
    "rsqrt": _rsqrt,
    "sin": _direct("math.sin"),
    "cos": _direct("math.cos"),
    "tanh": _direct("math.tanh"),
    "sigmoid": _sigmoid,
    "erf": _direct("math.erf"),
    "floor": _direct("math.floor"),
    "ceil": _direct("math.ceil"),
    "round": _direct("math.roundeven"),
    "logical_not": _logical_not,
    "isfinite": _isfinite,
    "relu": _relu,
    "square": _square,
    "reciprocal": _reciprocal,
    "add": _direct("arith.addf", "arith.addi"),
    "sub": _direct("arith.subf", "arith.subi"),
    "mul": _direct("arith.mulf", "arith.muli"),
    "div": _direct("arith.divf"),
    "mod": _mod,
    "pow": _direct("math.powf"),
    "maximum": _direct("arith.maximumf", "arith.maxsi"),
    "minimum": _direct("arith.minimumf", "arith.minsi"),
    "eq": _compare("eq"),
    "ne": _compare("ne"),
    "lt": _compare("lt"),
    "le": _compare("le"),
    "gt": _compare("gt"),
    "ge": _compare("ge"),
    "logical_and": _direct("", "arith.andi"),
    "logical_or": _direct("", "arith.ori"),
    "select": _select,
}
"""Every scalar function but the composites, which are taken apart before, and `cast`."""
