"""The loop's own arithmetic as graphs: sums, scales, norms, compiled for a device as those of an experiment are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define, field, frozen
from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.signature import write_signature
from sexpgpu.experiment import Experiment, Input, Output
from sexpgpu.gpu.arrays import Function
from sexpgpu.gpu.program import DeviceProgram
from sexpgpu.plan.records import DevicePlans, GraphPlan
from sexpgpu.runtime.norm import BLOCK
from sexpgpu.tensortype import TensorType

Bind = Callable[[GraphPlan], DeviceProgram]


@frozen
class Wanted:
    """A function of tensors of a type with one axis."""

    function: Function
    type: TensorType

    @property
    def symbol(self) -> str:
        return f"loop_{self.function}_{self.type.dtype}_{self.type.size}"


def wanted_by(experiment: Experiment) -> list[Wanted]:
    """All that a run of the experiment asks for, each once."""
    by_path = {p.path: p.type for p in experiment.parameters}
    trained = [by_path[path] for update in experiment.updates for path in update.params]
    averaged = [b.type for b in experiment.buffers if b.type.is_float and not b.per_microbatch]
    terms = [o.type for g in experiment.graphs.values() for o in g.outputs if o.role == "step_term"]
    found = [("squares", type) for type in trained]
    found += [("finite", type) for type in (*trained, *(s.type for s in experiment.states)) if type.is_float]
    if experiment.run.clip_norm is not None:
        found += [("times", type) for type in trained]
    if experiment.run.microbatches > 1:
        found += [("plus", type) for type in (*trained, *averaged, *terms)]
        # A last microbatch may have fewer records than the others.
        found += [(name, type) for name in ("times", "over") for type in (*trained, *averaged)]
    wanted = [Wanted(function, TensorType((type.size,), type.dtype)) for function, type in found]  # type: ignore[arg-type]
    return list(dict.fromkeys(wanted))


@define(eq=False)
class Arithmetic:
    """Programs of the functions in `plans`, bound when first asked for."""

    plans: DevicePlans
    bind: Bind
    _made: dict[Wanted, DeviceProgram] = field(factory=dict, init=False)

    def __call__(self, function: Function, type: TensorType) -> DeviceProgram:
        wanted = Wanted(function, type)
        if wanted not in self._made:
            self._made[wanted] = self.bind(self.plans.plans[wanted.symbol])
        return self._made[wanted]


def arithmetic_module(context: Context, wanted: Iterable[Wanted]) -> Any:
    """A module with a graph for each function."""
    module = ir.Module.create(loc=context.location(None))
    for each in wanted:
        _function(module, context, each)
    return module


def _function(module: Any, context: Context, wanted: Wanted) -> None:
    empty = ir.FunctionType.get([], [], context=context.mlir)
    func = ir.Operation.create(
        "func.func",
        attributes={
            "sym_name": ir.StringAttr.get(wanted.symbol, context.mlir),
            "function_type": ir.TypeAttr.get(empty, context=context.mlir),
        },
        regions=1,
        loc=context.location(None),
        ip=ir.InsertionPoint(module.body),
    )
    block = func.regions[0].blocks.append()
    builder = Builder(context, ir.InsertionPoint(block))
    types = [wanted.type, *_OTHERS[wanted.function](wanted.type)]
    given = [Val(builder, block.add_argument(context.type(t), context.location(None)), t) for t in types]
    result = _BODIES[wanted.function](builder, *given)
    ir.Operation.create("func.return", operands=[result.value], loc=context.location(None), ip=ir.InsertionPoint(block))
    write_signature(
        func, [Input("value", f"x{i}", t) for i, t in enumerate(types)], [Output("value", "y", result.type)]
    )


def _plus(b: Builder, x: Val, y: Val) -> Val:
    return x + y


def _times(b: Builder, x: Val, factor: Val) -> Val:
    return x * b("broadcast", factor, shape=x.type.shape)


def _over(b: Builder, x: Val, divisor: Val) -> Val:
    return x / b("broadcast", divisor, shape=x.type.shape)


def _squares(b: Builder, x: Val) -> Val:
    """Whole blocks of a fixed length and what is left in the tensor's own type, their sums in double precision."""
    (size,) = x.type.shape
    whole = size - size % BLOCK
    sums = []
    if whole:
        blocks = b("reshape", _cut(b, x, 0, whole), shape=(whole // BLOCK, BLOCK))
        each = b("sum", blocks * blocks, axes=(1,), keepdims=False)
        sums.append(b("sum", b("cast", each, dtype="f64"), axes=(0,), keepdims=False))
    if whole < size or not size:
        rest = _cut(b, x, whole, size)
        sums.append(b("cast", b("sum", rest * rest, axes=(0,), keepdims=False), dtype="f64"))
    return sums[0] if len(sums) == 1 else sums[0] + sums[1]


def _finite(b: Builder, x: Val) -> Val:
    return b("all", b("isfinite", x), axes=(0,), keepdims=False)


def _cut(b: Builder, x: Val, start: int, stop: int) -> Val:
    return x if (start, stop) == (0, x.type.size) else b("slice", x, start=(start,), stop=(stop,), step=(1,))


def _nothing(type: TensorType) -> list[TensorType]:
    return []


def _same(type: TensorType) -> list[TensorType]:
    return [type]


def _number(type: TensorType) -> list[TensorType]:
    return [TensorType((), type.dtype)]


_BODIES: Mapping[Function, Callable[..., Val]] = {
    "plus": _plus,
    "times": _times,
    "over": _over,
    "squares": _squares,
    "finite": _finite,
}
_OTHERS: Mapping[Function, Callable[[TensorType], list[TensorType]]] = {
    "plus": _same,
    "times": _number,
    "over": _number,
    "squares": _nothing,
    "finite": _nothing,
}
