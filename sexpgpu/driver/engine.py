"""The engine the loop is given on a CPU: graphs of the module as NumPy programs, loaded when first called."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from sexpgpu.diag import Span
from sexpgpu.driver.compile import Compilation, run_named
from sexpgpu.driver.indices import index_fields
from sexpgpu.driver.planning import load
from sexpgpu.experiment import Experiment
from sexpgpu.interp import Program
from sexpgpu.lang.active import activated
from sexpgpu.lang.limits import run_deep
from sexpgpu.passes.base import functions
from sexpgpu.trace.assemble import SUMS, TRAIN
from sexpgpu.trace.graph import Tracer
from sexpgpu.trace.graphs import trace_evaluation, trace_train


@define(eq=False)
class InterpreterEngine:
    """Runs an experiment's graphs with NumPy; a batch of another size is traced again at that size."""

    compilation: Compilation
    device: str = "cpu interpreter"
    _resized: dict[tuple[str, int], Any] = field(factory=dict, init=False)

    @property
    def experiment(self) -> Experiment:
        assert self.compilation.experiment is not None
        return self.compilation.experiment

    def executable(self, graph: str, rows: int | None = None) -> Program:
        """The program of a graph, at `rows` records where that is not the graph's own size."""
        spec = self.experiment.graphs[graph]
        if rows is None or rows == spec.rows:
            return load(_function(self.compilation.module, spec.symbol))
        key = (TRAIN if graph in (TRAIN, SUMS) else graph, rows)
        if key not in self._resized:
            self._resized[key] = run_deep(lambda: self._trace_again(*key))
        return load(_function(self._resized[key], spec.symbol))

    def index_fields(self, graph: str, span: Span) -> tuple[str, ...]:
        """The fields of the graph's batch whose numbers the form at `span` takes as indices."""
        return index_fields(_function(self.compilation.module, self.experiment.graphs[graph].symbol), span)

    def _trace_again(self, graph: str, rows: int) -> Any:
        done = self.compilation
        assert done.traced is not None
        tracer = Tracer(done.context, done.traced.run, done.traced.tracer.sizes)
        with activated(done.session):
            if graph == TRAIN:
                trace_train(tracer, done.traced.contract, rows)
            else:
                declared = next(e for e in done.declared.evaluations if e.name == graph)
                trace_evaluation(tracer, done.traced.contract, declared, rows)
        run_named(tracer.module, done.context, "shared")
        return tracer.module


def _function(module: Any, symbol: str) -> Any:
    return next(f for f in functions(module) if f.attributes["sym_name"].value == symbol)
