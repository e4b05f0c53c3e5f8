"""A graph as numbers: what is read, what is made, in order. The form that planning works on."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any

from attrs import field, frozen

from sexpgpu.diag import Span
from sexpgpu.dialects.opdef import Constant, Dense, OpDef
from sexpgpu.plan.records import Launches, Tiles, Turns
from sexpgpu.tensortype import TensorType


@frozen(eq=False)
class Node:
    """One operation: values `outs` from values `ins`. A loop or a fused group has `bodies`, and no record."""

    name: str
    record: OpDef | None
    attrs: dict[str, Any]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    how: Turns | Tiles | Launches | None = None
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

    @cached_property
    def structure(self) -> Structure:
        """What two dataflows share that differ in places and in the values of constants alone."""
        nodes = tuple([(node.name, node.ins, node.outs, _known(node.attrs)) for node in self.nodes])
        return Structure((self.types, self.given, self.results, nodes), self)


@frozen
class Structure:
    """A dataflow by its structure: equal for the same block of each layer, so that it is planned once."""

    key: Hashable
    flow: Dataflow = field(eq=False)


def _known(attrs: dict[str, Any]) -> Hashable:
    return tuple([value for value in attrs.values() if not isinstance(value, Dense)])
