"""to-gpu: every group and every lone operation of a graph becomes kernels, written in `gpu.func`s of one `gpu.module`.

    %y = call @pointwise_1(%x)                  %y = call @pointwise_1(%x)
                                           =>   func.func private @pointwise_1(%x) -> %y
                                                    attributes {sx.kernels = [{kernel = @pointwise_1, grid = ...}], ...}
                                                gpu.module @kernels { gpu.func @pointwise_1(%x, %y) kernel { ... } }

The function keeps its body, which says what the kernels compute. A kernel takes the buffers behind its operands; the
strides of views are written into it, so views cost nothing and groups that differ in them are kernels of their own.
Groups that are equal in everything become one. Graphs without arguments run once, on the host, and stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any, ClassVar, cast

from attrs import define, evolve, field
from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.groups import Family, Outliner, group_of
from sexpgpu.dialects.loops import Loop, call_loop, loop_of
from sexpgpu.dialects.opdef import (
    Composite,
    Constant,
    Contract,
    Index,
    Kind,
    Move,
    Order,
    Pointwise,
    Random,
    Reduce,
    Row,
    Scan,
    Window,
)
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import definition_of
from sexpgpu.dialects.signature import input_roles, type_of
from sexpgpu.passes.base import Pass, graphs
from sexpgpu.passes.flow import operations_of, read_flow
from sexpgpu.passes.gpu.annotation import write_launches
from sexpgpu.passes.gpu.gradient_squares import GradientSquares, sum_up
from sexpgpu.passes.gpu.joined import join_results
from sexpgpu.passes.gpu.kernel import KernelModule
from sexpgpu.passes.gpu.library import library_for
from sexpgpu.passes.gpu.library_attention import zero_operands
from sexpgpu.passes.gpu.members import Members, members_of
from sexpgpu.passes.gpu.modules import require_chip
from sexpgpu.passes.gpu.multi_tensor import Names
from sexpgpu.passes.gpu.multi_tensor import lower as lower_many
from sexpgpu.passes.gpu.primitive import primitive_flow
from sexpgpu.passes.gpu.product_squares import Tiles
from sexpgpu.passes.gpu.recurrence import lower as lower_recurrence
from sexpgpu.passes.gpu.recurrence import recurrence_of
from sexpgpu.passes.gpu.task import Task
from sexpgpu.passes.gpu.views import Views
from sexpgpu.plan.records import Launches

MODULE = "kernels"
FILES: dict[Family, str] = {
    "pointwise": "pointwise",
    "update": "pointwise",
    "row": "reduction",
    "column": "reduction",
    "product": "product",
    "index": "index",
    "order": "order",
    "scan": "scan",
    "window": "window",
    "attention": "attention",
}
"""The file that lowers each family."""


Lower = Callable[[Task], Launches]
_SWAPPED = (0, 2, 1, 3)


@dataclass(frozen=True)
class ToGpu(Pass):
    """Kernels for all that a device runs, with what `chip` has; with `tf32` products may round factors of f32 to it."""

    name: ClassVar[str] = "to-gpu"
    chip: str = "sm_80"
    tf32: bool = False

    def run(self, module: Any, context: Context) -> str:
        require_chip(self.name, self.chip)
        target = KernelModule(context, _gpu_module(module, context), self.chip)
        device = _Device(module, context, target, self.tf32)
        for func in graphs(module):
            if len(func.regions[0].blocks[0].arguments):
                device.lower(func)
        return f"{device.kernels} kernels for {device.calls} calls"


@define(eq=False)
class _Device:
    """The module with the kernels it has so far, by what they do."""

    module: Any
    context: Context
    target: KernelModule
    tf32: bool = False
    calls: int = 0
    kernels: int = 0
    _outliner: Outliner = field(init=False)
    _bodies: set[str] = field(factory=set, init=False)
    _known: dict[Hashable, tuple[str, Tiles | None]] = field(factory=dict, init=False)
    _many: dict[Hashable, Names] = field(factory=dict, init=False)
    _updates: dict[str, bool] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._outliner = Outliner(self.module, self.context)

    def lower(self, func: Any) -> None:
        join_results(func, self._outliner, self.context)
        views = Views()
        squares = GradientSquares(func.operation, self.context)
        operations = operations_of(func)
        for op, behind in pairwise(operations):
            if (found := loop_of(op)) is not None:
                if recurrence_of(self.context, op, *found) is not None:
                    self._call(self._outlined("scan", op, behind), views)
                    continue
                self._loop(op, found[0], views)
                self._lower_body(found[1])
                continue
            call = op if group_of(op) is not None else self._alone(op, behind, views)
            if call is not None:
                self._call(call, views, squares=squares)
        self._results(operations[-1], views)
        squares.finish()

    def _results(self, end: Any, views: Views) -> None:
        """What a function gives lies dense in memory: a view that does not is copied."""
        for place, value in enumerate(end.operands):
            end.operands[place] = self._dense(value, end, views)

    def _dense(self, value: Any, before: Any, views: Views) -> Any:
        """A value whose elements lie one behind another from its buffer's first: itself, or a copy by a kernel."""
        layout = views.layout(value)
        if layout.is_dense and not layout.offset:
            return value
        builder = Builder(self.context, ir.InsertionPoint(before), before.location)
        copy = builder("stop_gradient", Val(builder, value, type_of(value))).value.owner
        call, _ = self._outliner.outline(
            "pointwise", [copy], before, copied=(), operands=[value], results=list(copy.results)
        )
        self._call(call, views)
        return call.results[0]

    def _loop(self, op: Any, loop: Loop, views: Views) -> None:
        """Make a loop whose operands lie dense, and whose items and outs run along their first axes."""
        builder = Builder(self.context, ir.InsertionPoint(op), op.location)

        def moved(value: Any, perm: list[int]) -> Any:
            view = builder("transpose", Val(builder, value, type_of(value)), perm=tuple(perm)).value
            views.shows(view.owner, OPS["transpose"])
            return view

        operands = list(op.operands)
        for place, axis in enumerate(loop.items, loop.states):
            if axis:
                rank = type_of(operands[place]).rank
                operands[place] = moved(operands[place], [axis, *(i for i in range(rank) if i != axis)])
        operands = [self._dense(value, op, views) for value in operands]
        if operands == list(op.operands) and not any(loop.outs):
            return
        first = evolve(loop, items=(0,) * len(loop.items), outs=(0,) * len(loop.outs))
        name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        given = [Val(builder, value, type_of(value)) for value in operands]
        results = [v.value for v in call_loop(builder, self.module.operation, first, name, given)]
        for place, axis in enumerate(loop.outs, loop.states):
            if axis:
                rest = type_of(results[place]).rank - 1
                results[place] = moved(results[place], [*range(1, axis + 1), 0, *range(axis + 1, rest + 1)])
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses_with(new)
        self.context.erase(op)

    def _outlined(self, family: Family, op: Any, behind: Any) -> Any:
        """The call of a group of one operation, in that operation's place."""
        operands, results = list(dict.fromkeys(op.operands)), list(op.results)
        call, _ = self._outliner.outline(family, [op], behind, copied=(), operands=operands, results=results)
        return call

    def _lower_body(self, func: Any) -> None:
        """The body of a loop, which several loops may share."""
        symbol = ir.StringAttr(func.attributes["sym_name"]).value
        if symbol not in self._bodies:
            self._bodies.add(symbol)
            self.lower(func)

    def _alone(self, op: Any, behind: Any, views: Views) -> Any:
        """The call that a lone operation becomes; None for constants and views, which no kernel makes."""
        record = definition_of(op)
        assert record is not None
        if views.shows(op, record):
            return None
        ops, results, at = [op], list(op.results), behind
        back: list[Any] = []
        if isinstance(record.kind, Composite) and record.kind.family == "attention":
            ops, results, back = self._rows_first(op, behind)
            at = back[0] if back else behind
        operands = list(dict.fromkeys(op.operands))
        call, _ = self._outliner.outline(family_of(record.kind), ops, at, copied=(), operands=operands, results=results)
        for view in back:
            views.shows(view, OPS["transpose"])
        return call

    def _rows_first(self, op: Any, behind: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Attention with its results [batch, heads, rows, length] moved to [batch, rows, heads, length].

        What comes after joins the heads of a row, which is a view then and would be a copy otherwise. Gives the
        operations, their results, and the views that the readers of the old results have instead.
        """
        builder = Builder(self.context, ir.InsertionPoint(behind), op.location)
        ops, results, views = [op], [], []
        for value in op.results:
            if type_of(value).rank != 4 or len(op.results) == 1:
                results.append(value)
                continue
            moved = builder("transpose", Val(builder, value, type_of(value)), perm=_SWAPPED)
            back = builder("transpose", moved, perm=_SWAPPED).value
            value.replace_all_uses_except(back, moved.value.owner.operation)
            ops.append(moved.value.owner)
            results.append(moved.value)
            views.append(back.owner)
        return ops, results, views

    def _call(self, call: Any, views: Views, squares: GradientSquares | None = None) -> None:
        """Kernels for a group, with the `squares` of a gradient."""
        found = group_of(call)
        assert found is not None
        group, func = found
        layouts = tuple([views.layout(v) for v in call.operands])
        zeros = zero_operands(call) if group.family == "attention" else frozenset()
        text = _unnamed(func)
        loop = _loop_in(func) if group.family == "scan" else None
        if loop is not None:
            name = ir.FlatSymbolRefAttr(loop.attributes["callee"]).value
            text = text.replace(f"@{name}(", "@(") + _loop_text(loop)
        self.calls += 1
        place = squares.place(call, group) if squares is not None else -1
        members = members_of(call) if self._is_update(call.operation.parent) else None
        key = text, layouts, zeros, place, members
        if key in self._known:
            same, tiles = self._known[key]
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(same, context=self.context.mlir)
            func.erase()
            if squares is not None and tiles is not None:
                squares.give(call, place, tiles)
            return
        task = Task(self.target, group.symbol, primitive_flow(self.context, func), layouts, self.tf32, place)
        lowered = self._recurrence(task, loop) if loop is not None else self._of_many(task, members)
        lowered = lowered or _lower(group.family, task)
        whole = Task(self.target, group.symbol, read_flow(func), layouts, self.tf32)
        write_launches(func, evolve(lowered, library=library_for(group.family, whole, zeros)))
        self.kernels += len(lowered.kernels)
        self._known[key] = group.symbol, task.tiles
        if squares is not None and task.tiles is not None:
            sum_up(func, place, task.tiles, self.context)
            squares.give(call, place, task.tiles)

    def _is_update(self, func: Any) -> bool:
        """Whether a graph takes a gradient."""
        symbol = ir.StringAttr(func.attributes["sym_name"]).value
        if symbol not in self._updates:
            self._updates[symbol] = "grad" in input_roles(func)
        return self._updates[symbol]

    def _of_many(self, task: Task, members: Members | None) -> Launches | None:
        """Kernels that update many tensors at once, where a group is an update that has such."""
        return lower_many(task, members, self._many) if members is not None else None

    def _recurrence(self, task: Task, op: Any) -> Launches:
        """The kernel of a group around a loop."""
        found = loop_of(op)
        assert found is not None
        recurrence = recurrence_of(self.context, op, *found)
        assert recurrence is not None
        return lower_recurrence(task, recurrence)


def _unnamed(func: Any) -> str:
    """The text of a function without its name."""
    name = ir.StringAttr(func.attributes["sym_name"]).value
    return cast(str, func.operation.get_asm(use_local_scope=True)).replace(f"@{name}(", "@(", 1)


def _loop_in(func: Any) -> Any:
    """The loop of a group that is one, else None."""
    return next((op for op in operations_of(func) if loop_of(op) is not None), None)


def _loop_text(op: Any) -> str:
    """What the loop does that an operation calls."""
    found = loop_of(op)
    assert found is not None
    loop, body = found
    return repr(evolve(loop, body="")) + _unnamed(body)


def _lower(family: Family, task: Task) -> Launches:
    write = cast(Lower, import_module(f"sexpgpu.passes.gpu.{FILES[family]}").lower)
    return write(task)


def family_of(kind: Kind) -> Family:
    """The family of kernels that computes a lone operation."""
    match kind:
        case Pointwise() | Move() | Random() | Constant() | Index(access="read"):
            return "pointwise"
        case Reduce() | Row() | Composite(family="norm" | "cross_entropy"):
            return "row"
        case Contract():
            return "product"
        case Index():
            return "index"
        case Order():
            return "order"
        case Scan():
            return "scan"
        case Window():
            return "window"
        case Composite():
            return "attention"


def _gpu_module(module: Any, context: Context) -> Any:
    """The block of a new `gpu.module` at the end of the module."""
    mlir = context.mlir
    module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get(context=mlir)
    made = ir.Operation.create(
        "gpu.module",
        attributes={"sym_name": ir.StringAttr.get(MODULE, context=mlir)},
        regions=1,
        loc=context.location(None),
        ip=ir.InsertionPoint(module.body),
    )
    return made.regions[0].blocks.append()
