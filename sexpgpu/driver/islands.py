"""Where the precision policy keeps f32: the operations of a graph's forward part that compute in it, by model path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from attrs import define, field, frozen
from mlir import ir

from sexpgpu.diag import Span
from sexpgpu.dialects.locations import path_of, span_of
from sexpgpu.dialects.loops import loop_of
from sexpgpu.dialects.opdef import Constant, Move, OpDef, Pointwise, Random
from sexpgpu.dialects.read import definition_of
from sexpgpu.dialects.signature import output_roles, type_of
from sexpgpu.driver.pipeline import Observer
from sexpgpu.passes.base import Timing, graphs
from sexpgpu.passes.precision import ADDED

FORWARD = ("loss", "metric", "weight", "sample", "carry", "step_term", "buffer")
"""The roles of what a policy applies to: gradients follow the values that they belong to."""


@frozen
class Island:
    """Operations of one place in the model that compute in f32; a place without a path is known by its span."""

    path: str
    span: Span | None
    ops: tuple[tuple[str, int], ...]


@frozen
class Policy:
    """What the precision policy did to a graph: the casts that it added, and where it keeps f32."""

    casts: int
    islands: tuple[Island, ...]


@define
class PolicyWatch:
    """Looks at each graph as `precision` leaves it: later passes put several of its operations under one name.

    `found` has the graphs by their symbols. `beside` is called as well.
    """

    beside: Observer | None
    found: dict[str, Policy] = field(factory=dict)

    def __call__(self, number: int, name: str, module: Any, timing: Timing | None) -> None:
        if name == "precision":
            attributes = module.operation.attributes
            rounding = "sx.precision" in attributes and ir.StringAttr(attributes["sx.precision"]).value == "bf16"
            for func in graphs(module):
                casts = sum(ADDED in op.attributes for op in _every(func))
                symbol = ir.StringAttr(func.attributes["sym_name"]).value
                self.found[symbol] = Policy(casts, tuple(islands(func)) if casts or rounding else ())
        if self.beside is not None:
            self.beside(number, name, module, timing)


def _every(func: Any) -> Iterator[Any]:
    for op in func.regions[0].blocks[0].operations:
        yield from _with_bodies(op.operation)


def islands(func: Any) -> list[Island]:
    """The islands of a graph in the order of its operations, largest count first within each."""
    counts: dict[tuple[str, Span | None], Counter[str]] = {}
    needed = _forward(func)
    for op in [op.operation for op in func.regions[0].blocks[0].operations]:
        if op in needed:
            for inner in _with_bodies(op):
                if (record := definition_of(inner)) is not None and _computes_in_f32(inner, record):
                    path = path_of(inner.location)
                    span = None if path else span_of(inner.location)
                    counts.setdefault((path, span), Counter())[record.name] += 1
    return [Island(path, span, tuple(found.most_common())) for (path, span), found in counts.items()]


def _forward(func: Any) -> set[Any]:
    """The operations that anything but a gradient depends on."""
    returned = list(func.regions[0].blocks[0].operations)[-1].operands
    roles = output_roles(func)
    waiting = [value for value, role in zip(returned, roles, strict=True) if role in FORWARD]
    needed: set[Any] = set()
    while waiting:
        owner = waiting.pop().owner
        if not isinstance(owner, ir.Block) and owner.operation not in needed:
            needed.add(owner.operation)
            waiting += owner.operands
    return needed


def _with_bodies(op: Any) -> Iterator[Any]:
    yield op
    if (found := loop_of(op)) is not None:
        for inner in found[1].regions[0].blocks[0].operations:
            yield from _with_bodies(inner.operation)


def _computes_in_f32(op: Any, record: OpDef) -> bool:
    """Whether an operation computes with f32 numbers; those that move numbers, make or convert them do not."""
    match record.kind:
        case Move() | Constant() | Random() | Pointwise(scalar="cast"):
            return False
    return any(type_of(value).dtype == "f32" for value in (*op.operands, *op.results))
