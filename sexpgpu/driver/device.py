"""The engine the loop is given on a device that runs kernels: graphs by their plans of launches, in its memory.

Graphs that take nothing, which draw the first tensors, run on the host and what they give is uploaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import Factory, define, field, frozen

from sexpgpu.diag import Span
from sexpgpu.driver.arithmetic import Arithmetic, arithmetic_module, wanted_by
from sexpgpu.driver.compile import Compilation
from sexpgpu.driver.device_memory import squares_of
from sexpgpu.driver.indices import index_fields
from sexpgpu.driver.kernels import kernels_of
from sexpgpu.driver.pipeline import EVERY, whole
from sexpgpu.driver.retrace import function_of, traced_again, traced_with
from sexpgpu.experiment import Experiment, Graph
from sexpgpu.gpu.arrays import DeviceArrays
from sexpgpu.gpu.driver import Function
from sexpgpu.gpu.memory import Pool
from sexpgpu.gpu.narrow import Narrowing
from sexpgpu.gpu.program import DeviceArena, DeviceProgram, Narrowed, Origin
from sexpgpu.gpu.updates import DeviceUpdates
from sexpgpu.interp import Program
from sexpgpu.passes.gpu.plans import device_plans_of
from sexpgpu.passes.planned import plan_of
from sexpgpu.plan.records import DevicePlans
from sexpgpu.plan.together import updating
from sexpgpu.runtime.engine import Array, Executable
from sexpgpu.runtime.planned import Planned


@frozen(eq=False)
class _Loaded:
    """Plans whose kernels the device has, and what makes the narrow parameters that their graphs read."""

    plans: DevicePlans
    functions: Mapping[str, Function]
    narrowed: Narrowed


@define(eq=False)
class Resized:
    """Graphs compiled again for batches of another size, once for all ranks of a process."""

    compilation: Compilation
    chip: str
    _plans: dict[tuple[str, int], DevicePlans] = field(factory=dict, init=False)

    def plans(self, graph: str, rows: int) -> DevicePlans:
        assert self.compilation.experiment is not None
        key = (traced_with(self.compilation.experiment, graph), rows)
        if key not in self._plans:
            self._plans[key] = device_plans_of(traced_again(self.compilation, *key, whole("cuda", self.chip)))
        return self._plans[key]


@define(eq=False)
class DeviceEngine:
    """Runs an experiment's graphs on a device; a batch of another size is traced and compiled again at that size.

    `planned` is what the run holds at once. With `rounding` gradients travel to other machines as bf16. Ranks of a
    process share what is `resized`.
    """

    compilation: Compilation
    plans: DevicePlans
    pool: Pool
    device: str
    chip: str
    planned: Planned
    rounding: bool = False
    resized: Resized = field(default=Factory(lambda self: Resized(self.compilation, self.chip), takes_self=True))
    arrays: DeviceArrays = field(init=False)
    _arena: DeviceArena = field(init=False)
    _loaded: _Loaded = field(init=False)
    _resized: dict[tuple[str, int], _Loaded] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._arena = DeviceArena(self.pool)
        self._loaded = self._load(self.plans)
        context = self.compilation.context
        together = updating(self.experiment, self.plans.plans).graphs
        wanted = wanted_by(self.experiment, self.rounding, together, squares_of(self.plans.plans.values()))
        module = arithmetic_module(context, wanted)
        loop = self._load(kernels_of(module, context, f"cuda:{self.chip}", EVERY))
        bind = Arithmetic(wanted, loop.plans, lambda plan: DeviceProgram(plan, loop.functions, self._arena))
        self.arrays = DeviceArrays(self.pool, bind, self.planned)

    @property
    def experiment(self) -> Experiment:
        assert self.compilation.experiment is not None
        return self.compilation.experiment

    def executable(self, graph: str, rows: int | None = None) -> Executable:
        """The program of a graph, at `rows` records where that is not the graph's own size."""
        spec = self.experiment.graphs[graph]
        if not spec.inputs:
            return Program(plan_of(function_of(self.compilation.module, spec.symbol)))
        loaded = self._loaded
        if rows is not None and rows != spec.rows:
            key = (traced_with(self.experiment, graph), rows)
            if key not in self._resized:
                self._resized[key] = self._load(self.resized.plans(graph, rows))
            loaded = self._resized[key]
        explain = _OnHost(self.compilation, spec, rows if rows is not None else spec.rows)
        return DeviceProgram(loaded.plans.plans[spec.symbol], loaded.functions, self._arena, explain, loaded.narrowed)

    def updater(self) -> DeviceUpdates | None:
        """The updates whose kernels take many parameters, as one program."""
        found = updating(self.experiment, self._loaded.plans.plans)
        if found.together is None:
            return None
        program = DeviceProgram(found.together.plan, self._loaded.functions, self._arena)
        return DeviceUpdates(found.graphs, found.together, program, self.arrays)

    def index_fields(self, graph: str, span: Span) -> tuple[str, ...]:
        """The fields of the graph's batch whose numbers the form at `span` takes as indices."""
        return index_fields(function_of(self.compilation.module, self.experiment.graphs[graph].symbol), span)

    def _load(self, plans: DevicePlans) -> _Loaded:
        functions: dict[str, Function] = {}
        for module in plans.modules:
            functions |= self.pool.driver.load(module)
        return _Loaded(plans, functions, Narrowing(plans.plans, functions, self._arena))


@define(eq=False)
class _OnHost:
    """Says what first is not finite in a graph that reads a batch, which is compiled for the host when it is asked."""

    compilation: Compilation
    spec: Graph
    rows: int | None
    _program: Program | None = field(default=None, init=False)

    def __call__(self, inputs: Sequence[Array]) -> Origin | None:
        if self._program is None:
            assert self.rows is not None
            module = traced_again(self.compilation, self.spec.name, self.rows, whole("cpu"))
            self._program = Program(plan_of(function_of(module, self.spec.symbol)))
        return self._program.origin_not_finite(inputs)
