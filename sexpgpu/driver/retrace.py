"""Graphs traced once more: at another number of records, or for another device."""

from __future__ import annotations

from typing import Any

from sexpgpu.driver.compile import Compilation
from sexpgpu.driver.memory import write_budget
from sexpgpu.driver.pipeline import run_named
from sexpgpu.experiment import Experiment
from sexpgpu.lang.active import activated
from sexpgpu.lang.limits import run_deep
from sexpgpu.passes.base import functions
from sexpgpu.trace.assemble import SUMS, TRAIN
from sexpgpu.trace.declarations import LoaderValue
from sexpgpu.trace.generators import trace_generator
from sexpgpu.trace.graphs import trace_evaluation, trace_train
from sexpgpu.trace.tracer import Tracer


def traced_with(experiment: Experiment, graph: str) -> str:
    """The first of the graphs that are traced together with a graph."""
    if graph in (TRAIN, SUMS):
        return TRAIN
    return next((g.init for g in experiment.generators if graph in (g.init, g.trip, g.emit)), graph)


def traced_again(done: Compilation, graph: str, rows: int, pipeline: str) -> Any:
    """A module of a graph that reads a batch, and of those that are traced with it, for batches of `rows` records,
    through a pipeline.
    """
    assert done.experiment is not None
    first = traced_with(done.experiment, graph)
    done.passes.tell_of(graph, rows)
    return run_deep(lambda: _traced(done, first, rows, pipeline))


def _traced(done: Compilation, graph: str, rows: int, pipeline: str) -> Any:
    assert done.traced is not None
    assert done.experiment is not None
    tracer = Tracer(done.context, done.traced.run, done.traced.tracer.sizes)
    contract, declared = done.traced.contract, done.declared
    generator = next((g.name for g in done.experiment.generators if g.init == graph), None)
    with activated(done.session):
        if graph == TRAIN:
            trace_train(tracer, contract, rows)
        elif generator is not None:
            clauses = next(g for g in declared.generators if g.name == generator)
            assert isinstance(contract.train_loader, LoaderValue)
            trace_generator(tracer, contract.train_loader, clauses, declared.flags, rows)
        else:
            evaluation = next(e for e in declared.evaluations if e.name == graph)
            trace_evaluation(tracer, contract, evaluation, rows)
    write_budget(done.traced, tracer.module)
    run_named(tracer.module, done.context, pipeline, done.passes.again(f"{graph}-{rows}"))
    return tracer.module


def function_of(module: Any, symbol: str) -> Any:
    """The `func.func` of that symbol."""
    return next(f for f in functions(module) if f.attributes["sym_name"].value == symbol)
