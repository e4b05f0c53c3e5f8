"""The table: every operation of the dialect by its name."""

from __future__ import annotations

from sexpgpu.dialects import (
    attention,
    composite,
    contraction,
    convolution,
    cross_entropy,
    elementwise,
    indexing,
    movement,
    norm,
    ordering,
    pooling,
    random,
    reduction,
)
from sexpgpu.dialects.opdef import OpDef

_MODULES = (
    elementwise,
    reduction,
    movement,
    contraction,
    convolution,
    pooling,
    ordering,
    indexing,
    random,
    composite,
    norm,
    cross_entropy,
    attention,
)

OPS: dict[str, OpDef] = {op.name: op for module in _MODULES for op in module.OPERATIONS}
