"""The text form of `explain`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def text_of(report: dict[str, Any]) -> str:
    """About eighty lines for a small experiment; every number is in the JSON document too."""
    return "\n".join(_lines(report))


def count(n: int) -> str:
    """An element count in three digits: 393k, 13.3M, 6.44M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= limit:
            value = n / limit
            return f"{value:.2f}{unit}" if value < 10 else f"{value:.1f}{unit}" if value < 100 else f"{value:.0f}{unit}"
    return str(n)


def size(n: int) -> str:
    """Bytes in binary units, `50.8 MiB`."""
    value = float(n)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def plural(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _lines(report: dict[str, Any]) -> Iterator[str]:
    parameters = report["parameters"]
    length = plural(report["steps"], "step") if report["steps"] else plural(report["epochs"], "epoch")
    yield (
        f"{report['file']}: {plural(len(parameters), 'parameter')}, {length}, "
        f"precision {report['precision']}  (sexpgpu {report['version']})"
    )
    yield ""
    yield "selection:"
    width = max((len(row["name"]) for row in report["selection"]), default=0)
    for row in report["selection"]:
        yield f"  {row['name']:{width}}  {row['value']!s:<10}  {row['source'] or ''}".rstrip()
    yield ""
    yield from _parameters(report)
    yield ""
    yield "graphs:"
    for graph in report["graphs"]:
        yield from _graph(graph, report["precision"])
    yield ""
    yield from _step(report["step"])
    yield ""
    yield "passes:"
    for row in report["passes"]:
        yield f"  {row['pass']:14} {row['before']:6} -> {row['after']:6} operations  {row['ms']:8.1f} ms"
    yield ""
    yield "device: not opened; a device's own report goes here"


def _parameters(report: dict[str, Any]) -> Iterator[str]:
    parameters = report["parameters"]
    total = sum(p["elements"] for p in parameters)
    width = 8 if report["precision"] == "f64" else 4
    yield (
        f"parameters: {len(parameters)}, {count(total)} elements, "
        f"{size(total * width)} as {'f64' if width == 8 else 'f32'} master weights"
    )
    longest = max((len(p["path"]) for p in parameters), default=0)
    shapes = max((len(str(p["shape"])) for p in parameters), default=0)
    for p in parameters:
        tied = f"  = {', '.join(p['aliases'])}" if p["aliases"] else ""
        yield (
            f"  {p['path']:{longest}}  {p['shape']!s:{shapes}}  {p['dtype']}  "
            f"{count(p['elements']):>6}  {p['group']}{tied}"
        )
    for b in report["buffers"]:
        yield f"  {b['path']:{longest}}  {b['shape']!s:{shapes}}  {b['dtype']}  buffer"
    yield "  groups:"
    names = max((len(g["name"]) for g in report["groups"]), default=0)
    for g in report["groups"]:
        states = f"states {', '.join(g['states'])}" if g["states"] else "no states"
        constants = ", ".join(f"{c:g}" for c in g["constants"][:8]) + (", ..." if len(g["constants"]) > 8 else "")
        yield (
            f"    {g['name']:{names}}  {plural(len(g['members']), 'param'):>10}  {count(g['elements']):>6}  "
            f"{g['optimizer']}, {states}  {count(g['state_elements'])}  constants {constants or 'none'}"
        )


def _graph(graph: dict[str, Any], precision: str) -> Iterator[str]:
    added = f"{plural(graph['casts'], 'cast')} added by the {precision} policy"
    yield f"  {graph['name']}  {plural(graph['nodes'], 'node')}, {added}"
    yield "    ops      " + ", ".join(f"{name} {n}" for name, n in graph["ops"].items())
    if graph["emits"]:
        yield "    emits    " + ", ".join(graph["emits"])
    if graph["name"].startswith(("update ", "then ", "view ")):
        return
    yield "    largest tensors:"
    for t in graph["largest"]:
        yield f"      {count(t['elements']):>6}  {t['shape']!s:20}  {t['dtype']:4}  {t['op']:12}  {t['place']}"


def _step(step: dict[str, Any]) -> Iterator[str]:
    yield "training step:"
    length = plural(step["steps"], "step") if step["steps"] else plural(step["epochs"], "epoch")
    micro = "1 microbatch" if step["microbatches"] == 1 else f"{step['microbatches']} microbatches"
    yield f"  records          {micro} of {step['batch']} = {step['records']} per step, {length}"
    for name, n in step["counters"].items():
        yield f"  counter {name:8} {n} per step (static)"
    if step["stages"]:
        read = f", chosen by {', '.join(step['curriculum'])}" if step["curriculum"] else ""
        yield f"  stages           {', '.join(step['stages'])}{read}"
    for e in step["evaluations"]:
        yield f"  evaluation       {e['name']}: {_cadence(e)}, {_extent(e)}"
    if not step["evaluations"]:
        yield "  evaluation       none"
    every = step["checkpoint_every"]
    keep = f", the newest {step['keep']} kept" if step["keep"] else ""
    yield "  checkpoints      " + (f"every {every} steps{keep}" if every else "at the end only")
    clip = f", gradients clipped to norm {step['clip_norm']:g}" if step["clip_norm"] is not None else ""
    yield f"  precision        {step['precision']}, seed {step['seed']}{clip}"
    yield (
        f"  peak activation  <= {size(step['peak_activation_bytes'])} for one microbatch, an upper bound: "
        "every value the train graph makes, until its last use"
    )


def _cadence(e: dict[str, Any]) -> str:
    parts = ["at the start"] if e["at_start"] else []
    if e["every"] == "epoch":
        parts.append("every epoch")
    elif e["every"]:
        parts.append(f"every {e['every']} steps")
    if e["at"]:
        parts.append("at steps " + " ".join(map(str, e["at"])))
    return ", ".join([*parts, "at the end"])


def _extent(e: dict[str, Any]) -> str:
    return f"{e['batches']} batches of {e['batch']}" if e["batches"] else f"the whole loader in batches of {e['batch']}"
