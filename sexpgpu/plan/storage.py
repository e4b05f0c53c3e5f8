"""Which values share memory: views followed to the buffers that they look into.

NumPy decides whether a view needs a copy by the strides, so strides are followed exactly, on stand-ins that have the
strides of the real arrays and no memory.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from sexpgpu.dialects.opdef import Move, OpDef, numpy_dtype
from sexpgpu.tensortype import TensorType

Standin = NDArray[Any]


@functools.lru_cache(maxsize=1024)
def standin(type: TensorType) -> Standin:
    """An array of the type that occupies one element. Its elements must not be read."""
    dtype = numpy_dtype(type.dtype)
    strides = []
    step = dtype.itemsize
    for n in reversed(type.shape):
        strides.append(step)
        step *= max(n, 1)
    return as_strided(np.empty((), dtype), type.shape, strides[::-1], writeable=False)


def may_view(record: OpDef) -> bool:
    """Whether an operation can give a view of its operand."""
    return isinstance(record.kind, Move) and record.kind.views


def viewed(record: OpDef, attrs: dict[str, Any], operand: Standin, result: TensorType) -> Standin | None:
    """The stand-in of a result that is a view of its operand; None where the operation makes memory of its own."""
    if not may_view(record) or result.size == 0:
        return None
    if operand.size == result.size and record.name == "reshape":
        return _reshaped(operand, result.shape)
    view: Standin = record.numpy(operand, **attrs)
    return view


def _reshaped(operand: Standin, shape: tuple[int, ...]) -> Standin | None:
    try:
        return np.reshape(operand, shape, copy=False)
    except ValueError:  # these strides cannot show the shape
        return None
