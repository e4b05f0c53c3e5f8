"""Which values of a graph are views of buffers, and how they lie there."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import define, field

from sexpgpu.dialects.opdef import Array, Constant, OpDef
from sexpgpu.dialects.read import attrs_of
from sexpgpu.dialects.signature import type_of
from sexpgpu.passes.gpu.layout import Layout
from sexpgpu.plan.build import repeated_once
from sexpgpu.plan.storage import standin, viewed


@define(eq=False)
class Views:
    """The views of one function, by values: stand-ins with the strides of each view, and those of its buffer."""

    _shown: dict[Any, tuple[Array, Array]] = field(factory=dict, init=False)

    def shows(self, op: Any, record: OpDef) -> bool:
        """Whether an operation makes a view, or a constant, rather than something new in memory; it is noted then."""
        if isinstance(record.kind, Constant) and not len(op.operands):
            value = record.numpy(**attrs_of(op))
            buffer = repeated_once(value)
            self._shown[op.results[0]] = (np.broadcast_to(buffer, value.shape), buffer)
            return True
        if len(op.operands) != 1 or len(op.results) != 1:
            return False
        source, buffer = self._of(op.operands[0])
        view = viewed(record, attrs_of(op), source, type_of(op.results[0]))
        if view is None:
            return False
        self._shown[op.results[0]] = (view, buffer)
        return True

    def layout(self, value: Any) -> Layout:
        return Layout.of_view(*self._of(value))

    def _of(self, value: Any) -> tuple[Array, Array]:
        if value not in self._shown:
            made = standin(type_of(value))
            self._shown[value] = (made, made)
        return self._shown[value]
