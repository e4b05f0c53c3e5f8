"""What two compilations differ in: facts of each by section, and the rows in which they do not agree.

Facts are plain data for JSON, under keys that mean the same on both sides. Behind the facts that `explain` reports
stands a digest of each graph's operations, so that two experiments without a row compute the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import asdict, frozen, has

from sexpgpu.data.source import Declared, kind
from sexpgpu.driver.compile import Compilation
from sexpgpu.driver.diff_graphs import GraphFacts, Row, graph_facts, graph_rows
from sexpgpu.driver.explain import explain
from sexpgpu.experiment import Experiment

SECTIONS = ("knobs", "parameters", "graphs", "training step", "loaders", "generators", "optimizer groups")

SOURCES = Declared.__module__


@frozen
class Facts:
    """What is compared of a compilation: its graphs, and the values of every other section by their keys."""

    graphs: dict[str, GraphFacts]
    values: dict[str, dict[str, Any]]


def facts(done: Compilation) -> Facts:
    """Everything that is compared of a compilation without errors."""
    experiment, folder = done.experiment, done.path.resolve().parent
    assert experiment is not None
    report = explain(done)
    return Facts(
        graph_facts(done, report),
        {
            "knobs": {k["name"]: {"value": k["value"], "source": k["source"]} for k in report["selection"]},
            "parameters": _parameters(report),
            "training step": _step(report["step"], experiment),
            "loaders": dict(_loaders(experiment, folder)),
            "generators": dict(_generators(experiment, folder)),
            "optimizer groups": _groups(report["groups"]),
        },
    )


def difference(a: Facts, b: Facts) -> dict[str, list[Row]]:
    """The rows by section, sections without any left out; keys in the order of `a`, then those that only `b` has."""
    found = {section: list(_rows(a.values[section], b.values[section])) for section in a.values}
    reseeded = any(row.key == "seed" for row in found["training step"])
    rows = graph_rows(a.graphs, b.graphs, lambda graph: _explained(graph, found), reseeded=reseeded)
    found["graphs"] = list(rows)
    return {section: found[section] for section in SECTIONS if found[section]}


def _rows(a: dict[str, Any], b: dict[str, Any]) -> Iterator[Row]:
    for key in [*a, *(key for key in b if key not in a)]:
        if a.get(key) != b.get(key):
            yield Row(key, a.get(key), b.get(key))


def _explained(graph: str, found: dict[str, list[Row]]) -> bool:
    """Whether rows of other sections tell why the operations of a graph differ."""
    role, _, of = graph.partition(" ")
    if role == "init" and not of.startswith("state "):
        return any(row.key == of for row in found["parameters"])
    if role not in ("init", "update", "view"):
        return False
    group = of.partition(" of ")[2] if role == "init" else of
    members = [side["group"] for row in found["parameters"] for side in (row.a, row.b) if side is not None]
    return group in members or any(row.key.startswith(f"{group} ") for row in found["optimizer groups"])


def _parameters(report: dict[str, Any]) -> dict[str, Any]:
    trained = {p["path"]: {key: p[key] for key in ("shape", "dtype", "group", "aliases")} for p in report["parameters"]}
    kept = {
        b["path"]: {"shape": b["shape"], "dtype": b["dtype"], "group": "buffer", "aliases": []}
        for b in report["buffers"]
    }
    return trained | kept


def _step(step: dict[str, Any], experiment: Experiment) -> dict[str, Any]:
    run = experiment.run
    same = ("precision", "steps", "epochs", "microbatches", "batch", "records", "stages", "curriculum")
    found: dict[str, Any] = {key: step[key] for key in same}
    found |= {f"counter {name}": n for name, n in step["counters"].items()}
    found |= {f"evaluation {e['name']}": e for e in step["evaluations"]}
    found["checkpoints"] = {key: step[key] for key in ("checkpoint_every", "keep")} | {"keep_every": run.keep_every}
    found |= {"seed": step["seed"], "clip norm": step["clip_norm"], "peak activation": step["peak_activation_bytes"]}
    found |= {"log every": run.log_every, "max skipped": run.max_skipped, "deterministic": run.deterministic}
    return {key: value for key, value in found.items() if value is not None and value != []}


def _loaders(experiment: Experiment, folder: Path) -> Iterator[tuple[str, Any]]:
    """What each loader reads, leaf by leaf; batch sizes are facts of the training step."""
    loaders = {loader.name: loader for loader in (experiment.train_loader, *(e.loader for e in experiment.evaluations))}
    for name, loader in loaders.items():
        yield f"{name} order", loader.order
        for key, value in (("wrap", loader.wrap), ("index file", loader.index_file)):
            if value:
                yield from _leaves(f"{name} {key}", value, folder)
        if loader.seed != experiment.run.seed:
            yield f"{name} seed", loader.seed
        stages = [(f"{name} {stage.name}", stage.fields) for stage in loader.stages] or [(name, loader.fields)]
        for stage, fields in stages:
            for each in fields:
                yield from _leaves(f"{stage} {each.name}", _with_kind(None, None, each.source), folder)


def _generators(experiment: Experiment, folder: Path) -> Iterator[tuple[str, Any]]:
    for generator in experiment.generators:
        said = {key: value for key, value in _plain(generator).items() if key not in ("name", "init", "trip", "emit")}
        yield from _leaves(generator.name, said, folder)


def _leaves(key: str, value: Any, folder: Path) -> Iterator[tuple[str, Any]]:
    """The leaves of plain data; a path inside the experiment's folder counts from there, wherever that is."""
    match value:
        case dict():
            for name, inner in value.items():
                yield from _leaves(f"{key} {name.rstrip('_').replace('_', ' ')}", inner, folder)
        case list() if any(isinstance(inner, dict) for inner in value):
            for number, inner in enumerate(value):
                yield from _leaves(f"{key} {number}", inner, folder)
        case str() if Path(value).is_relative_to(folder):
            yield key, Path(value).relative_to(folder).as_posix()
        case None | []:
            return
        case _:
            yield key, value


def _plain(record: Any) -> dict[str, Any]:
    """A record as plain data without its span."""
    return asdict(record, filter=lambda attribute, _: attribute.name != "span", value_serializer=_with_kind)


def _with_kind(owner: Any, attribute: Any, value: Any) -> Any:
    """A source says its kind: it is one of several records."""
    if type(value).__module__ == SOURCES and type(value) is not Declared and has(type(value)):
        return {"kind": kind(value), **_plain(value)}
    return list(value) if isinstance(value, tuple) else value


def _groups(groups: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        f"{g['name']} {key}": g[key]
        for g in groups
        for key in ("optimizer", "selector", "members", "states", "constants")
    }
