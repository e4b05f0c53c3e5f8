"""Graphs traced once more: at another number of records, or for another device."""

from __future__ import annotations

from typing import Any

from sexpgpu.driver.compile import Compilation
from sexpgpu.driver.memory import write_budget
from sexpgpu.driver.pipeline import run_named
from sexpgpu.lang.active import activated
from sexpgpu.lang.limits import run_deep
from sexpgpu.passes.base import functions
from sexpgpu.trace.assemble import SUMS, TRAIN
from sexpgpu.trace.graphs import trace_evaluation, trace_train
from sexpgpu.trace.tracer import Tracer


def traced_again(done: Compilation, graph: str, rows: int, pipeline: str) -> Any:
    """A module of the train graphs, or of one evaluation's, for batches of `rows` records, through a pipeline."""
    done.passes.tell_of(graph, rows)
    return run_deep(lambda: _traced(done, TRAIN if graph in (TRAIN, SUMS) else graph, rows, pipeline))


def _traced(done: Compilation, graph: str, rows: int, pipeline: str) -> Any:
    assert done.traced is not None
    tracer = Tracer(done.context, done.traced.run, done.traced.tracer.sizes)
    with activated(done.session):
        if graph == TRAIN:
            trace_train(tracer, done.traced.contract, rows)
        else:
            declared = next(e for e in done.declared.evaluations if e.name == graph)
            trace_evaluation(tracer, done.traced.contract, declared, rows)
    write_budget(done.traced, tracer.module)
    run_named(tracer.module, done.context, pipeline, done.passes.again(f"{graph}-{rows}"))
    return tracer.module


def function_of(module: Any, symbol: str) -> Any:
    """The `func.func` of that symbol."""
    return next(f for f in functions(module) if f.attributes["sym_name"].value == symbol)
