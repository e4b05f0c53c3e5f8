"""What the compiler made of a file, as data: the sections of `explain` and of its JSON document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sexpgpu import __version__
from sexpgpu.diag import CallSite, Span
from sexpgpu.dialects.locations import path_of, span_of
from sexpgpu.dialects.loops import loop_of
from sexpgpu.dialects.opdef import (
    Composite,
    Constant,
    Contract,
    Index,
    Move,
    OpDef,
    Order,
    Pointwise,
    Random,
    Reduce,
    Row,
    Scan,
    Window,
)
from sexpgpu.dialects.read import definition_of
from sexpgpu.dialects.signature import type_of
from sexpgpu.driver.compile import LIBRARY, Compilation
from sexpgpu.driver.islands import Policy
from sexpgpu.driver.planning import load
from sexpgpu.experiment import Evaluation, Experiment, Graph
from sexpgpu.passes.base import functions, graphs
from sexpgpu.tensortype import TensorType

LARGEST = 10
"""How many tensors of a graph the report lists."""

FAMILIES = (
    *("input", "const", "unary", "binary", "compare", "select", "reduce", "shape"),
    *("product", "row", "composite", "index", "window", "scan", "order", "random", "loop"),
)
"""What operations are counted under, in the order of the report."""

_OF_KIND: dict[type[Any], str] = {
    Composite: "composite",
    Constant: "const",
    Contract: "product",
    Index: "index",
    Move: "shape",
    Order: "order",
    Random: "random",
    Reduce: "reduce",
    Row: "row",
    Scan: "scan",
    Window: "window",
}


def explain(done: Compilation) -> dict[str, Any]:
    """The report of a compilation without errors, section by section, ready for JSON."""
    experiment = done.experiment
    assert experiment is not None
    run = experiment.run
    selection = [{"name": "variant", "value": done.selection.variant, "source": None}] if done.selection.variant else []
    return {
        "file": done.path.name,
        "version": __version__,
        "precision": run.precision,
        "steps": run.steps,
        "epochs": run.epochs,
        "selection": selection
        + [{"name": k.name, "value": k.value, "source": k.source} for k in experiment.manifest.knobs],
        "parameters": [_parameter(p) for p in experiment.parameters],
        "buffers": [
            {"path": b.path, "shape": list(b.type.shape), "dtype": b.type.dtype, "elements": b.type.size}
            for b in experiment.buffers
        ],
        "groups": _groups(experiment),
        "graphs": _graphs(done, experiment),
        "step": _step(done, experiment),
        "islands": _islands(done, experiment),
        "passes": [
            {"pass": t.spec, "ms": round(t.ms, 3), "before": t.ops_before, "after": t.ops_after, "did": t.did}
            for t in done.timings
        ],
        "device": None,
    }


def _parameter(p: Any) -> dict[str, Any]:
    return {
        "path": p.path,
        "shape": list(p.type.shape),
        "dtype": p.type.dtype,
        "elements": p.type.size,
        "group": p.group,
        "aliases": list(p.aliases),
        "frozen": p.frozen,
        "place": str(p.span) if p.span else None,
    }


def _groups(experiment: Experiment) -> list[dict[str, Any]]:
    sizes = {p.path: p.type.size for p in experiment.parameters}
    states: Counter[str] = Counter()
    for state in experiment.states:
        states[state.param] += state.type.size
    return [
        {
            "name": g.name,
            "selector": g.selector,
            "optimizer": g.optimizer,
            "members": list(g.params),
            "elements": sum(sizes[p] for p in g.params),
            "states": list(g.states),
            "state_elements": sum(states[p] for p in g.params),
            "constants": sorted(g.constants),
        }
        for g in experiment.groups
    ]


def family(record: OpDef, result: TensorType) -> str:
    """The family that a report counts an operation under, by its kind."""
    if not isinstance(record.kind, Pointwise):
        return _OF_KIND[type(record.kind)]
    if result.dtype == "bool":
        return "compare"
    return {1: "unary", 2: "binary"}.get(len(record.operands), "select")


def _graphs(done: Compilation, experiment: Experiment) -> list[dict[str, Any]]:
    by_symbol = {g.symbol: g for g in experiment.graphs.values()}
    reports = []
    for func in graphs(done.module):
        graph = by_symbol[func.attributes["sym_name"].value]
        if not graph.name.startswith("init "):
            reports.append(_graph(func, graph, done.policies.get(graph.symbol)))
    return reports


def _graph(func: Any, graph: Graph, policy: Policy | None) -> dict[str, Any]:
    families: Counter[str] = Counter(input=len(graph.inputs))
    tensors: list[tuple[TensorType, str, Any]] = []
    operations = list(_operations(func))
    for op in operations:
        record = definition_of(op)
        name = record.name if record is not None else "scan"
        families[family(record, type_of(op.results[0])) if record is not None else "loop"] += 1
        for result in op.results:
            tensors.append((type_of(result), name, op.location))
    tensors.sort(key=lambda t: -t[0].size)
    return {
        "name": graph.name,
        "nodes": len(operations) + len(graph.inputs),
        "casts": policy.casts if policy is not None else 0,
        "ops": {name: families[name] for name in FAMILIES if families[name]},
        "emits": [f"{o.role} {o.name}" for o in graph.outputs if o.role in ("metric", "counter")]
        + (["metric train/loss"] if any(o.role == "loss" for o in graph.outputs) else [])
        + [f"counter {name}" for name, _ in graph.counters],
        "largest": [_tensor(*each) for each in tensors[:LARGEST]],
    }


def _tensor(kind: TensorType, op: str, location: Any) -> dict[str, Any]:
    made = {"op": op, "path": path_of(location) or None, "place": place_of(span_of(location))}
    return {"elements": kind.size, "shape": list(kind.shape), "dtype": kind.dtype, **made}


def _islands(done: Compilation, experiment: Experiment) -> list[dict[str, Any]]:
    """Where the graphs that a policy may round keep f32; nothing where it rounds none."""
    found = []
    for graph in experiment.graphs.values():
        policy = done.policies.get(graph.symbol)
        if policy is not None and (policy.casts or (experiment.run.precision == "bf16" and graph.rows is not None)):
            kept = [
                {"path": i.path or None, "place": place_of(i.span) if i.span else None, "ops": dict(i.ops)}
                for i in policy.islands
            ]
            found.append({"graph": graph.name, "kept": kept})
    return found


def _operations(func: Any) -> Iterator[Any]:
    """Every operation of a function, those of its loops' bodies behind each loop."""
    for op in [op.operation for op in func.regions[0].blocks[0].operations][:-1]:
        yield op
        if (found := loop_of(op)) is not None:
            yield from _operations(found[1])


def place_of(span: Span | None) -> str:
    """`file:line`, inside a standard module where the form leads there: its file as it is in the tree."""
    if span is None:
        return ""
    if isinstance(span, CallSite):
        span = span.inside
    file = Path(span.file)
    root = LIBRARY.parent.parent
    return f"{file.relative_to(root).as_posix() if file.is_relative_to(root) else span.file}:{span.line}"


def _step(done: Compilation, experiment: Experiment) -> dict[str, Any]:
    run, loader = experiment.run, experiment.train_loader
    train = experiment.graphs[experiment.train_graph]
    func = next(f for f in functions(done.module) if f.attributes["sym_name"].value == train.symbol)
    return {
        "microbatches": run.microbatches,
        "batch": loader.batch,
        "records": run.microbatches * loader.batch,
        "steps": run.steps,
        "epochs": run.epochs,
        "counters": {name: n * run.microbatches for name, n in train.counters},
        "stages": [stage.name for stage in loader.stages],
        "curriculum": _observed(experiment),
        "evaluations": [_evaluation(e) for e in experiment.evaluations],
        "checkpoint_every": run.checkpoint_every,
        "keep": run.keep,
        "precision": run.precision,
        "seed": run.seed,
        "clip_norm": run.clip_norm,
        "peak_activation_bytes": load(func).arena_bytes,
    }


def _observed(experiment: Experiment) -> list[str]:
    """The metrics that the curriculum reads."""
    if experiment.curriculum is None:
        return []
    return [given.name for given in experiment.graphs[experiment.curriculum].inputs if given.role == "observed"]


def _evaluation(e: Evaluation) -> dict[str, Any]:
    return {
        "name": e.name,
        "every": e.every,
        "at": list(e.at),
        "at_start": e.at_start,
        "batches": e.batches,
        "batch": e.loader.batch,
    }
