"""What the kernels of a group of reductions compute one after another, and which of its values lie in memory between.

A kernel computes the reductions whose lines are the same, and everything that needs of them no more than the numbers of
its own line. So a layer's normalization is one kernel; a loss that is summed over lines of different kinds is two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from attrs import define, field, frozen

from sexpgpu.dialects.opdef import Index, Move, Pointwise, Reduce
from sexpgpu.passes.fusing.lines import leading
from sexpgpu.passes.gpu.layout import Ints
from sexpgpu.passes.gpu.lines import Lines
from sexpgpu.passes.gpu.serial import reduced_axes
from sexpgpu.plan.dataflow import Dataflow, Node

SERIAL = 64
"""The elements of a line inside of another that one thread folds alone."""


@frozen(eq=False)
class Stage:
    """Reductions over the same lines: `levels` says of each how many others have to be known one after another before.

    `whole` are the results of as many elements as the lines have together, by their places among the group's, and how
    many levels have to be known; `rows` those of one element a line.
    """

    lines: Lines
    levels: Mapping[int, int]
    whole: tuple[tuple[int, int], ...]
    rows: tuple[int, ...]


@define(eq=False)
class Stages:
    """The reductions of a group that are still to be computed; `known` are the values that lie in memory."""

    flow: Dataflow
    known: set[int] = field(factory=set, init=False)
    serial: dict[int, Node] = field(init=False)
    pending: list[int] = field(init=False)
    open_results: list[int] = field(init=False)
    _makers: dict[int, Node] = field(init=False)
    _lines: dict[int, Lines] = field(init=False)

    def __attrs_post_init__(self) -> None:
        flow = self.flow
        self._makers = {out: node for node in flow.nodes for out in node.outs}
        reductions = [out for out, node in self._makers.items() if node.record and isinstance(node.record.kind, Reduce)]
        self._lines = {out: self._lines_of(self._makers[out]) for out in reductions}
        self.serial = {out: self._makers[out] for out in reductions if self._is_serial(out)}
        self.pending = [out for out in reductions if out not in self.serial]
        self.open_results = [i for i, value in enumerate(flow.results) if flow.types[value].size]

    def node(self, value: int) -> Node:
        return self._makers[value]

    def _lines_of(self, node: Node) -> Lines:
        return Lines.of(self.flow.types[node.ins[0]].shape, reduced_axes(node))

    def _is_serial(self, value: int) -> bool:
        """Whether it is a part of other reductions, of fewer lines, that each thread computes again for itself."""
        lines = self._lines[value]
        if lines.length <= 1 or not lines.count:
            return True
        if lines.length > SERIAL or not lines.dense:
            return False
        outer = [self._lines[v] for v in self._lines if v != value and self._needs(v, value)]
        return any(other.dense and other.count < lines.count for other in outer)

    def _needs(self, value: int, other: int) -> bool:
        return other in self.reached(self._makers[value].ins)

    def reached(self, values: Iterable[int]) -> set[int]:
        """All values that `values` are made from, themselves included, as far back as what lies in memory."""
        found: set[int] = set()
        pending = list(values)
        while pending:
            value = pending.pop()
            if value in found:
                continue
            found.add(value)
            if value in self._makers and value not in self.known:
                pending += self._makers[value].ins
        return found

    def next(self, one_level: bool = False) -> Stage:
        """The next kernel's part; `one_level`: only reductions that can be computed at once, and no results."""
        first = next(v for v in self.pending if self.reached(self._makers[v].ins).isdisjoint(self.pending))
        lines = self._lines[first]
        test = _Reach(self, lines)
        for value in self.pending:
            if self._lines[value] == lines:
                level = test.level(self._makers[value].ins[0])
                if level is not None and not (one_level and level):
                    test.levels[value] = level
        whole, rows = [], []
        for place in self.open_results:
            value = self.flow.results[place]
            level = None if one_level and value not in test.levels else test.level(value)
            if level is None:
                continue
            size = self.flow.types[value].size
            if size == lines.count and (level or lines.length > 1):
                rows.append(place)
            elif size == lines.count * lines.length:
                whole.append((place, level))
        return Stage(lines, test.levels, tuple(whole), tuple(rows))

    def finish(self, stage: Stage) -> list[int]:
        """Note what a stage computed: its reductions that are read later, which have to be put in memory."""
        done = {*stage.rows, *(place for place, _ in stage.whole)}
        self.open_results = [place for place in self.open_results if place not in done]
        self.pending = [value for value in self.pending if value not in stage.levels]
        later = self.reached(
            [*(self.flow.results[place] for place in self.open_results), *(self.node(v).ins[0] for v in self.pending)]
        )
        kept = [value for value in stage.levels if value in later]
        self.known.update(kept)
        return kept


@define(eq=False)
class _Reach:
    """Which values a thread can make that knows the reductions of its own lines, those in `levels`."""

    stages: Stages
    lines: Lines
    levels: dict[int, int] = field(factory=dict)
    _found: dict[int, int | None] = field(factory=dict)

    def level(self, value: int) -> int | None:
        """How many levels of reductions have to be known before; None where those of other lines have to be, too."""
        if value in self.levels:
            return self.levels[value] + 1
        if value not in self._found:
            self._found[value] = self._level(value)
        return self._found[value]

    def _level(self, value: int) -> int | None:
        stages = self.stages
        if value in stages.known or value < stages.flow.given:
            return 0
        if value in stages.pending:
            return None
        node = stages.node(value)
        most = 0
        for operand in node.ins:
            level = self.level(operand)
            if level is None or (level and not self._aligned(node, operand, value)):
                return None
            most = max(most, level)
        return most

    def _aligned(self, node: Node, operand: int, value: int) -> bool:
        """Whether each element of `value` takes from `operand` only what belongs to the same line."""
        types = self.stages.flow.types
        given, made = types[operand], types[value]
        assert node.record is not None
        match node.record.kind:
            case Pointwise() | Move(form="same" | "reshape"):
                return True
            case Move(form="broadcast") if given.size == made.size:
                return True
            case Reduce():
                return given.size == made.size or (self.lines.dense and made.size % self.lines.count == 0)
            case Move(form="broadcast"):
                return self._repeats(given.shape, made.shape)
            case Move() as kind if self.lines.dense and kind.form != "join":
                lead = self._lead(made.shape)
                return lead is not None and leading(kind, node.attrs, given.shape, made.shape) >= lead
            case Move(form="join") | Index(access="read", lines=True):
                lead = self._lead(made.shape)
                return self.lines.dense and lead is not None and node.attrs["axis"] >= lead
            case _:
                return False

    def _lead(self, shape: Ints) -> int | None:
        """How many leading axes number the lines."""
        product = 1
        for axes in range(len(shape) + 1):
            if product == self.lines.count:
                return axes
            if axes < len(shape):
                product *= shape[axes]
        return None

    def _repeats(self, given: Ints, made: Ints) -> bool:
        """Whether a broadcast repeats along the lines, each element within its own."""
        whole = (1,) * (len(made) - len(given)) + given
        if self.lines.dense:
            lead = self._lead(made)
            return lead is not None and whole[:lead] == made[:lead]
        parts = self.lines.parts(made)
        if parts is None or math.prod(made) != self.lines.count * self.lines.length:
            return False
        along = [along for axes, (_, along) in zip(parts, self.lines.segments, strict=True) for _ in axes]
        return all(n == (1 if runs else m) for n, m, runs in zip(whole, made, along, strict=True))
