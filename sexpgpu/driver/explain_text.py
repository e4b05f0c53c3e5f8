"""The text form of `explain`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sexpgpu.driver.paths import compressed
from sexpgpu.tensortype import binary_size

COLUMNS = 120
"""What a line of constants is cut to."""

LEAST = 6
"""So many constants are shown in any case."""

size = binary_size


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


def plural(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _lines(report: dict[str, Any]) -> Iterator[str]:
    parameters = report["parameters"]
    yield (
        f"{report['file']}: {plural(len(parameters), 'parameter')}, {_length(report)}, "
        f"precision {report['precision']}  (sexpgpu {report['version']})"
    )
    yield ""
    yield "selection:"
    width = max((len(row["name"]) for row in report["selection"]), default=0)
    for row in report["selection"]:
        yield f"  {row['name']:{width}}  {row['value']!s:<10}  {row['source'] or ''}".rstrip()
    yield ""
    yield from _parameters(report)
    yield from _groups(report["groups"])
    yield ""
    yield "graphs:"
    for graph in report["graphs"]:
        yield from _graph(graph, report["precision"])
    yield ""
    yield from _step(report["step"], report["groups"])
    yield ""
    yield from _islands(report)
    yield ""
    yield "passes:"
    width = max((len(row["pass"]) for row in report["passes"]), default=0)
    for row in report["passes"]:
        counts = f"{row['before']:6} -> {row['after']:6} operations  {row['ms']:8.1f} ms"
        yield f"  {row['pass']:{width}} {counts}  {row['did']}".rstrip()
    yield ""
    if report["device"] is None:
        yield "device: not opened; --device cpu gives its report here"


def _length(of: dict[str, Any]) -> str:
    return plural(of["steps"], "step") if of["steps"] else plural(of["epochs"], "epoch")


def _parameters(report: dict[str, Any]) -> Iterator[str]:
    """The tree: each root with its size, below it every leaf with its group; buffers behind the parameters."""
    parameters = report["parameters"]
    total = sum(p["elements"] for p in parameters)
    master, bytes_each = ("f64", 8) if report["precision"] == "f64" else ("f32", 4)
    yield (
        f"parameters: {len(parameters)}, {count(total)} elements, {size(total * bytes_each)} as {master} master weights"
    )
    leaves = [(*_split(p["path"]), p) for p in parameters]
    kept = [(*_split(b["path"]), b) for b in report["buffers"]]
    roots = dict.fromkeys(root for root, _, _ in [*leaves, *kept])
    names = max((max(2 + len(leaf), len(root)) for root, leaf, _ in [*leaves, *kept]), default=0)
    shapes = max((len(str(p["shape"])) for _, _, p in [*leaves, *kept]), default=0)
    for root in roots:
        elements = sum(p["elements"] for at, _, p in leaves if at == root)
        yield f"  {root:{names}}  {count(elements)}"
        for _, leaf, p in (row for row in leaves if row[0] == root):
            tied = f"  = {', '.join(p['aliases'])}" if p["aliases"] else ""
            kind = f"{p['shape']!s:{shapes}}  {p['dtype']:4}  {count(p['elements']):>6}"
            yield f"    {leaf:{names - 2}}  {kind}  {p['group']}{tied}"
        for _, leaf, b in (row for row in kept if row[0] == root):
            kind = f"{b['shape']!s:{shapes}}  {b['dtype']:4}  {count(b['elements']):>6}"
            yield f"    {leaf:{names - 2}}  {kind}  buffer"


def _split(path: str) -> tuple[str, str]:
    """The root of a path and the rest; a tensor that is a root itself is its own leaf."""
    root, _, leaf = path.partition(".")
    return root, leaf or root


def _groups(groups: list[dict[str, Any]]) -> Iterator[str]:
    yield "  groups:"
    names = max((len(g["name"]) for g in groups), default=0)
    states = [f"states {', '.join(g['states'])}" if g["states"] else "no states" for g in groups]
    longest = max(map(len, states), default=0)
    for g, held in zip(groups, states, strict=True):
        members = f"{len(g['members']):>6} {'param' if len(g['members']) == 1 else 'params':6}"
        start = (
            f"    {g['name']:{names}}  {members}  {count(g['elements']):>5}  {held:{longest}}  "
            f"{count(g['state_elements']):>5}  constants "
        )
        yield start + _fitting([f"{c:g}" for c in g["constants"]], COLUMNS - len(start))


def _fitting(items: list[str], columns: int) -> str:
    """As many items as fit, the first four in any case, and `...` for the rest."""
    shown = len(items)
    while shown > LEAST and len(", ".join(items[:shown])) + (len(", ...") if shown < len(items) else 0) > columns:
        shown -= 1
    return ", ".join(items[:shown] + ["..."] * (shown < len(items))) or "none"


def _graph(graph: dict[str, Any], precision: str) -> Iterator[str]:
    added = f"{plural(graph['casts'], 'cast')} added by the {precision} policy"
    yield f"  {graph['name']}  {plural(graph['nodes'], 'node')}, {added}"
    yield "    ops      " + ", ".join(f"{name} {n}" for name, n in graph["ops"].items())
    if graph["emits"]:
        yield "    emits    " + ", ".join(graph["emits"])
    if not tensors_shown(graph["name"]):
        return
    yield "    largest tensors:"
    shapes = max((len(str(t["shape"])) for t in graph["largest"]), default=0)
    names = max((len(t["op"]) for t in graph["largest"]), default=0)
    for t in graph["largest"]:
        made = f"{t['shape']!s:{shapes}}  {t['dtype']:4}  {t['op']:{names}}"
        yield f"      {count(t['elements']):>6}  {made}  {t['place']}".rstrip()


def tensors_shown(graph: str) -> bool:
    """Whether the largest tensors of a graph are worth a line each: those of an update are its parameter's."""
    return not graph.startswith(("update ", "then ", "view "))


def _islands(report: dict[str, Any]) -> Iterator[str]:
    if not report["islands"]:
        yield f"kept in f32: nothing is rounded to bf16, the policy is {report['precision']}"
        return
    yield f"kept in f32 by the {report['precision']} policy:"
    for graph in report["islands"]:
        yield f"  {graph['graph']}"
        rows = _alike(graph["kept"])
        names = max((len(place) for place, _ in rows), default=0)
        for place, ops in rows:
            yield f"    {place:{names}}  {ops}"


def _alike(kept: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Places and their operations, paths with the same ones written as one where they differ in a number."""
    by_ops: dict[str, list[str]] = {}
    for island in kept:
        ops = ", ".join(name if n == 1 else f"{name} {n}" for name, n in island["ops"].items())
        by_ops.setdefault(ops, []).append(island["path"] or island["place"])
    return [(path, ops) for ops, paths in by_ops.items() for path in compressed(paths)]


def _step(step: dict[str, Any], groups: list[dict[str, Any]]) -> Iterator[str]:
    yield "training step:"
    micro = "1 microbatch" if step["microbatches"] == 1 else f"{step['microbatches']} microbatches"
    yield f"  records          {micro} of {step['batch']} = {step['records']} per step, {_length(step)}"
    for name, n in step["counters"].items():
        yield f"  counter {name:8} {n} per step (static)"
    if step["stages"]:
        read = f", chosen by {', '.join(step['curriculum'])}" if step["curriculum"] else ""
        yield f"  stages           {', '.join(step['stages'])}{read}"
    for e in step["evaluations"]:
        yield f"  evaluation       {evaluation(e)}"
    if not step["evaluations"]:
        yield "  evaluation       none"
    yield f"  checkpoints      {checkpoints(step)}"
    yield f"  optimizer        {optimizers(groups)}"
    clip = f", gradients clipped to norm {step['clip_norm']:g}" if step["clip_norm"] is not None else ""
    yield f"  precision        {step['precision']}, seed {step['seed']}{clip}"
    yield (
        f"  peak activation  <= {size(step['peak_activation_bytes'])} for one microbatch, an upper bound: "
        "every value the train graph makes, until its last use"
    )


def evaluation(e: dict[str, Any]) -> str:
    """`val: every 250 steps, at the end, 20 batches of 12`."""
    parts = ["at the start"] if e["at_start"] else []
    if e["every"] == "epoch":
        parts.append("every epoch")
    elif e["every"]:
        parts.append(f"every {e['every']} steps")
    if e["at"]:
        parts.append("at steps " + " ".join(map(str, e["at"])))
    extent = f"{e['batches']} batches" if e["batches"] else "the whole loader in batches"
    return f"{e['name']}: {', '.join([*parts, 'at the end', extent])} of {e['batch']}"


def checkpoints(step: dict[str, Any]) -> str:
    every, keep = step["checkpoint_every"], step["keep"]
    if not every:
        return "at the end only"
    return f"every {every} steps" + (f", the newest {keep} kept" if keep else "")


def optimizers(groups: list[dict[str, Any]]) -> str:
    """`adamw`, or where groups differ the optimizer of each: `adamw, sgd for model.out.*`."""
    by_name: dict[str, list[str]] = {}
    for g in sorted(groups, key=lambda g: g["name"] != "default"):
        by_name.setdefault(g["optimizer"], []).append(g["name"])
    rest = [f"{name} for {', '.join(of)}" for name, of in list(by_name.items())[1:]]
    return ", ".join([next(iter(by_name), "none"), *rest])
