"""Tracing with stand-ins for the parts of an experiment that failed, only to find the faults in what is left.

A model that could not be made is poison in the graphs, and each `defmodel` of the file is made with poison for its
arguments. An optimizer that could not be made is one of each `defoptimizer`, and where there is no parameter a matrix
stands in for one: what is wrong with its shape is no fault of the file's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sexpgpu.diag import Diagnostic
from sexpgpu.lang.functions import info_of_function
from sexpgpu.lang.poison import Poison
from sexpgpu.lang.session import Session
from sexpgpu.trace.contract import Contract
from sexpgpu.trace.declarations import EvaluationValue
from sexpgpu.trace.graph import GraphTrace
from sexpgpu.trace.models import Model, Parameter, name_tree, settle
from sexpgpu.trace.tracer import Tracer

ANY_SHAPE = (2, 3)


def stand_in_parameter(tracer: Tracer) -> Parameter:
    """A parameter for the update of an optimizer whose members are not known."""
    return Parameter("parameter", ANY_SHAPE, tracer.float_type, lambda shape: 0.0, path="parameter")


def stand_in_evaluations(session: Session, contract: Contract) -> list[EvaluationValue]:
    """An evaluation of `evaluate` where those that the file declares failed."""
    if contract.evaluate is None or not session.failed("defeval"):
        return []
    return [EvaluationValue("evaluation", Poison(session.diagnostics.errors[0]))]


def made_by(session: Session, head: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions that forms with this head defined in the file, by name."""
    for name, found in session.module.heads.items():
        function = session.function(name.name) if found == head else None
        if function is not None:
            yield name.name, function


def trace_model(tracer: Tracer, name: str, function: Callable[..., Any], failed: Poison) -> None:
    """Make a model of a `defmodel` and call it, with poison for all that it takes."""
    made = function(*_poisoned(function, failed))
    if isinstance(made, Model) and made.forward is not None:
        name_tree(made, name)
        settle(made, tracer.float_type)
        graph = GraphTrace(tracer, f"forward of {name}", training=True, rows=1, stream="train", prefix="train")
        with graph.tracing():
            made.lisp_call(*_poisoned(made.forward, failed))


def _poisoned(function: Callable[..., Any], failed: Poison) -> list[Any]:
    info = info_of_function(function)
    return [failed] * len(info.parameters.required) if info is not None else []


def unsaid(diagnostic: Diagnostic) -> None:
    """A warning that may only be due to what has failed."""
