"""Kernels for reductions and what is computed with them: rows, columns, lines along any axes.

Lines that a group of threads can hold are read once: softmax, norms and their derivatives keep their elements in
registers from one reduction to the next. Longer ones are walked through again for each reduction, and nothing of them
is written but the group's results. Where there are too few lines for the device, several blocks share each of them:
they write what they have folded to a temporary, which a second kernel folds in order. Nothing depends on which thread
comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from attrs import define, field

from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.folds import Fold, State
from sexpgpu.passes.gpu.kernel import BYTES, Reg
from sexpgpu.passes.gpu.lanes import widest
from sexpgpu.passes.gpu.layout import Place
from sexpgpu.passes.gpu.lines import Lines, Sharing, share
from sexpgpu.passes.gpu.memory import Operand, load, store
from sexpgpu.passes.gpu.pointwise import write_elements
from sexpgpu.passes.gpu.serial import folded
from sexpgpu.passes.gpu.stages import Stage, Stages
from sexpgpu.passes.gpu.task import Task
from sexpgpu.passes.gpu.walk import Turn, Walk, under
from sexpgpu.plan.records import Launches
from sexpgpu.tensortype import TensorType


def lower(task: Task) -> Launches:
    """A kernel, or two, for the reductions over the same lines, and one for what is left."""
    reductions = _Reductions(task, Stages(task.flow))
    while reductions.stages.pending:
        reductions.advance()
    write_elements(task, reductions.stages.open_results, reductions.read, reductions.know)
    return task.lowered()


@define(eq=False)
class _Reductions:
    """A group while it is lowered: `memory` are the arguments where values lie that kernels have made."""

    task: Task
    stages: Stages
    memory: dict[int, int] = field(factory=dict, init=False)

    def know(self, elements: Elements, tensors: Mapping[int, Operand]) -> None:
        """Tell a kernel where the values lie that others made, and how to fold the small ones itself."""
        for value, argument in self.memory.items():
            elements.known[value] = partial(_loaded, elements, tensors[argument])
        for value, node in self.stages.serial.items():
            elements.known[value] = partial(folded, elements, node)

    @property
    def read(self) -> list[int]:
        """The arguments that every kernel may read."""
        return [*range(self.task.flow.given), *dict.fromkeys(self.memory.values())]

    def advance(self) -> None:
        stage = self.stages.next()
        sharing = self._sharing(stage)
        if sharing.splits > 1:
            stage = self.stages.next(one_level=True)
            sharing = self._sharing(stage)
        if sharing.splits > 1:
            self._write_parts(stage, sharing)
        else:
            self._write(stage, sharing)

    def _sharing(self, stage: Stage) -> Sharing:
        flow, lines = self.task.flow, stage.lines
        whole = [flow.results[place] for place, _ in stage.whole]
        values = [self.stages.node(v).ins[0] for v in stage.levels]
        values += whole
        if not lines.inward:
            values += [*stage.levels, *(flow.results[place] for place in stage.rows)]
        lanes = widest(flow, values, frozenset([*stage.levels, *self.memory]))
        read = self.stages.reached(values)
        lineful = [v for v in range(flow.given) if v in read and flow.types[v].size % lines.length == 0]
        words = [max(1, BYTES[Fold.register(flow.types[v].dtype)] // 4) for v in lineful]
        live = sum(words)
        shared = sum(BYTES[type] for v in stage.levels for type in self._fold(v).types)
        sweeps = {*stage.levels.values(), *(level for _, level in stage.whole)}
        most = max(words, default=1)
        return share(lines, lanes, max(live, 1), shared, words=most, again=len(sweeps) > 1)

    def _fold(self, value: int) -> Fold:
        node = self.stages.node(value)
        return Fold.of(node, self.task.flow.types[node.ins[0]].dtype)

    # All of a stage in one kernel

    def _write(self, stage: Stage, sharing: Sharing) -> None:
        read = self.read
        kept = self._keep(stage)
        walk, tensors = self._begin(stage.lines, sharing, read, [*self._written(stage), *kept.values()])
        k, elements = walk.k, walk.elements
        flow = self.task.flow
        walk.begin([flow.types[flow.results[p]].shape for p, _ in stage.whole])
        walk.begin([flow.types[self.stages.node(v).ins[0]].shape for v in stage.levels])
        walk.begin([flow.types[v].shape for v in (*stage.levels, *(flow.results[p] for p in stage.rows))])
        levels = [*stage.levels.values(), *(level for _, level in stage.whole)]
        for level in range(max(levels) + 1):
            now = [v for v, its in stage.levels.items() if its == level]
            whole = [place for place, its in stage.whole if its == level]
            for value, state in zip(now, self._level(stage, walk, now, whole, tensors), strict=True):
                found = self._fold(value).result(k, state)
                elements.known[value] = partial(_same, found)
        self._write_rows(stage, walk, kept, tensors)
        k.end()
        self.memory.update(kept)

    def _level(
        self, stage: Stage, walk: Walk, now: Sequence[int], whole: Sequence[int], tensors: Mapping[int, Operand]
    ) -> list[State]:
        """Visit the lines once: the reductions `now` of each line; the results `whole` are written on the way."""
        k, lanes = walk.k, walk.sharing.lanes
        folds = [self._fold(v) for v in now]

        def visit(turn: Turn, states: list[State]) -> list[State]:
            states = [self._folded(turn, *each) for each in zip(now, folds, states, strict=True)]
            self._write_whole(turn, whole, tensors)
            return states

        states: list[State] = []
        if now or whole:
            states = walk.sweep(visit, [fold.identity(k, lanes) for fold in folds])
        return walk.together(folds, states)

    def _folded(self, turn: Turn, value: int, fold: Fold, state: State) -> State:
        k, elements = turn.walk.k, turn.walk.elements
        operand = self.stages.node(value).ins[0]
        found = elements.vector(operand, turn.place(self.task.flow.types[operand].shape))
        new = fold.element(k, found, turn.number)
        if turn.valid is not None:
            lanes = new[0].lanes
            valid = k.splat(turn.valid, lanes)
            new = tuple([k.select(valid, a, b) for a, b in zip(new, fold.identity(k, lanes), strict=True)])
        return fold.merge(k, state, new)

    def _write_whole(self, turn: Turn, places: Sequence[int], tensors: Mapping[int, Operand]) -> None:
        """Write the turn's elements of results that have all of the lines'."""
        k, elements = turn.walk.k, turn.walk.elements
        values = [self.task.flow.results[place] for place in places]
        where = [turn.place(self.task.flow.types[value].shape) for value in values]
        found = [elements.at(value, place) for value, place in zip(values, where, strict=True)]
        with under(k, turn.valid, turn.walk.row_valid):
            for number, place, value in zip(places, where, found, strict=True):
                store(k, tensors[self.task.result(number)], place, value, turn.walk.sharing.lanes)

    def _write_rows(self, stage: Stage, walk: Walk, kept: Mapping[int, int], tensors: Mapping[int, Operand]) -> None:
        """Write what there is one of for each line: by one of its threads."""
        flow, k = self.task.flow, walk.k
        given = [(flow.results[place], self.task.result(place)) for place in stage.rows]
        written = [argument for _, argument in given]
        given += [(value, argument) for value, argument in kept.items() if argument not in written]
        where = [walk.row_place(flow.types[value].shape) for value, _ in given]
        found = [walk.elements.at(value, place) for (value, _), place in zip(given, where, strict=True)]
        if not given:
            return
        with under(k, walk.once()):
            for (_, argument), place, value in zip(given, where, found, strict=True):
                store(k, tensors[argument], place, value, 0 if walk.sharing.inward else walk.sharing.lanes)

    # Several blocks for each line

    def _write_parts(self, stage: Stage, sharing: Sharing) -> None:
        """The stage in two kernels: blocks fold parts of lines, then the parts are folded."""
        flow, lines, splits = self.task.flow, stage.lines, sharing.splits
        folds = {value: self._fold(value) for value in stage.levels}
        shape = (lines.count, splits) if lines.inward else (splits, lines.count)
        parts = {v: [self.task.temporary(TensorType(shape, t)) for t in f.types] for v, f in folds.items()}  # type: ignore[arg-type]
        temporaries = [argument for each in parts.values() for argument in each]
        walk, tensors = self._begin(lines, sharing, self.read, temporaries)
        walk.begin([flow.types[self.stages.node(v).ins[0]].shape for v in stage.levels])
        states = self._level(stage, walk, list(folds), [], tensors)
        where = walk.part_place(shape)
        with under(walk.k, walk.once()):
            for value, state in zip(folds, states, strict=True):
                for argument, register in zip(parts[value], state, strict=True):
                    operand = tensors[argument]
                    store(walk.k, operand, where, register, 0 if sharing.inward else sharing.lanes)
        walk.k.end()
        self._write_sums(stage, folds, parts, shape, sharing.lanes)

    def _write_sums(
        self,
        stage: Stage,
        folds: Mapping[int, Fold],
        parts: Mapping[int, Sequence[int]],
        shape: tuple[int, int],
        lanes: int,
    ) -> None:
        lines = Lines.of(shape, (1,) if stage.lines.inward else (0,))
        shared = sum(BYTES[type] for fold in folds.values() for type in fold.types)
        sharing = share(lines, 0 if stage.lines.inward else lanes, len(parts), shared, splits=False)
        read = [*self.read, *(argument for each in parts.values() for argument in each)]
        kept = self._keep(stage)
        walk, tensors = self._begin(lines, sharing, read, [*self._written(stage), *kept.values()])
        k, lanes = walk.k, sharing.lanes
        walk.begin([shape, *(self.task.flow.types[v].shape for v in stage.levels)])

        def visit(turn: Turn, states: list[State]) -> list[State]:
            found = []
            for (value, fold), state in zip(folds.items(), states, strict=True):
                loaded = [load(k, tensors[argument], turn.place(shape), lanes) for argument in parts[value]]
                new = tuple([k.splat(register, lanes) for register in loaded])
                if turn.valid is not None:
                    valid = k.splat(turn.valid, lanes)
                    identity = fold.identity(k, lanes)
                    new = tuple([k.select(valid, a, b) for a, b in zip(new, identity, strict=True)])
                found.append(fold.merge(k, state, new))
            return found

        states = walk.sweep(visit, [fold.identity(k, lanes) for fold in folds.values()])
        states = walk.together(list(folds.values()), states)
        for (value, fold), state in zip(folds.items(), states, strict=True):
            walk.elements.known[value] = partial(_same, fold.result(k, state))
        self._write_rows(stage, walk, kept, tensors)
        k.end()
        self.memory.update(kept)

    # Kernels and their arguments

    def _keep(self, stage: Stage) -> dict[int, int]:
        """The arguments for the stage's reductions that later kernels read; they are known there from now on."""
        flow = self.task.flow
        places = {flow.results[place]: place for place in stage.rows}
        kept = {}
        for value in self.stages.finish(stage):
            given = self.task.result(places[value]) if value in places else self.task.temporary(flow.types[value])
            kept[value] = given
        return kept

    def _written(self, stage: Stage) -> list[int]:
        return [self.task.result(place) for place in (*stage.rows, *(place for place, _ in stage.whole))]

    def _begin(
        self, lines: Lines, sharing: Sharing, read: Sequence[int], written: Sequence[int]
    ) -> tuple[Walk, dict[int, Operand]]:
        task = self.task
        # Functions of doubles take more registers than the assembler would let a thread have by itself.
        least = 1 if any(type.dtype == "f64" for type in task.flow.types) else 0
        once = list(dict.fromkeys(written))
        k, tensors = task.begin(read, once, sharing.blocks(lines), sharing.threads, per_multiprocessor=least)
        elements = Elements(k, task.flow, [tensors[a] for a in range(task.flow.given)], sharing.lanes)
        self.know(elements, tensors)
        return Walk(k, elements, lines, sharing), tensors


def _same(found: Reg, place: Place) -> Reg:
    return found


def _loaded(elements: Elements, operand: Operand, place: Place) -> Reg:
    return load(elements.kernel, operand, place, elements.lanes)
