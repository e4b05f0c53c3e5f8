"""The loop's own arithmetic as graphs: sums, scales, norms, compiled for a device as those of an experiment are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen
from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.function import write_function
from sexpgpu.experiment import Experiment, InputRole, OutputRole
from sexpgpu.gpu.arrays import Function, Types, sums_type
from sexpgpu.gpu.program import DeviceProgram
from sexpgpu.plan.records import DevicePlans, GraphPlan
from sexpgpu.plan.together import together
from sexpgpu.runtime.norm import EPSILON
from sexpgpu.tensortype import TensorType

MANY: frozenset[Function] = frozenset({"plus", "over", "squares", "total", "finite"})
"""Functions of any number of tensors, of which each has elements."""
_EACH: frozenset[Function] = MANY - {"squares", "total", "finite"}
"""Those that give an element for each."""
Bind = Callable[[GraphPlan], DeviceProgram]
Given = Sequence[Val]


@frozen
class Wanted:
    """A function of tensors, of the types that `Kernels` names it by."""

    function: Function
    types: Types


def wanted_by(
    experiment: Experiment,
    rounding: bool = False,
    together: Collection[str] = (),
    squares: Iterable[TensorType] = (),
) -> list[Wanted]:
    """All that a run of the experiment asks for, each once; with `rounding` its gradients travel as bf16.

    The updates `together` are those whose kernels tell whether what they make is finite; `squares` are what comes of
    gradients' squares with these.
    """
    by_path = {p.path: p.type for p in experiment.parameters}
    graphs = experiment.graphs
    gradients = [o.type for o in graphs[experiment.train_graph].outputs if o.role == "grad"]
    terms = [o.type for g in graphs.values() for o in g.outputs if o.role == "step_term"]
    averaged = [b.type for b in experiment.buffers if b.type.is_float and not b.per_microbatch]
    fresh = [o.type for u in experiment.updates for o in graphs[u.graph].outputs if o.role in ("param", "state")]
    count = sum(type.size > 0 for type in gradients)
    wanted = [Wanted("norm", (sums_type(count),))] if count else []
    wanted += [Wanted("squares", _flat([type])) for type in gradients]
    wanted += [Wanted("total", _flat([type])) for type in squares]
    wanted += [Wanted("finite", _flat([type])) for type in (*gradients, *fresh) if type.is_float]
    if experiment.run.clip_norm is not None:
        wanted.append(Wanted("factors", (TensorType((), "f64"),)))
        # Kernels of many parameters scale gradients by themselves.
        alone = [path for update in experiment.updates if update.graph not in together for path in update.params]
        wanted += [Wanted("times", _flat([by_path[path]])) for path in alone]
    if experiment.run.microbatches > 1:
        wanted += [Wanted("plus", _flat([type])) for type in (*gradients, *averaged, *terms)]
        # A last microbatch may have fewer records than the others.
        for type in (*gradients, *averaged):
            wanted += [Wanted("times", _flat([type])), Wanted("over", _flat([type]))]
    if rounding:
        wanted += [Wanted("rounding", _flat([type])) for type in gradients if type.dtype == "f32"]
    return list(dict.fromkeys(w for w in wanted if w.function not in MANY or all(type.size for type in w.types)))


def _flat(types: Iterable[TensorType]) -> Types:
    return tuple([TensorType((type.size,), type.dtype) for type in types])


@define(eq=False)
class Arithmetic:
    """Programs of functions, bound when first asked for; `plans` has those of `arithmetic_module(wanted)`."""

    wanted: Sequence[Wanted]
    plans: DevicePlans
    bind: Bind
    _made: dict[Wanted, DeviceProgram] = field(factory=dict, init=False)

    def __call__(self, function: Function, types: Types) -> DeviceProgram:
        asked = Wanted(function, types)
        if asked not in self._made:
            self._made[asked] = self.bind(self._many(asked) if function in MANY else self._plan(asked))
        return self._made[asked]

    def _plan(self, asked: Wanted) -> GraphPlan:
        return self.plans.plans[_symbol(self.wanted.index(asked), asked)]

    def _many(self, asked: Wanted) -> GraphPlan:
        """The plan of a function of each of several tensors: it takes them in order, and gives their results so."""
        return together([self._plan(Wanted(asked.function, (type,))) for type in asked.types], asked.function).plan


def arithmetic_module(context: Context, wanted: Sequence[Wanted]) -> Any:
    """A module with a graph for each function."""
    module = ir.Module.create(loc=context.location(None))
    for number, each in enumerate(wanted):
        types = [*each.types, *_OTHERS[each.function](each.types)]
        arguments = [(_role(each.function, place), type) for place, type in enumerate(types)]
        gives: OutputRole = "grad" if each.function in _EACH else "value"
        write_function(module, context, _symbol(number, each), arguments, _BODIES[each.function], gives)
    return module


def _symbol(number: int, wanted: Wanted) -> str:
    return f"loop_{wanted.function}_{number + 1}"


def _role(function: Function, place: int) -> InputRole:
    """Of an argument: functions of many take what each tensor has of its own, as updates do."""
    if function not in MANY:
        return "value"
    return "grad" if place == 0 else "param"


def _plus(b: Builder, given: Given) -> list[Val]:
    x, y = given
    return [x + y]


def _times(b: Builder, given: Given) -> list[Val]:
    x, factor = given
    return [x * b("broadcast", factor, shape=x.type.shape)]


def _over(b: Builder, given: Given) -> list[Val]:
    x, divisor = given
    return [x / b("broadcast", divisor, shape=x.type.shape)]


def _rounding(b: Builder, given: Given) -> list[Val]:
    x, lacking = given
    whole = x + lacking
    nearest = b("cast", whole, dtype="bf16")
    return [nearest, whole - b("cast", nearest, dtype="f32")]


def _squares(b: Builder, given: Given) -> list[Val]:
    """Squares in the tensor's own type, their sum in double precision."""
    (x,) = given
    squares = x * x
    squares = squares if x.type.dtype == "f64" else b("cast", squares, dtype="f64")
    return [b("sum", squares, axes=(0,), keepdims=False)]


def _total(b: Builder, given: Given) -> list[Val]:
    return [b("sum", given[0], axes=(0,), keepdims=False)]


def _finite(b: Builder, given: Given) -> list[Val]:
    (x,) = given
    return [b("all", b("isfinite", x), axes=(0,), keepdims=False)]


def _norm(b: Builder, given: Given) -> list[Val]:
    """√Σ."""
    return [b("sqrt", b("sum", given[0], axes=(0,), keepdims=False))]


def _factors(b: Builder, given: Given) -> list[Val]:
    """min(1, limit / (norm + ε)) in the arithmetic of f64 and of f32, and the latter as bf16."""
    norm, limit, limit_f32 = given
    wide = _factor(b, norm, limit)
    narrow = _factor(b, b("cast", norm, dtype="f32"), limit_f32)
    return [wide, narrow, b("cast", narrow, dtype="bf16")]


def _factor(b: Builder, norm: Val, limit: Val) -> Val:
    return b("minimum", limit / (norm + EPSILON), b.constant(1.0, norm.type))


def _nothing(types: Types) -> Types:
    return ()


def _same(types: Types) -> Types:
    return types


def _number(types: Types) -> Types:
    return tuple([TensorType((), type.dtype) for type in types])


def _limits(types: Types) -> Types:
    return TensorType((), "f64"), TensorType((), "f32")


_BODIES: Mapping[Function, Callable[[Builder, Given], list[Val]]] = {
    "plus": _plus,
    "times": _times,
    "over": _over,
    "rounding": _rounding,
    "squares": _squares,
    "total": _total,
    "finite": _finite,
    "norm": _norm,
    "factors": _factors,
}
_OTHERS: Mapping[Function, Callable[[Types], Types]] = {
    "plus": _same,
    "times": _number,
    "over": _number,
    "rounding": _same,
    "squares": _nothing,
    "total": _nothing,
    "finite": _nothing,
    "norm": _nothing,
    "factors": _limits,
}
"""What a function takes behind the tensors that it is named by."""
