"""What the graphs of two compilations differ in: operations by family, largest tensors, and a digest of the rest."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from attrs import evolve, frozen
from mlir import ir

from sexpgpu.dialects.loops import CALL, function
from sexpgpu.driver.compile import Compilation
from sexpgpu.driver.explain_text import tensors_shown
from sexpgpu.passes.base import graphs

CODE = "code"
"""The last word of the key under which a graph's digest is."""

_KEY = re.compile(r"\bkey = -?\d+ : i64")
_TYPE = re.compile(r" \w+\[[\d, ]*\]$")


@frozen
class Row:
    """A key whose values differ; None where a side does not have it."""

    key: str
    a: Any
    b: Any


@frozen
class GraphFacts:
    """A graph, or all those that update one group: how much of what there is, and a digest of its operations.

    `unkeyed` is the digest without the keys of random numbers, which come from the run's seed. Initializers are not
    counted; their `counts` are empty.
    """

    counts: Counter[str]
    largest: dict[str, list[dict[str, Any]]]
    code: str
    unkeyed: str


def graph_facts(done: Compilation, report: dict[str, Any]) -> dict[str, GraphFacts]:
    """The facts of every graph by its name; `report` is what `explain` says of the compilation."""
    told = {graph["name"]: graph for graph in report["graphs"]}
    found: dict[str, GraphFacts] = {}
    for func in graphs(done.module):
        name: str = func.attributes["sx.graph"].value
        facts = _facts(told.get(name), _text(func, done.module))
        # One graph for each type of a group's members: which types those are is told by the parameters.
        together = _TYPE.sub("", name) if name.startswith(("update ", "view ", "init state ")) else name
        if (before := found.get(together)) is not None:
            facts = evolve(
                facts,
                counts=before.counts + facts.counts,
                code=_hashed(before.code + facts.code),
                unkeyed=_hashed(before.unkeyed + facts.unkeyed),
            )
        found[together] = facts
    return found


def graph_rows(
    a: dict[str, GraphFacts], b: dict[str, GraphFacts], explained: Callable[[str], bool], *, reseeded: bool
) -> Iterator[Row]:
    """The rows: all counts, then tensors, then digests of graphs that nothing else tells apart.

    `explained` says that rows of other sections tell why the operations of a graph differ; where the runs are
    `reseeded`, other random numbers are no difference.
    """
    names = [*a, *(name for name in b if name not in a)]
    both = [name for name in names if name in a and name in b]
    counted = []
    for name in names:
        rows = list(_count_rows(name, a.get(name), b.get(name)))
        counted += [name] if rows else []
        yield from rows
    for name in both:
        rows = list(_rows(name, a[name].largest, b[name].largest))
        counted += [name] if rows else []
        yield from rows
    for name in names:
        of_a, of_b = (_code(side.get(name), reseeded) for side in (a, b))
        if of_a != of_b and name not in counted and not explained(name):
            yield Row(f"{name} {CODE}", of_a, of_b)


def _count_rows(name: str, a: GraphFacts | None, b: GraphFacts | None) -> Iterator[Row]:
    """The counts that differ; of a graph that one side has its nodes alone."""
    if a is None or b is None:
        only = a or b
        if only is not None and only.counts:
            nodes = only.counts["nodes"]
            yield Row(f"{name} nodes", nodes if a else None, nodes if b else None)
        return
    yield from _rows(name, a.counts, b.counts)


def _rows(name: str, a: dict[str, Any], b: dict[str, Any]) -> Iterator[Row]:
    for key in [*a, *(key for key in b if key not in a)]:
        if a.get(key) != b.get(key):
            yield Row(f"{name} {key}", a.get(key), b.get(key))


def _code(facts: GraphFacts | None, reseeded: bool) -> str | None:
    return None if facts is None else facts.unkeyed if reseeded else facts.code


def _facts(told: dict[str, Any] | None, text: str) -> GraphFacts:
    digests = _hashed(text), _hashed(_KEY.sub("", text))
    if told is None:
        return GraphFacts(Counter(), {}, *digests)
    counts = Counter({"nodes": told["nodes"], "casts": told["casts"]}) + Counter(told["ops"])
    return GraphFacts(counts, _largest(told) if tensors_shown(told["name"]) else {}, *digests)


def _largest(told: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The largest tensors by what made them and where in the model, the blocks of a list alike."""
    made: dict[str, Counter[tuple[tuple[int, ...], str]]] = {}
    for t in told["largest"]:
        path = ".".join("*" if part.isdecimal() else part for part in (t["path"] or "").split("."))
        made.setdefault(f"largest {t['op']} {path}".rstrip(), Counter())[tuple(t["shape"]), t["dtype"]] += 1
    return {
        key: [{"shape": list(shape), "dtype": dtype, "count": n} for (shape, dtype), n in kinds.items()]
        for key, kinds in made.items()
    }


def _text(func: Any, module: Any) -> str:
    """The operations of a graph and of the functions that it calls, without their places in the file."""
    reached = _reached(func.operation, module)
    return "\n".join(str(f.operation.get_asm(use_local_scope=True, enable_debug_info=False)) for f in reached)


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _reached(func: Any, module: Any) -> Iterator[Any]:
    yield func
    names = [func.attributes["sx.body"]] if "sx.body" in func.attributes else []
    if len(func.regions[0].blocks):
        calls = [op.operation for op in func.regions[0].blocks[0].operations if op.operation.name == CALL]
        names += [op.attributes["callee"] for op in calls]
    for name in names:
        yield from _reached(function(module.operation, ir.FlatSymbolRefAttr(name).value), module)
