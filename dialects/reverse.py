"""Reverse mode: the cotangents of a list of operations, by the `vjp` of each (Griewank & Walther, ch. 3).

The pass `autodiff` sweeps whole graphs with it and tracing sweeps what `(grad f x)` asks for. A loop's derivative is
a loop that runs the other way: its states are the cotangents of the states and the sums of those of the shared values;
each turn computes the body again from the state that came in, which the forward loop keeps for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve
from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.loops import (
    CALL,
    Loop,
    call_loop,
    close_body,
    inline,
    loop_of,
    module_of,
    new_body,
    with_axis,
)
from sexpgpu.dialects.movement import section
from sexpgpu.dialects.opdef import no_cotangent
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import attrs_of, op_name
from sexpgpu.dialects.signature import terminator_of, type_of


def cotangents(builder: Builder, ops: Sequence[Any], seeds: Mapping[Any, Val], wrt: Iterable[Any]) -> dict[Any, Val]:
    """Cotangents, by value, of what lies between `wrt` and the seeded values; one not reached is absent.

    `ops` are in order. What is added stands at the builder's place, each operation at the location of the one it
    comes from; loops among `ops` may be replaced by loops that keep their states.
    """
    active = _active(ops, wrt)
    found: dict[Any, Val] = {value: seed for value, seed in seeds.items() if value in active}
    for op in reversed(ops):
        received = [found.get(r) for r in op.results]
        if all(g is None for g in received) or not any(v in active for v in op.operands):
            continue
        builder.location = op.location
        for value, cotangent in _of_operands(builder, op, received, active):
            if cotangent is not None and value in active:
                before = found.get(value)
                found[value] = cotangent if before is None else before + cotangent
    return found


def _active(ops: Iterable[Any], wrt: Iterable[Any]) -> set[Any]:
    """Float values that depend on `wrt` through differentiable operations."""
    active = set(wrt)
    for op in ops:
        if _differentiable(op) and any(v in active for v in op.operands):
            active.update(r for r in op.results if type_of(r).is_float)
    return active


def differentiated(ops: Sequence[Any], values: Iterable[Any]) -> set[Any]:
    """The float values that get a cotangent from `values`: what these depend on through differentiable operations.

    `ops` are in order; a loop counts as far as its body carries what its results need.
    """
    needed = {value for value in values if type_of(value).is_float}
    for op in reversed(ops):
        wanted = [i for i, result in enumerate(op.results) if result in needed]
        if not wanted or not _differentiable(op):
            continue
        operands = list(op.operands)
        if (found := loop_of(op)) is not None:
            operands = [operands[i] for i in _differentiated_by_loop(*found, set(wanted))[0]]
        needed.update(v for v in operands if type_of(v).is_float)
    return needed


def _differentiated_by_loop(loop: Loop, body: Any, wanted: set[int]) -> tuple[list[int], set[int]]:
    """The operands of a loop that get a cotangent from the results of the numbers `wanted`, and with these the states
    that carry it from turn to turn."""
    block = body.regions[0].blocks[0]
    *ops, last = [op.operation for op in block.operations]
    while True:
        needed = differentiated(ops, [last.operands[i] for i in wanted])
        taken = [i for i, argument in enumerate(block.arguments) if argument in needed]
        carried = {i for i in taken if i < loop.states}  # a state of the turn before
        if carried <= wanted:
            return taken, wanted
        wanted = wanted | carried


def _differentiable(op: Any) -> bool:
    if op.operation.name == CALL:
        return True
    record = OPS[op_name(op)]
    return record.vjp is not no_cotangent and (record.vjp is not None or record.decompose is not None)


def _of_operands(builder: Builder, op: Any, received: list[Val | None], active: set[Any]) -> Any:
    """(operand, cotangent) of one operation, from the cotangents of its results."""
    operands = list(op.operands)
    ins = [Val(builder, v, type_of(v)) for v in operands]
    outs = [Val(builder, r, type_of(r)) for r in op.results]
    if (found := loop_of(op)) is not None:
        return zip(operands, _of_loop(builder, op, *found, ins, received, active), strict=True)
    gs = [g or builder.constant(0, out.type) for g, out in zip(received, outs, strict=True)]
    vjp = OPS[op_name(op)].vjp
    if vjp is None:
        return zip(operands, _of_parts(builder, op, ins, gs), strict=True)
    if len(outs) == 1:
        given = vjp(builder, gs[0], outs[0], *ins, **attrs_of(op))
    else:
        given = vjp(builder, tuple(gs), tuple(outs), *ins, **attrs_of(op))
    return zip(operands, given, strict=True)


class _Recorder(Builder):
    """A builder that remembers what it made, in order."""

    __slots__ = ("made",)

    def __init__(self, builder: Builder) -> None:
        super().__init__(builder.context, builder.ip, builder.location)
        self.made: list[Any] = []

    def _create(self, *given: Any) -> Any:
        op = super()._create(*given)
        self.made.append(op)
        return op


def _of_parts(builder: Builder, op: Any, ins: list[Val], gs: list[Val]) -> list[Val | None]:
    """Cotangents of a composite without a rule of its own: those of the operations that it is made of."""
    record = OPS[op_name(op)]
    assert record.decompose is not None  # only active operations are looked at
    recorder = _Recorder(builder)
    parts = record.decompose(recorder, *(Val(recorder, v.value, v.type) for v in ins), **attrs_of(op))
    outs = parts if isinstance(parts, tuple) else (parts,)
    seeds = {out.value: g for out, g in zip(outs, gs, strict=True)}
    found = cotangents(builder, recorder.made, seeds, [v.value for v in ins])
    # A value that is an operand twice has one cotangent, from both places.
    return [found.pop(v.value, None) for v in ins]


def _of_loop(
    builder: Builder,
    op: Any,
    loop: Loop,
    body: Any,
    ins: list[Val],
    received: list[Val | None],
    active: set[Any],
) -> list[Val | None]:
    module = module_of(op)
    first = loop.states
    last = first + len(loop.items)
    reached = {i for i, g in enumerate(received) if g is not None}
    carrying = _differentiated_by_loop(loop, body, reached)[1]
    states = [i for i in range(first) if i in carrying and ins[i].type.is_float]
    items = [i for i in range(first, last) if ins[i].value in active]
    shared = [i for i in range(last, len(ins)) if ins[i].value in active]
    outs = [j for j in range(len(loop.outs)) if received[first + j] is not None]

    kept, kept_axes = _incoming(builder, op, loop, body, ins)
    turn = loop.body_types([v.type for v in ins])
    given = [received[first + j] for j in outs]
    taken = [
        *[turn[i] for i in states],
        *[turn[i] for i in shared],
        *turn[:last],
        *[type_of(v) for v in _returned(body, [first + j for j in outs])],
        *turn[last:],
    ]
    name = ir.StringAttr(body.attributes["sym_name"]).value
    symbol, block = new_body(module, builder, f"{name}.reverse", taken)
    inner = Builder(builder.context, ir.InsertionPoint(block), builder.location)
    arguments = [Val(inner, a, type_of(a)) for a in block.arguments]
    dstates, rest = arguments[: len(states)], arguments[len(states) :]
    sums, rest = rest[: len(shared)], rest[len(shared) :]
    primal, rest = rest[:last], rest[last:]
    douts, whole = rest[: len(outs)], rest[len(outs) :]
    inputs = [*primal, *whole]
    copies, results = inline(inner, body, [v.value for v in inputs])
    seeds: dict[Any, Val] = {}
    for value, seed in [
        *[(results[i], g) for i, g in zip(states, dstates, strict=True)],
        *[(results[first + j], g) for j, g in zip(outs, douts, strict=True)],
    ]:
        seeds[value] = seeds[value] + seed if value in seeds else seed
    sought = [*states, *items, *shared]
    found = cotangents(inner, copies, seeds, [inputs[i].value for i in sought])
    inner.location = builder.location

    def cotangent(i: int) -> Val:
        return found.get(inputs[i].value) or inner.constant(0, inputs[i].type)

    gives = [
        *[cotangent(i) for i in states],
        *[total + found[inputs[i].value] if inputs[i].value in found else total
          for i, total in zip(shared, sums, strict=True)],
        *[cotangent(i) for i in items],
    ]  # fmt: skip
    close_body(block, [v.value for v in gives], builder.location)

    back = Loop(
        symbol,
        len(states) + len(shared),
        (*kept_axes, *loop.items, *[loop.outs[j] for j in outs]),
        tuple(loop.items[i - first] for i in items),
        not loop.reverse,
        linear=loop.associative,
    )
    operands = [
        *[received[i] or builder.constant(0, ins[i].type) for i in states],
        *[builder.constant(0, ins[i].type) for i in shared],
        *kept,
        *ins[first:last],
        *[g for g in given if g is not None],
        *ins[last:],
    ]
    results_back = call_loop(builder, module, back, f"{name}.back", operands)
    answer: list[Val | None] = [None] * len(ins)
    for i, result in zip([*states, *shared, *items], results_back, strict=True):
        answer[i] = result
    return answer


def _returned(body: Any, indices: Iterable[int]) -> list[Any]:
    operands = terminator_of(body).operands
    return [operands[i] for i in indices]


def _incoming(builder: Builder, op: Any, loop: Loop, body: Any, ins: list[Val]) -> tuple[list[Val], list[int]]:
    """The states that came into each turn, and the axes along which they lie.

    A state of an associative loop that is an out as well came in one turn later, behind the first.
    """
    returned = _returned(body, range(loop.states + len(loop.outs)))
    results = list(op.results)
    outs: dict[int, int] = {}
    if loop.associative:
        given = returned[loop.states :]
        outs = {i: given.index(returned[i]) for i in range(loop.states) if returned[i] in given}
    missing = [i for i in range(loop.states) if i not in outs]
    axes = [loop.outs[outs[i]] if i in outs else 0 for i in range(loop.states)]
    kept: dict[int, Val] = {}
    if missing:
        results, stacked = _keeping(builder, op, loop, body, ins, missing)
        kept = dict(zip(missing, stacked, strict=True))
    for i, out in outs.items():
        axis, value = axes[i], results[loop.states + out]
        first = builder("reshape", ins[i], shape=with_axis(ins[i].type, axis, 1).shape)
        every = builder("concat", first, Val(builder, value, type_of(value)), axis=axis)
        kept[i] = section(builder, every, axis, 0, every.type.shape[axis] - 1)
    return [kept[i] for i in range(loop.states)], axes


def _keeping(
    builder: Builder, op: Any, loop: Loop, body: Any, ins: list[Val], states: list[int]
) -> tuple[list[Any], list[Val]]:
    """The loop's results, and those of its states that came into each turn, stacked on axis 0.

    A loop that gives both is put before the old call, which is left unused, for `simplify` to remove: values of it may
    be held elsewhere.
    """
    module = module_of(op)
    symbol, block = new_body(
        module,
        builder,
        f"{ir.StringAttr(body.attributes['sym_name']).value}.kept",
        loop.body_types([v.type for v in ins]),
    )
    inner = Builder(builder.context, ir.InsertionPoint(block), builder.location)
    arguments = list(block.arguments)
    _, results = inline(inner, body, arguments)
    close_body(block, [*results, *[arguments[i] for i in states]], builder.location)
    keeping = evolve(loop, body=symbol, outs=(*loop.outs, *[0] * len(states)))
    at_call = Builder(builder.context, ir.InsertionPoint(op), op.location)
    operands = [Val(at_call, v.value, v.type) for v in ins]
    made = call_loop(at_call, module, keeping, ir.FlatSymbolRefAttr(op.attributes["callee"]).value, operands)
    for old, new in zip(op.results, made, strict=False):
        old.replace_all_uses_with(new.value)
    count = len(op.results)
    return [v.value for v in made[:count]], [Val(builder, v.value, v.type) for v in made[count:]]
