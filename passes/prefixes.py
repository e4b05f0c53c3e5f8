"""prefixes: a scan with an associative function that works element by element becomes a loop, on a GPU.

    %a = sx.slice %x {sx.places = [@add, 0, 0]}           %first = sx.slice %x                  place 0
    ...  combined in a logarithm of turns                 %rest  = sx.slice %x                  the others
    %y = sx.concat ... {sx.prefixes = [@add, 0, 0]}   =>  %s, %outs = call @scan(%first, %rest) {sx.associative}
                                                          %y = sx.concat %first, %outs

A kernel computes such a loop in one go, its derivative being another loop. What works on whole places, a product of
matrices, say, stays the operations it was, and so does what derivatives inside the graph look into; on the CPU, where
all does, only the marks go. Runs before `simplify`, which removes what nobody reads any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from attrs import field, frozen
from mlir import ir

from sexpgpu.diag import error
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.loops import Loop, call_loop, close_body, function, new_body, without
from sexpgpu.dialects.movement import section
from sexpgpu.dialects.opdef import Move
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.prefixes import PLACES, PREFIXES, read_mark
from sexpgpu.dialects.read import attrs_of, op_name
from sexpgpu.dialects.signature import type_of
from sexpgpu.passes.base import Pass, functions
from sexpgpu.passes.flow import operations_of, read_flow
from sexpgpu.passes.gpu.recurrence import by_elements
from sexpgpu.tensortype import TensorType

TARGETS = ("cpu", "cuda")
KEPT = ("sx.checkpoint", "sx.numerics")
"""What the operations say of all that is computed there."""


@frozen
class _Scan:
    """The marked operations of one scan, by the numbers of its tensors; `axes` likewise."""

    places: dict[int, Any] = field(factory=dict)
    prefixes: dict[int, Any] = field(factory=dict)
    axes: dict[int, int] = field(factory=dict)


@dataclass(frozen=True)
class Prefixes(Pass):
    """Loops for one target, "cuda"; for the other, "cpu", the marks alone go."""

    name: ClassVar[str] = "prefixes"
    target: str = "cpu"

    def run(self, module: Any, context: Context) -> str | None:
        if self.target not in TARGETS:
            expected = " or ".join(TARGETS)
            raise error("E-IR-011", f"`sx-prefixes`: `{self.target}` is no value for `target`", expected=expected)
        combining: dict[str, Any] = {}
        loops = stayed = 0
        for func in functions(module):
            scans = _scans(func)
            live = _live(func) if scans and self.target != "cpu" else set()
            for symbol, scan in scans.items():
                combine = combining.setdefault(symbol, function(module.operation, symbol))
                if self.target == "cpu" or not scan.prefixes:
                    continue
                count = len(combine.regions[0].blocks[0].arguments)
                whole = len(scan.places) == count // 2 and not _looked_into(scan, live)
                if whole and by_elements(read_flow(combine, bodies=False), count):
                    _loop(module.operation, combine, scan, context)
                    loops += 1
                else:
                    stayed += 1
        for combine in combining.values():
            context.erase(combine)
        if self.target == "cpu":
            return None
        return ", ".join(f"{n} {what}" for n, what in ((loops, "loops"), (stayed, "left as operations")) if n)


def _scans(func: Any) -> dict[str, _Scan]:
    """The scans of a function by the names of what they combine with; their operations bear no marks any more."""
    found: dict[str, _Scan] = {}
    for op, name in _marked(func):
        mark = read_mark(op, name)
        assert mark is not None
        scan = found.setdefault(mark.combine, _Scan())
        (scan.places if name == PLACES else scan.prefixes)[mark.number] = op
        scan.axes[mark.number] = mark.axis
        del op.attributes[name]
    return found


def _marked(func: Any) -> Iterator[tuple[Any, str]]:
    for op in func.regions[0].blocks[0].operations:
        for name in (PLACES, PREFIXES):
            if name in op.attributes:
                yield op.operation, name


def _live(func: Any) -> set[Any]:
    """The operations that what the function gives is computed from."""
    found: set[Any] = set()
    *ops, end = operations_of(func)
    found.add(end)
    for op in reversed(ops):
        if any(use.owner.operation in found for result in op.results for use in result.uses):
            found.add(op)
    return found


def _looked_into(scan: _Scan, live: set[Any]) -> bool:
    """Whether something else reads what the scan computes on its way, as derivatives inside a graph do."""
    given = {op.operands[0] for op in scan.places.values()}
    inside: set[Any] = set()
    pending = list(scan.prefixes.values())
    while pending:
        op = pending.pop()
        if op not in inside and len(op.operands):
            inside.add(op)
            pending += [v.owner.operation for v in op.operands if v not in given and not isinstance(v.owner, ir.Block)]
    between = inside.difference(scan.prefixes.values())
    users = {use.owner.operation for op in between for result in op.results for use in result.uses}
    return not live.isdisjoint(users - inside)


def _loop(module: Any, combine: Any, scan: _Scan, context: Context) -> None:
    """Put a loop before the first of the prefixes, whose readers read what it gives."""
    axes = tuple([scan.axes[i] for i in range(len(scan.places))])
    at = next(iter(scan.prefixes.values()))  # which stand in the order of the function
    builder = Builder(context, ir.InsertionPoint(at), at.location)
    firsts, states, rest = [], [], []
    for i, axis in enumerate(axes):
        value = scan.places[i].operands[0]
        x = Val(builder, value, type_of(value))
        firsts.append(section(builder, x, axis, 0, 1))
        states.append(builder("reshape", firsts[i], shape=without(x.type, axis).shape))
        rest.append(section(builder, x, axis, 1, x.type.shape[axis]))
    turn = _turn(module, builder, combine, [v.type for v in states])
    loop = Loop(turn, len(states), axes, axes, associative=True)
    name = ir.StringAttr(combine.attributes["sym_name"]).value
    results = call_loop(builder, module, loop, f"{name}.scan", [*states, *rest])
    outs = results[len(states) :]
    made = [v.value.owner for v in (*firsts, *states, *rest, results[0])]
    for i, op in scan.prefixes.items():
        whole = builder("concat", firsts[i], outs[i], axis=axes[i])
        op.results[0].replace_all_uses_with(whole.value)
        made.append(whole.value.owner)
    _mark_as(at, made)


def _mark_as(op: Any, others: Sequence[Any]) -> None:
    for name in KEPT:
        if name in op.attributes:
            for other in others:
                other.attributes[name] = op.attributes[name]


def _turn(module: Any, builder: Builder, combine: Any, types: Sequence[TensorType]) -> str:
    """The body of the loop: of states and a place of each tensor, without the axis, the next states, which are outs.

    Elements are known by their numbers, so what moves none is left out, and functions of elements get the new shape.
    """
    name = ir.StringAttr(combine.attributes["sym_name"]).value
    symbol, block = new_body(module, builder, f"{name}.turn", [*types, *types])
    inner = Builder(builder.context, ir.InsertionPoint(block), builder.location)
    shape = types[0].shape
    *ops, end = operations_of(combine)
    taken = zip(combine.regions[0].blocks[0].arguments, block.arguments, strict=True)
    moved = {old: Val(inner, new, type_of(new)) for old, new in taken}
    others: dict[Any, Any] = {}
    for op in ops:
        inner.location = op.location
        operands = list(op.operands)
        if not any(value in moved for value in operands):
            copy = op.clone(inner.ip)
            for place, value in enumerate(operands):
                copy.operands[place] = others[value]
            others.update(zip(op.results, copy.results, strict=True))
        elif isinstance(OPS[op_name(op)].kind, Move):
            moved[op.results[0]] = moved[operands[0]]
        else:
            given = [moved[v] if v in moved else _reshaped(inner, others[v], shape) for v in operands]
            moved[op.results[0]] = inner(op_name(op), *given, **attrs_of(op))
            _mark_as(op, [moved[op.results[0]].value.owner])
    following = [moved[value].value for value in end.operands]
    close_body(block, [*following, *following], builder.location)
    return symbol


def _reshaped(builder: Builder, value: Any, shape: tuple[int, ...]) -> Val:
    return builder("reshape", Val(builder, value, type_of(value)), shape=shape)
