"""A graph as numbers: what is read, what is made, in order. The form that planning works on."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from sexpgpu.diag import Span
from sexpgpu.dialects.opdef import Constant, OpDef
from sexpgpu.plan.records import Tiles, Turns
from sexpgpu.tensortype import TensorType


@frozen(eq=False)
class Node:
    """One operation: values `outs` from values `ins`. A loop or a fused group has `bodies`, and no record."""

    name: str
    record: OpDef | None
    attrs: dict[str, Any]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    how: Turns | Tiles | None = None
    bodies: tuple[Dataflow, ...] = ()
    span: Span | None = None
    path: str = ""

    @property
    def is_constant(self) -> bool:
        """Whether the value is known when the plan is made."""
        return self.record is not None and isinstance(self.record.kind, Constant) and not self.ins


@frozen(eq=False)
class Dataflow:
    """Values 0 to `given` - 1 are the arguments; `results` are what the graph gives, by value."""

    types: tuple[TensorType, ...]
    given: int
    nodes: tuple[Node, ...]
    results: tuple[int, ...]
