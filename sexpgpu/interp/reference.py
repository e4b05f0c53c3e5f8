"""The meaning of a module: each operation of a function in turn by the `numpy` of its record, nothing shared or reused.

It walks the module itself and knows no plan, so that plans can be held against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sexpgpu.diag import SxError
from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.groups import group_of
from sexpgpu.dialects.locations import span_of
from sexpgpu.dialects.loops import Loop, loop_of
from sexpgpu.dialects.opdef import Array, numpy_dtype
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import attrs_of, op_name
from sexpgpu.dialects.signature import type_of
from sexpgpu.interp.origin import Origin
from sexpgpu.interp.program import Program, computes


class Reference:
    """A function of the module, callable as a `Program` is, which serves to find what first is not finite."""

    def __init__(self, func: Any, program: Program) -> None:
        self.spec = program.spec
        self.program = program
        self._func = func

    def __call__(self, inputs: Sequence[Array], into: Sequence[Array | None] = ()) -> list[Array]:
        with np.errstate(all="ignore"):
            results = [np.array(value) for value in evaluate(self._func, inputs)]
        for place, target in enumerate(into):
            if target is not None:
                np.copyto(target, results[place])
                results[place] = target
        return results

    def origin_not_finite(self, inputs: Sequence[Array]) -> Origin | None:
        return self.program.origin_not_finite(inputs)


def evaluate(
    func: Any,
    inputs: Sequence[Array],
    results: Callable[[Any, list[Array]], Sequence[Array]] | None = None,
) -> list[Array]:
    """What the function gives; results may share memory with each other and with the inputs.

    `results` says what one operation makes of its operands, where that is not `results_of`.
    """
    results = results or results_of
    block = func.regions[0].blocks[0]
    values: dict[Any, Array] = dict(zip(block.arguments, inputs, strict=True))
    for op in [op.operation for op in block.operations]:
        operands = [values[v] for v in op.operands]
        if op.name == "func.return":
            return operands
        values.update(zip(op.results, results(op, operands), strict=True))
    raise ValueError("a function ends with func.return")


def results_of(op: Any, operands: list[Array]) -> Sequence[Array]:
    """What one operation, a loop or a group makes of its operands."""
    if (loop := loop_of(op)) is not None:
        return _loop(*loop, op, operands)
    if (group := group_of(op)) is not None:
        return evaluate(group[1], operands)
    record = OPS[op_name(op)]
    try:
        value = record.numpy(*operands, **attrs_of(op))
    except SxError as fault:
        raise SxError(fault.diagnostic.at(span_of(op.location))) from None
    values = (value,) if record.results == 1 else value
    inexact = computes(record.kind)
    return [
        round_bf16(v) if inexact and type_of(r).dtype == "bf16" else v for v, r in zip(values, op.results, strict=True)
    ]


def _loop(loop: Loop, body: Any, op: Any, operands: list[Array]) -> Sequence[Array]:
    count = loop.states
    last = count + len(loop.items)
    types = [type_of(v) for v in op.operands]
    items = [np.moveaxis(x, axis, 0) for x, axis in zip(operands[count:last], loop.items, strict=True)]
    states: Sequence[Array] = operands[:count]
    turns = range(loop.turns(types))
    rows: list[Sequence[Array]] = []
    for turn in reversed(turns) if loop.reverse else turns:
        given = evaluate(body, [*states, *[item[turn] for item in items], *operands[last:]])
        states = given[:count]
        rows.append(given[count:])
    if loop.reverse:
        rows.reverse()
    outs = []
    for number, (axis, result) in enumerate(zip(loop.outs, op.results[count:], strict=True)):
        type = type_of(result)
        made = [row[number] for row in rows]
        outs.append(np.stack(made, axis) if made else np.empty(type.shape, numpy_dtype(type.dtype)))
    return [*states, *outs]
