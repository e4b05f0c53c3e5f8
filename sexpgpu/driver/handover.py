"""Going on from a dumped module: it takes the place of the traced one, at the stage that its file's name says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from attrs import evolve

from sexpgpu.diag import SxError, error
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.signature import read_graph
from sexpgpu.driver.entry import not_text
from sexpgpu.driver.pipeline import Passes, run_named, steps_of
from sexpgpu.experiment import Graph
from sexpgpu.passes.base import graphs
from sexpgpu.passes.verify import faults
from sexpgpu.trace.tracer import Tracer

_NAME = re.compile(r"(\d+)-([a-z0-9-]+)\.mlir")


def take_over(tracer: Tracer, context: Context, pipeline: str, passes: Passes) -> int:
    """Put the module of `passes.start` in place of the tracer's; the number of its stage.

    The traced module first runs to the same stage, which says what the graphs must be. E-IO-101 and E-IO-104 where
    the file cannot be read, E-IR-014 where its name says no stage, E-IR-001 and E-IR-020 where it is no valid module,
    E-IR-015 where it does not hold the experiment's graphs.
    """
    assert passes.start is not None
    path = passes.start
    text = _text(path)
    number = _stage(path, pipeline)
    run_named(tracer.module, context, pipeline, evolve(passes, until=number, observer=None, part=None))
    module = context.parse_module(text, str(path))
    for fault in faults(module):
        raise SxError(fault)
    _require_same(_signatures(tracer.module), _signatures(module), path)
    tracer.module = module
    return number


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise error("E-IO-101", f"there is no file {path}", expected="a module that SEXPGPU_DUMP wrote") from None
    except UnicodeDecodeError as fault:
        raise not_text(str(path), str(path), fault) from None
    except OSError as fault:
        raise error("E-IO-104", f"{path} cannot be read", actual=str(fault.strerror)) from None


def _stage(path: Path, pipeline: str) -> int:
    stages = ["00-traced", *(step.stage for step in steps_of(pipeline))]
    named = _NAME.fullmatch(path.name)
    if named is None or path.stem not in stages:
        raise error(
            "E-IR-014",
            f"the name of {path} says no stage of the pipeline {pipeline}",
            expected="one of " + ", ".join(f"{stage}.mlir" for stage in stages),
        )
    return int(named[1])


def _signatures(module: Any) -> dict[str, Graph]:
    """Each graph without the places of its results: a dump may have been edited without them."""
    read = [read_graph(func) for func in graphs(module)]
    return {g.name: evolve(g, outputs=tuple(evolve(o, span=None) for o in g.outputs)) for g in read}


def _require_same(wanted: dict[str, Graph], given: dict[str, Graph], path: Path) -> None:
    for name in dict.fromkeys([*wanted, *given]):
        if wanted.get(name) != given.get(name):
            ours, theirs = _parts(wanted.get(name)), _parts(given.get(name))
            raise error(
                "E-IR-015",
                f"{path} is not a module of this experiment: graph `{name}` is another",
                expected=_told(ours, theirs),
                actual=_told(theirs, ours),
                help="dump it again from the same file under the same selection",
            )


def _parts(graph: Graph | None) -> list[str]:
    """What the arguments and results of a graph are, and what else its record says."""
    if graph is None:
        return []
    signature = [f"argument {i.role} {i.name}: {i.type}" for i in graph.inputs]
    signature += [f"result {o.role} {o.name}: {o.type}" for o in graph.outputs]
    return [*signature, f"{graph.rows} rows, counters {dict(graph.counters)}"]


def _told(here: list[str], there: list[str]) -> str:
    """The first of what only this side has."""
    if not here:
        return "no such graph"
    return next((part for part in here if part not in there), "the same parts, otherwise ordered or marked")
