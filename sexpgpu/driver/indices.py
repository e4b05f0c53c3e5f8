"""Which fields of a loader the indices of an operation come from, found by following them through a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlir import ir

from sexpgpu.diag import Span
from sexpgpu.dialects.groups import group_of
from sexpgpu.dialects.locations import span_of
from sexpgpu.dialects.loops import loop_of
from sexpgpu.dialects.opdef import Index, Move, Pointwise
from sexpgpu.dialects.read import definition_of
from sexpgpu.dialects.signature import read_inputs, terminator_of, type_of


def index_fields(func: Any, span: Span) -> tuple[str, ...]:
    """The fields whose numbers the form at `span` takes as indices, in the order of the graph's inputs.

    Only what moves numbers or computes with them element by element is followed: of `argmax` or a sum, where each
    result is of many elements, no element of a field is to blame.
    """
    fields = {i: slot.name for i, slot in enumerate(read_inputs(func)) if slot.role == "field"}
    found: set[int] = set()
    for indices, calls in _indices(func, span, ()):
        found |= _sources(indices, calls)
    return tuple(name for place, name in fields.items() if place in found)


Calls = tuple[Any, ...]
"""The calls of loops and groups around a value, outermost first."""

_PLACES = frozenset({"indices", "labels"})
"""Operands whose numbers are places along an axis."""


def _indices(func: Any, span: Span, calls: Calls) -> Iterator[tuple[Any, Calls]]:
    """The index operands of the operations at a form, in the bodies of loops and groups too."""
    for op in func.regions[0].blocks[0].operations:
        if (called := loop_of(op) or group_of(op)) is not None:
            yield from _indices(called[1], span, (*calls, op.operation))
            continue
        record = definition_of(op.operation)
        place = span_of(op.location)
        if record is None or place is None:
            continue
        if (place.file, place.line, place.col) == (span.file, span.line, span.col):
            for name, operand in zip(record.operands, op.operands, strict=True):
                if name in _PLACES:
                    yield operand, calls


def _sources(value: Any, calls: Calls) -> set[int]:
    """The numbers of the arguments, of the function around all the loops, that a value's elements come from."""
    found: set[int] = set()
    pending = [(value, calls)]
    seen = set()
    while pending:
        value, around = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, ir.Block):
            number = ir.BlockArgument(value).arg_number
            if around:
                pending.append((around[-1].operands[number], around[:-1]))
            else:
                found.add(number)
            continue
        if (group := group_of(value.owner)) is not None:
            given = terminator_of(group[1]).operands[ir.OpResult(value).result_number]
            pending.append((given, (*around, value.owner)))
            continue
        record = definition_of(value.owner)
        if record is None or not isinstance(record.kind, Move | Pointwise | Index):
            continue
        pending += [(operand, around) for operand in value.owner.operands if type_of(operand).dtype != "bool"]
    return found
