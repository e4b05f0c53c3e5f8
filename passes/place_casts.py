"""place-casts: what passes between operations is in the narrower of the dtypes that a cast is between.

    %h = sx.reshape %x : f32                         %c = sx.cast %x : bf16
    %a = sx.cast %h : bf16                     =>    %a = sx.reshape %c : bf16

    %c = sx.cast %p : bf16 to f32                    %h = sx.reshape %p : bf16
    %h = sx.reshape %c : f32                   =>    %a = sx.cast %h : f32

A cast to a narrower dtype goes in front of the views that are between it and what makes its operand, so that it can be
computed where that is; one to a wider dtype goes behind the views that alone read it, to their readers, where they show
no element twice. Every element is cast as before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from attrs import evolve
from mlir import ir

from sexpgpu.dialects.context import Context
from sexpgpu.dialects.opdef import Move, Pointwise
from sexpgpu.dialects.read import definition_of
from sexpgpu.dialects.signature import type_of
from sexpgpu.passes.base import Pass, functions
from sexpgpu.passes.flow import operations_of
from sexpgpu.passes.recomputing.marks import CLONE
from sexpgpu.tensortype import DType

ORDERS = frozenset({"reshape", "permute", "same"})
"""Views of all elements of their operand, each once: to cast before one costs as much as behind it."""
PARTS = ORDERS | {"cut", "reverse"}
"""Views that show no element twice."""


@dataclass(frozen=True)
class PlaceCasts(Pass):
    """Casts of every function that has arguments."""

    name: ClassVar[str] = "place-casts"

    def run(self, module: Any, context: Context) -> None:
        for func in functions(module):
            if len(func.regions[0].blocks[0].arguments):
                _place(func, context)


def _place(func: Any, context: Context) -> None:
    narrowed: dict[tuple[Any, DType, int], Any] = {}
    for op in operations_of(func)[:-1]:
        if (wider := _wider(op)) is None:
            _sink(op, context)
        elif not wider:
            _hoist(op, context, narrowed)


def _wider(op: Any) -> bool | None:
    """Whether a cast is to a wider dtype; None for what is no cast, or one between dtypes of one width."""
    record = definition_of(op)
    if record is None or not isinstance(record.kind, Pointwise) or record.kind.scalar != "cast":
        return None
    before, after = type_of(op.operands[0]).nbytes, type_of(op.results[0]).nbytes
    return None if before == after else before < after


def _view(op: Any, forms: frozenset[str]) -> bool:
    record = definition_of(op)
    return record is not None and isinstance(record.kind, Move) and record.kind.views and record.kind.form in forms


def _hoist(cast: Any, context: Context, narrowed: dict[tuple[Any, DType, int], Any]) -> None:
    """Cast what the views of a narrowing cast show, once for all casts of it."""
    chain = []
    value = cast.operands[0]
    while not isinstance(value.owner, ir.Block) and _view(value.owner, ORDERS):
        chain.append(value.owner)
        value = value.owner.operands[0]
    dtype = type_of(cast.results[0]).dtype
    again = ir.IntegerAttr(cast.attributes[CLONE]).value if CLONE in cast.attributes else 0
    known = narrowed.get((value, dtype, again))
    if known is None and not chain:
        narrowed[value, dtype, again] = cast.results[0]
        return
    at = ir.InsertionPoint(cast)
    if known is None:
        known = narrowed[value, dtype, again] = _like(cast, value, at, dtype, context)
    shown = known
    for view in reversed(chain):
        shown = _like(view, shown, at, dtype, context)
    cast.results[0].replace_all_uses_with(shown)
    context.erase(cast)
    for view in chain:
        if next(iter(view.results[0].uses), None) is None:
            context.erase(view)


def _sink(view: Any, context: Context) -> None:
    """Show the operand of a widening cast that only views of its parts read, and cast what is shown."""
    if not _view(view, PARTS):
        return
    value = view.operands[0]
    cast = value.owner
    if isinstance(cast, ir.Block) or not _wider(cast):
        return
    readers = [use.owner.operation for use in value.uses]
    parts = sum(type_of(reader.results[0]).size for reader in readers if _view(reader, PARTS))
    if not all(_view(reader, PARTS) for reader in readers) or parts > type_of(value).size:
        return
    at = ir.InsertionPoint(view)
    shown = _like(view, cast.operands[0], at, type_of(cast.operands[0]).dtype, context)
    made = _like(cast, shown, at, type_of(value).dtype, context)
    view.results[0].replace_all_uses_with(made)
    context.erase(view)
    if len(readers) == 1:
        context.erase(cast)


def _like(op: Any, operand: Any, at: Any, dtype: DType, context: Context) -> Any:
    """The result of the same operation on another operand, of the dtype that it then has."""
    made = op.clone(at)
    made.operation.operands[0] = operand
    result = made.operation.results[0]
    cast = _wider(op) is not None
    shape = type_of(operand if cast else result).shape
    result.set_type(context.type(evolve(type_of(result), shape=shape, dtype=dtype)))
    return result
