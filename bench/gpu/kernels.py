"""Every kernel that examples are made of, on random operands, beside the interpreter.

A graph is evaluated operation by operation. Where it calls a group that was not met before, the group's kernels run on
the device on the operands of that call, each in a buffer with the strides that the kernels were written for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen

from bench.gpu.cases import Checked, Setting
from bench.gpu.rows import Row
from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.groups import Group, group_of
from sexpgpu.dialects.loops import Loop, loop_of
from sexpgpu.dialects.opdef import Array, numpy_dtype
from sexpgpu.dialects.read import definition_of
from sexpgpu.dialects.signature import read_graph, type_of
from sexpgpu.driver.compile import compiling
from sexpgpu.driver.devices import Device, opened
from sexpgpu.driver.pipeline import whole
from sexpgpu.experiment import Graph, Input, Output
from sexpgpu.gpu.driver import Function
from sexpgpu.gpu.program import DeviceArena, DeviceProgram
from sexpgpu.interp.reference import evaluate, results_of
from sexpgpu.lang.selection import Selection
from sexpgpu.passes.base import graphs
from sexpgpu.passes.flow import operations_of
from sexpgpu.passes.gpu.annotation import read_launches
from sexpgpu.passes.gpu.layout import Layout
from sexpgpu.passes.gpu.plans import device_plans_of
from sexpgpu.passes.gpu.views import Views
from sexpgpu.plan.build import temporary_offsets
from sexpgpu.plan.records import Given, GraphPlan, Into, Launches, Memory, Slot, Step
from sexpgpu.tensortype import DType, TensorType

_FINER: Sequence[DType] = ("bf16", "f32", "f64")
"""From the coarsest."""
TOLERANCE: Mapping[DType, float] = {"f64": 1e-10, "f32": 1e-4, "bf16": 2**-6}
"""Of the largest number of a result: sums are in another order, and what bf16 rounds may fall to the other side."""
FLIPPED = 1e-4
"""The share of integers and bools that may differ: a comparison of two numbers that are nearly equal."""


def rows(setting: Setting, case: Checked) -> Iterator[Row]:
    """A row for each family of kernels: how many groups, and the worst error by its tolerance."""
    with opened(setting.device) as device:
        yield from _of_file(device, case.file, Selection(case.variant, case.sets))


def _of_file(device: Device, file: Path, selection: Selection) -> Iterator[Row]:
    with compiling(file, selection, pipeline=whole("cuda", device.chip)) as done:
        if not done.ok:
            said = [each.message for each in done.diagnostics.errors]
            yield Row("", file.stem, ok=False, note=f"does not compile: {said[:1]}")
            return
        functions: dict[str, Function] = {}
        assert device.pool is not None
        for module in device_plans_of(done.module).modules:
            functions |= device.pool.driver.load(module)
        checking = _Checking(device, functions)
        for func in graphs(done.module):
            checking.graph(func)
        for family, found in checking.families().items():
            worst = max(found, key=lambda each: each.error)
            wrong = [each.symbol for each in found if not each.error <= 1]
            note = f"{len(found)} groups, worst {worst.symbol}" + (f"; wrong: {', '.join(wrong)}" if wrong else "")
            yield Row("", f"{file.stem} {family}", worst.error, unit="of bound", ok=not wrong, note=note)


@frozen
class _Found:
    """A group's worst error by what is tolerated."""

    family: str
    symbol: str
    error: float


@define(eq=False)
class _Checking:
    """The kernels of one module, each group run at the first of its calls."""

    device: Device
    functions: Mapping[str, Function]
    found: list[_Found] = field(factory=list)
    _seen: set[str] = field(factory=set)
    _views: dict[Any, Views] = field(factory=dict)

    def families(self) -> dict[str, list[_Found]]:
        by_family: dict[str, list[_Found]] = {}
        for each in self.found:
            by_family.setdefault(each.family, []).append(each)
        return by_family

    def graph(self, func: Any) -> None:
        """Check the groups of a graph that takes something."""
        spec = read_graph(func)
        if spec.inputs:
            rng = np.random.default_rng(17)
            with np.errstate(all="ignore"):
                evaluate(func, [_drawn(given, rng) for given in spec.inputs], self._operation)

    def _operation(self, op: Any, operands: list[Array]) -> Sequence[Array]:
        results = results_of(op, operands)
        if (loop := loop_of(op)) is not None:
            self._first_turn(*loop, op, operands)
        elif (group := group_of(op)) is not None and group[0].symbol not in self._seen:
            self._seen.add(group[0].symbol)
            self._group(op, *group, operands, results)
        return results

    def _first_turn(self, loop: Loop, body: Any, op: Any, operands: list[Array]) -> None:
        last = loop.states + len(loop.items)
        if loop.turns([type_of(v) for v in op.operands]):
            items = [np.take(x, 0, axis) for x, axis in zip(operands[loop.states : last], loop.items, strict=True)]
            evaluate(body, [*operands[: loop.states], *items, *operands[last:]], self._operation)

    def _group(self, op: Any, group: Group, func: Any, operands: list[Array], wanted: Sequence[Array]) -> None:
        launches = read_launches(func)
        assert launches is not None
        launches = evolve(launches, library=None)  # kernels are what is checked
        layouts = [self._views_of(op.block).layout(v) for v in op.operands]
        types = [type_of(v) for v in op.operands]
        results = [type_of(v) for v in op.results]
        buffers = [_buffer(x, layout) for x, layout in zip(operands, layouts, strict=True)]
        flat = [TensorType(b.shape, type.dtype) for b, type in zip(buffers, types, strict=True)]
        assert self.device.pool is not None
        program = DeviceProgram(
            _plan(group.symbol, flat, results, launches), self.functions, DeviceArena(self.device.pool)
        )
        got = [array.numpy() for array in program(buffers)]
        self.device.pool.faults.check()
        kinds = [_coarsest(func, value) for value in operations_of(func)[-1].operands]
        errors = [error_of(g, w, kind) for g, w, kind in zip(got, wanted, kinds, strict=True)]
        self.found.append(_Found(group.family, group.symbol, max(errors, default=0.0)))

    def _views_of(self, block: Any) -> Views:
        if block not in self._views:
            views = Views()
            for op in operations_of(block.owner)[:-1]:
                record = definition_of(op)
                if record is not None:
                    views.shows(op, record)
            self._views[block] = views
        return self._views[block]


def _coarsest(func: Any, value: Any) -> DType:
    """The coarsest dtype that something which a group's result is made of was rounded to."""
    seen: dict[Any, DType] = {}
    for op in operations_of(func)[:-1]:
        for made in op.results:
            dtypes = [seen[operand] for operand in op.operands if operand in seen]
            dtypes += [type_of(made).dtype] if type_of(made).is_float else []
            if dtypes:
                seen[made] = min(dtypes, key=_FINER.index)
    return seen.get(value, type_of(value).dtype) if type_of(value).is_float else type_of(value).dtype


def _plan(symbol: str, operands: list[TensorType], results: list[TensorType], launches: Launches) -> GraphPlan:
    """A graph that is one call of a group."""
    count = len(operands)
    spec = Graph(
        symbol,
        symbol,
        tuple([Input("value", f"x{i}", type) for i, type in enumerate(operands)]),
        tuple([Output("value", f"y{i}", type) for i, type in enumerate(results)]),
    )
    slots = [Slot(type, Given(i)) for i, type in enumerate(operands)]
    slots += [Slot(type, Into(i)) for i, type in enumerate(results)]
    outs = tuple(range(count, len(slots)))
    arena = temporary_offsets(launches.temporaries)[-1]
    step = Step("call", tuple(range(count)), outs, how=launches, workspace=(0, arena))
    return GraphPlan(spec, tuple(slots), (step,), (), outs, Memory(arena, arena, 0))


def _buffer(array: Array, layout: Layout) -> Array:
    """A flat buffer in which a value lies as its layout says, zeros between."""
    flat = np.zeros(layout.reach, array.dtype)
    strides = tuple([step * flat.itemsize for step in layout.strides])
    if array.size:
        np.lib.stride_tricks.as_strided(flat[layout.offset :], layout.shape, strides)[...] = array
    return flat


def _drawn(given: Input, rng: np.random.Generator) -> Array:
    """A random argument: states are no less than 0, integers 0 or 1, since any may be an index."""
    type = given.type
    if not type.is_float:
        return np.asarray(rng.integers(2, size=type.shape), numpy_dtype(type.dtype))
    matrix = given.role in ("param", "narrow") and type.rank > 1
    width = 1 / math.sqrt(max(type.shape[-1:], default=1)) if matrix else 0.5
    array = np.asarray(rng.normal(0.0, width, type.shape), numpy_dtype(type.dtype))
    if given.role in ("state", "buffer", "ctx"):
        array = np.abs(array)
    return round_bf16(array) if type.dtype == "bf16" else array


def error_of(got: Array, want: Array, dtype: DType) -> float:
    """The worst difference by what is tolerated: 1 is just good, infinite where one is finite and the other is not."""
    if got.shape != want.shape:
        return math.inf
    if not got.size:
        return 0.0
    if dtype not in TOLERANCE:
        return float(np.mean(got != want)) / FLIPPED
    finite = np.isfinite(want)
    if not np.array_equal(finite, np.isfinite(got)):
        return math.inf
    scale = float(np.abs(want[finite]).max(initial=0.0))
    apart = float(np.abs(got[finite] - want[finite]).max(initial=0.0))
    return 0.0 if apart == 0 else apart / (TOLERANCE[dtype] * scale) if scale else math.inf
