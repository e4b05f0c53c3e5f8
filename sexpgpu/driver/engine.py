"""The engine the loop is given on a CPU: graphs by their plans, in one arena."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from sexpgpu import knobs
from sexpgpu.diag import Span
from sexpgpu.driver.compile import Compilation
from sexpgpu.driver.indices import index_fields
from sexpgpu.driver.pipeline import whole
from sexpgpu.driver.planning import by_module
from sexpgpu.driver.retrace import function_of, traced_again, traced_with
from sexpgpu.experiment import Experiment
from sexpgpu.interp import Arena, Program
from sexpgpu.interp.check import Checked
from sexpgpu.interp.reference import Reference
from sexpgpu.passes.planned import plan_of

CpuProgram = Program | Reference | Checked


@define(eq=False)
class CpuEngine:
    """Runs an experiment's graphs with NumPy; a batch of another size is traced again at that size.

    Graphs without a plan in `compilation.plans` are planned as the module has them. SEXPGPU_CPU and SEXPGPU_CHECK say
    how they run.
    """

    compilation: Compilation
    device: str = "cpu interpreter"
    _arena: Arena = field(factory=Arena, init=False)
    _resized: dict[tuple[str, int], Any] = field(factory=dict, init=False)

    @property
    def experiment(self) -> Experiment:
        assert self.compilation.experiment is not None
        return self.compilation.experiment

    def executable(self, graph: str, rows: int | None = None) -> CpuProgram:
        """The program of a graph, at `rows` records where that is not the graph's own size."""
        spec = self.experiment.graphs[graph]
        if rows is None or rows == spec.rows:
            kept = (self.compilation.plans or {}).get(spec.symbol)
            if kept is not None and not by_module():
                return Program(kept, self._arena)
            return self._program(function_of(self.compilation.module, spec.symbol))
        key = (traced_with(self.experiment, graph), rows)
        if key not in self._resized:
            self._resized[key] = traced_again(self.compilation, graph, rows, whole("cpu"))
        return self._program(function_of(self._resized[key], spec.symbol))

    def updater(self) -> None:
        """NumPy gains nothing by more tensors at once."""

    def _program(self, func: Any) -> CpuProgram:
        program = Program(plan_of(func), self._arena)
        if knobs.CPU.get() == "reference":
            return Reference(func, program)
        return Checked(program, func) if knobs.CHECK.get() else program

    def index_fields(self, graph: str, span: Span) -> tuple[str, ...]:
        """The fields of the graph's batch whose numbers the form at `span` takes as indices."""
        return index_fields(function_of(self.compilation.module, self.experiment.graphs[graph].symbol), span)
