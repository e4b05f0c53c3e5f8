"""The experiment document, and the module as text."""

from __future__ import annotations

from typing import Any

from attrs import asdict, has

from sexpgpu.data.source import kind
from sexpgpu.diag import error, nearest
from sexpgpu.diag.strict import json_text
from sexpgpu.driver.compile import Compilation
from sexpgpu.passes.base import functions


def document_text(done: Compilation) -> str:
    """The whole experiment as pretty JSON: parameters, graphs, loaders, updates, the run, the manifest."""
    assert done.experiment is not None
    return json_text(
        {"schema": 1, **asdict(done.experiment, value_serializer=_plain)}, indent=2, escaped=True, default=str
    )


def _plain(owner: Any, attribute: Any, value: Any) -> Any:
    """A record inside the document says its kind: sources are a sum of several."""
    if has(type(value)) and type(value).__module__ == "sexpgpu.data.source" and type(value).__name__ != "Declared":
        return {"kind": kind(value), **asdict(value, value_serializer=_plain)}
    return value


def module_text(done: Compilation, graph: str | None, locations: bool) -> str:
    """The module, or one graph of it; E-ARG-020 for a graph that is not there."""
    if graph is None:
        return str(done.module.operation.get_asm(enable_debug_info=locations)).rstrip()
    names = []
    for func in functions(done.module):
        name = func.attributes["sx.graph"].value if "sx.graph" in func.attributes else func.attributes["sym_name"].value
        if name == graph:
            return str(func.operation.get_asm(enable_debug_info=locations)).rstrip()
        names.append(name)
    near = nearest(graph, names)
    raise error(
        "E-ARG-020",
        f"there is no graph `{graph}`",
        expected="one of " + ", ".join(n for n in names if not n.startswith("init ")),
        help=f"--graph {near!r}" if near else None,
    )
