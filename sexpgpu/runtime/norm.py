"""The global gradient norm, clipping by it, and the search for what was not finite."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sexpgpu.runtime.engine import Array

BLOCK = 8192
"""Elements whose squares are summed in their own type."""
EPSILON = 1e-6
"""Keeps the factor finite for a norm of zero, as in PyTorch's clip_grad_norm_."""


def global_norm(gradients: Iterable[Array]) -> float:
    """sqrt of the sum of all squares.

    Squares are summed in the gradients' own type over blocks of fixed length, the blocks' sums in double
    precision: the result depends on no thread count and loses nothing that float32 could show.
    """
    return math.sqrt(sum(_squares(gradient) for gradient in gradients))


def _squares(gradient: Array) -> float:
    flat = gradient.reshape(-1)
    whole = len(flat) - len(flat) % BLOCK
    blocks = flat[:whole].reshape(-1, BLOCK)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.einsum("ij,ij->i", blocks, blocks)
        rest = np.einsum("i,i->", flat[whole:], flat[whole:])
    return float(sums.sum(dtype=np.float64)) + float(rest)


def clip(gradients: dict[str, Array], norm: float, limit: float) -> None:
    """Scales all gradients by min(1, limit / (norm + 1e-6)), the factor computed in the gradients' type."""
    for path, gradient in gradients.items():
        factor = clip_factor(gradient.dtype, norm, limit)
        if factor < 1:
            out = gradient if gradient.flags.writeable else None
            gradients[path] = np.multiply(gradient, factor, out=out)


def clip_factor(dtype: np.dtype[Any], norm: float, limit: float) -> float:
    """limit / (norm + 1e-6) in the arithmetic of a float dtype, as a number of it."""
    real = dtype.type
    factor: float = real(limit) / (real(norm) + real(EPSILON))
    return factor


def first_not_finite(tensors: Mapping[str, Array]) -> str | None:
    """The name of the first tensor that holds a NaN or an infinity."""
    return next((name for name, tensor in tensors.items() if not is_finite(tensor)), None)


def is_finite(tensor: Array) -> bool:
    """Whether no element is NaN or infinite; looks at a block at a time, so that no mask of the whole is made."""
    flat = tensor.reshape(-1)
    return all(np.isfinite(flat[start : start + BLOCK]).all() for start in range(0, flat.size, BLOCK))
