"""The stages of a compilation as they are reached, and the table of what each pass changed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from sexpgpu.diag import error, nearest
from sexpgpu.driver.dump import Dump, stage_text
from sexpgpu.driver.pipeline import Passes, steps_of
from sexpgpu.driver.printed import Function, Reader
from sexpgpu.passes.base import Timing, count_ops

MOST_NAMED = 3
"""How many kinds of operation a row names where the pass itself says nothing."""


@frozen
class Stage:
    """A module between two passes: its text with locations, its functions, the pass before it."""

    number: int
    name: str
    timing: Timing | None
    ops: int
    text: str
    functions: tuple[Function, ...]

    def operations(self, graph: str | None) -> Counter[str]:
        """Operations by name, of one graph or of all functions."""
        total: Counter[str] = Counter()
        for function in self.functions:
            if graph is None or function.name == graph:
                total += function.operations()
        return total

    def lines(self, graph: str | None) -> list[Any]:
        return [f.lines for f in self.functions if graph is None or f.name == graph]


@define(eq=False)
class Recorder:
    """Keeps every stage that it is shown."""

    stages: list[Stage] = field(factory=list)
    _reader: Reader = field(factory=Reader, init=False)

    def __call__(self, number: int, name: str, module: Any, timing: Timing | None) -> None:
        text = stage_text(module)
        same = bool(self.stages) and self.stages[-1].text == text
        functions = self.stages[-1].functions if same else tuple(self._reader.functions(text))
        self.stages.append(Stage(number, name, timing, count_ops(module), text, functions))

    def require_graph(self, graph: str) -> None:
        """E-ARG-020 for a graph, or a private function, that no stage has."""
        names = list(dict.fromkeys(f.name for stage in self.stages for f in stage.functions))
        if graph not in names:
            graphs = [f.name for f in self.stages[0].functions]  # what later stages add are kernels of these
            near = nearest(graph, names)
            raise error(
                "E-ARG-020",
                f"there is no graph `{graph}`",
                expected="one of " + ", ".join(n for n in graphs if not n.startswith("init ")),
                help=f"--graph {near!r}" if near else None,
            )


@frozen
class Row:
    """A line of the table. The traced module has no pass; a skipped pass has no time and no count."""

    number: int
    name: str
    spec: str | None
    ms: float | None
    before: int | None
    after: int | None
    did: str
    changed: bool
    skipped: bool = False


def table(stages: list[Stage], pipeline: str, passes: Passes, graph: str | None = None) -> list[Row]:
    """A row a stage and a row a skipped pass, in the order of the pipeline."""
    rows = [
        Row(step.number, step.name, step.spec, None, None, None, "skipped", False, True)
        for step in steps_of(pipeline)
        if step.name in passes.skip
    ]
    before: Stage | None = None
    for stage in stages:
        rows.append(_row(before, stage, graph))
        before = stage
    return sorted(rows, key=lambda row: row.number)


def _row(before: Stage | None, stage: Stage, graph: str | None) -> Row:
    now = stage.operations(graph)
    count = stage.ops if graph is None else sum(now.values())
    if before is None or stage.timing is None:
        return Row(stage.number, stage.name, None, None, None, count, "", True)
    timing = stage.timing
    then = before.operations(graph)
    changed = before.text != stage.text if graph is None else before.lines(graph) != stage.lines(graph)
    was = timing.ops_before if graph is None else sum(then.values())
    did = (timing.did if graph is None else "") or _difference(then, now, changed)
    return Row(stage.number, stage.name, timing.spec, timing.ms, was, count, did, changed)


def _difference(then: Counter[str], now: Counter[str], changed: bool) -> str:
    """What a pass did, as far as counts of operations tell it."""
    if not changed:
        return "nothing"
    moved = {name: now[name] - then[name] for name in {*then, *now} if now[name] != then[name]}
    if not moved:
        return "the same operations; order, operands, types or attributes differ"
    most = sorted(moved.items(), key=lambda item: (-abs(item[1]), item[0]))
    named = ", ".join(f"{by:+d} {name.removeprefix('sx.')}" for name, by in most[:MOST_NAMED])
    return named + (f", {len(most) - MOST_NAMED} more kinds" if len(most) > MOST_NAMED else "")


def write_stages(stages: list[Stage], pipeline: str, folder: Path, changed: bool) -> None:
    """`NN-pass.mlir` for every stage and `index.json`; with `changed` only for those that differ."""
    dump = Dump(folder, pipeline, "--dump", changed)
    for stage in stages:
        dump.write(stage.number, stage.name, stage.text, stage.timing, stage.ops)
