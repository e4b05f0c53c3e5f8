"""Adapters that give NumPy functions the form of `OpDef.numpy`: `(*arrays, out=None, **attrs) -> ndarray`.

NumPy turns results without axes into scalars; the interpreter holds arrays only, so these keep arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sexpgpu.dialects.opdef import Array


def ufunc(function: Callable[..., Any]) -> Callable[..., Array]:
    """A NumPy ufunc (or function with `out=`) whose result has the dtype it gives."""

    def apply(*arrays: Array, out: Array | None = None) -> Array:
        if out is None:
            return np.asarray(function(*arrays))
        function(*arrays, out=out)
        return out

    return apply


def plain(function: Callable[..., Any]) -> Callable[..., Array]:
    """A function without `out=`: its result is copied there."""

    def apply(*arrays: Array, out: Array | None = None, **attrs: Any) -> Array:
        return deliver(np.asarray(function(*arrays, **attrs)), out)

    return apply


def deliver(result: Array, out: Array | None) -> Array:
    """`result`, in `out` when it is given."""
    if out is None:
        return result
    np.copyto(out, result)
    return out
