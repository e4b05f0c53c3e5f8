"""Gradients of attention that are parts of one tensor are written there, instead of beside each other and then joined.

    %q, %k, %v = sx.attention_grad ...                     %p = call @attention_1(...)
    %a, %b, %c = (views of %q, %k, %v)             =>
    %p = call @pointwise_1(%a, %b, %c)                     func @attention_1: all of this
      func @pointwise_1: pad %a + pad %b + pad %c

That is how a product for queries, keys and values at once has its gradient. Padding with zeros and adding up only joins
where the parts lie beside each other and leave out nothing, and where the kernel can write them so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlir import ir

from sexpgpu.dialects.context import Context
from sexpgpu.dialects.groups import Outliner, group_of
from sexpgpu.dialects.loops import callee
from sexpgpu.dialects.opdef import Composite, Move, Pointwise
from sexpgpu.dialects.read import attrs_of, definition_of
from sexpgpu.dialects.signature import type_of
from sexpgpu.passes.flow import operations_of
from sexpgpu.passes.gpu.layout import Layout, layout_before

_VIEWS = frozenset({"reshape", "permute"})


def join_results(func: Any, outliner: Outliner, context: Context) -> None:
    """Make groups of the gradients of attention in a function with what joins them."""
    for op in [op for op in operations_of(func)[:-1] if len(op.results) == 3 and _attends(op)]:
        if (call := _joining(op)) is not None:
            _join(op, call, outliner, context)


def _attends(op: Any) -> bool:
    record = definition_of(op)
    return record is not None and isinstance(record.kind, Composite) and record.kind.family == "attention"


def _joining(op: Any) -> Any:
    """The call of a group that joins all results of an operation, and is all that reads them."""
    found = [_reader(value) for value in op.results]
    if any(reader is None for reader in found) or len(set(found)) != 1 or group_of(found[0]) is None:
        return None
    call = found[0]
    reads = len(op.results) == len(call.operands) == len(set(call.operands))
    if not reads or len(call.results) != 1 or not _joins(callee(call)):
        return None
    return call if all(_lies(value, call) for value in op.results) else None


def _reader(value: Any) -> Any:
    """The one operation that reads a value or views of it; None where there are several."""
    uses = list(value.uses)
    if len(uses) != 1:
        return None
    reader = uses[0].owner.operation
    return _reader(reader.results[0]) if _moves(reader, _VIEWS) else reader


def _moves(op: Any, forms: frozenset[str]) -> bool:
    record = definition_of(op)
    return record is not None and isinstance(record.kind, Move) and record.kind.form in forms


def _joins(func: Any) -> bool:
    """Whether a group's result is its operands side by side."""
    *inside, end = operations_of(func)
    spans: list[tuple[int, int]] = []
    axes: set[int] = set()
    for op in inside:
        if not _moves(op, frozenset({"pad"})):
            if not _adds(op):
                return False
            continue
        attrs = attrs_of(op)
        padded = [axis for axis, ends in enumerate(zip(attrs["low"], attrs["high"], strict=True)) if any(ends)]
        if attrs["value"] != 0 or len(padded) != 1 or not isinstance(op.operands[0].owner, ir.Block):
            return False
        axes.update(padded)
        low = attrs["low"][padded[0]]
        spans.append((low, low + type_of(op.operands[0]).shape[padded[0]]))
    given = func.regions[0].blocks[0].arguments
    once = all(len(list(value.uses)) == 1 for value in (*given, *(op.results[0] for op in inside)))
    if not once or len(axes) != 1 or len(spans) != len(given):
        return False
    ends = [0, *(last for _, last in sorted(spans))]
    beside = [first for first, _ in sorted(spans)] == ends[:-1]
    return beside and ends[-1] == type_of(end.operands[0]).shape[axes.pop()]


def _lies(value: Any, call: Any) -> bool:
    """Whether strides say where the elements of a value lie in what a group joins of its views and those of others."""
    views = list(_views(value))
    shown = views[-1].results[0] if views else value
    arguments = callee(call).regions[0].blocks[0].arguments
    argument = arguments[list(call.operands).index(shown)]
    (use,) = argument.uses
    layout: Layout | None = Layout.dense(type_of(call.results[0]).shape)
    for op in (use.owner.operation, *reversed(views)):
        if layout is not None:
            layout = layout_before(definition_of(op), attrs_of(op), layout, type_of(op.operands[0]))
    return layout is not None


def _adds(op: Any) -> bool:
    record = definition_of(op)
    return record is not None and isinstance(record.kind, Pointwise) and record.kind.scalar == "add"


def _join(op: Any, call: Any, outliner: Outliner, context: Context) -> None:
    """One group of the operation, the views of its results, and the body of what joins them."""
    at = ir.InsertionPoint(call)
    ops = [op]
    shown: dict[Any, Any] = {}
    gone: list[Any] = []
    for value in op.results:
        last = value
        for view in list(_views(value)):
            made = view.clone(at)
            made.operation.operands[0] = shown.get(last, last)
            shown[view.results[0]] = made.operation.results[0]
            last = view.results[0]
            ops.append(made.operation)
            gone.append(view)
    func = callee(call)
    *inside, end = operations_of(func)
    for argument, value in zip(func.regions[0].blocks[0].arguments, call.operands, strict=True):
        shown[argument] = shown.get(value, value)
    for inner in inside:
        made = inner.clone(at)
        for i, value in enumerate(list(inner.operands)):
            made.operation.operands[i] = shown[value]
        shown[inner.results[0]] = made.operation.results[0]
        ops.append(made.operation)
    joined = shown[end.operands[0]]
    call.results[0].replace_all_uses_with(joined)
    operands = list(dict.fromkeys(op.operands))
    outliner.outline("attention", ops, call, copied=(), operands=operands, results=[joined])
    context.erase(call)
    func.operation.erase()
    for view in reversed(gone):
        context.erase(view)


def _views(value: Any) -> Iterator[Any]:
    """The views that lie between a value and what reads it."""
    (use,) = list(value.uses)
    while _moves(use.owner.operation, _VIEWS):
        yield use.owner.operation
        (use,) = list(use.owner.operation.results[0].uses)
