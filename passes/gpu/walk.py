"""A kernel over lines: which line and which of its elements each thread works on, turn by turn.

Threads without an element, or without a line, take one that another has as well, so that control flow stays the same
for all and reductions need no conditions; what they hold is replaced before it is folded, and not stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from attrs import define, evolve, field

from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.folds import Fold, State, over_block, over_lanes, over_rows, over_warp
from sexpgpu.passes.gpu.kernel import WARP, Index, Kernel, Reg
from sexpgpu.passes.gpu.layout import Ints, Place, coordinates
from sexpgpu.passes.gpu.lines import Lines, Sharing

UNROLLED = 4
"""Turns whose loads are on their way together, where the turns are those of a loop."""


@define(eq=False)
class Turn:
    """The elements that a thread works on at once: the one with number `along` of its line, or a vector from it.

    `valid`: whether they are its own; None where they always are.
    """

    walk: Walk
    along: Index
    valid: Reg | None
    _places: dict[Ints, Place] = field(factory=dict, init=False)

    def place(self, shape: Ints) -> Place:
        """Where the elements are in a value that has all of the lines' elements."""
        if shape not in self._places:
            self._places[shape] = self._place(shape)
        return self._places[shape]

    def _place(self, shape: Ints) -> Place:
        k, lines, lanes = self.walk.k, self.walk.lines, self.walk.sharing.lanes
        lane = len(shape) - 1 if lanes else None
        along = coordinates(k, self.along, tuple([n for n, is_along in lines.segments if is_along]))
        kept = list(self.walk.row_segments)
        ahead = list(along)
        number: Index = 0
        stride = lines.count * lines.length
        parts = lines.parts(shape)
        axes: list[Index] | None = None if parts is None else []
        for i, (size, is_along) in enumerate(lines.segments):
            stride //= size
            where = ahead.pop(0) if is_along else kept.pop(0)
            number = k.add(number, k.mul(where, stride))
            if parts is None or axes is None:
                continue
            several = sum(n != 1 for n in parts[i]) > 1
            if several and is_along:
                axes = None  # they are looked for where they are needed
            else:
                axes += coordinates(k, where, parts[i]) if is_along else self.walk.row_axes(where, parts[i])
        if axes is not None and not lines.segments:
            axes = [0] * len(shape)
        return Place(shape, lane, known_axes=None if axes is None else tuple(axes), known_number=number)

    def number(self) -> Reg:
        """The numbers of the elements along their line."""
        k = self.walk.k
        first = k.reg(self.along)
        lanes = self.walk.sharing.lanes
        if not lanes or not self.walk.sharing.inward:
            return first
        return k.op("arith.addi", k.splat(first, lanes), k.counting(lanes))


Visit = Callable[[Turn, list[State]], list[State]]
"""What is done in a turn: from the accumulators before it to those behind it."""


@define(eq=False)
class Walk:
    """The threads of a kernel over lines; `elements` gives what they work on."""

    k: Kernel
    elements: Elements
    lines: Lines
    sharing: Sharing
    row: Index = field(init=False)
    row_valid: Reg | None = field(init=False, default=None)
    row_segments: tuple[Index, ...] = field(init=False)
    thread: Reg = field(init=False)
    mine: Index = field(init=False)  # which of a line's threads this is
    beside: Index = field(init=False)  # and of which of the block's lines
    split: Index = field(init=False, default=0)
    _axes: dict[tuple[int, Ints], tuple[Index, ...]] = field(factory=dict, init=False)
    _rows: dict[Ints, Place] = field(factory=dict, init=False)
    _turns: list[Turn] | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        k, sharing, lines = self.k, self.sharing, self.lines
        self.thread = k.thread()
        block: Index = k.block_number()
        if sharing.splits > 1:
            self.split, block = k.rem(block, sharing.splits), k.div(block, sharing.splits)
        if sharing.beside == 1:
            self.beside, self.mine = 0, self.thread
        elif sharing.across == 1:
            self.beside, self.mine = self.thread, 0
        elif sharing.inward:
            self.beside, self.mine = k.div(self.thread, sharing.across), k.rem(self.thread, sharing.across)
        else:
            self.mine, self.beside = k.div(self.thread, sharing.beside), k.rem(self.thread, sharing.beside)
        unit = (
            k.add(k.mul(block, sharing.beside), self.beside) if sharing.blocks(lines) > sharing.splits else self.beside
        )
        if (units := sharing.units(lines)) % sharing.beside:
            self.row_valid = k.below(unit, units)
            unit = k.select(self.row_valid, k.reg(unit), k.reg(0))
        self.row = unit if sharing.inward else k.mul(unit, max(sharing.lanes, 1))
        kept = tuple([n for n, along in lines.segments if not along])
        self.row_segments = coordinates(k, self.row, kept)

    def row_axes(self, where: Index, sizes: Ints) -> tuple[Index, ...]:
        """Coordinates of a line, which are found once, where the kernel begins."""
        key = (id(where), sizes)
        if key not in self._axes:
            self._axes[key] = coordinates(self.k, where, sizes)
        return self._axes[key]

    def row_place(self, shape: Ints) -> Place:
        """The line's place, or that of a vector of lines, in a value of one element a line."""
        if shape not in self._rows:
            parts = self.lines.parts(shape, kept=True)
            axes = None
            if parts is not None:
                each = zip(self.row_segments, parts, strict=True)
                axes = tuple([axis for where, sizes in each for axis in self.row_axes(where, sizes)])
                axes = axes if self.row_segments else (0,) * len(shape)
            lane = len(shape) - 1 if self.sharing.lanes and not self.sharing.inward else None
            self._rows[shape] = Place(shape, lane, known_axes=axes, known_number=self.row)
        return self._rows[shape]

    def begin(self, shapes: Iterable[Ints]) -> None:
        """Find the coordinates of the thread's line in values of these shapes where all that follows can use them."""
        for shape in shapes:
            if math.prod(shape) == self.lines.count:
                self.row_place(shape).axes(self.k)
            parts = self.lines.parts(shape)
            if parts is None:
                continue
            kept = [sizes for sizes, (_, along) in zip(parts, self.lines.segments, strict=True) if not along]
            for where, sizes in zip(self.row_segments, kept, strict=True):
                self.row_axes(where, sizes)

    def sweep(self, visit: Visit, states: list[State]) -> list[State]:
        """Visit all elements of the thread's lines: those that it holds in registers, then the others, in a loop."""
        behind = min(self.sharing.held * self._step, self.lines.length)
        if self._turns is None:
            self._turns = self._held_turns(behind)
        for turn in self._turns:
            states = visit(turn, states)
        if behind == self.lines.length:
            return states
        with self._reading_again(behind > 0):
            return self._loop(visit, states, behind)

    @property
    def _each(self) -> int:
        """How many elements of a line a thread takes at once."""
        return max(self.sharing.lanes, 1) if self.sharing.inward else 1

    @property
    def _step(self) -> int:
        """How many a line's threads take at once."""
        return self.sharing.across * self._each

    @contextmanager
    def _reading_again(self, again: bool) -> Iterator[None]:
        """Where the registers are full, no compiler may keep what is read for the next time that it is.

        Loads that are not said to be of constant memory are done again behind each barrier.
        """
        elements, before = self.elements, self.elements.operands
        if again:
            elements.operands = [evolve(each, pointer=evolve(each.pointer, constant=False)) for each in before]
        try:
            yield
        finally:
            elements.operands = before

    def _held_turns(self, behind: int) -> list[Turn]:
        k, length, step = self.k, self.lines.length, self._step
        first = k.mul(self.mine, self._each)
        found = []
        for start in range(0, behind, step):
            along = k.add(first, start)
            valid = None
            if start + step > length:
                valid = k.below(along, length)
                along = k.select(valid, k.reg(along), k.reg(0))
            found.append(Turn(self, along, valid))
        return found

    def _loop(self, visit: Visit, states: list[State], behind: int) -> list[State]:
        k, step = self.k, self._step
        begin, stop, most = self.span(step)
        first = k.add(k.mul(self.mine, self._each), k.add(begin, behind))
        counts = list(map(len, states))
        if most - behind >= UNROLLED * step:
            kept = [register for state in states for register in state]
            last = k.sub(stop, (UNROLLED - 1) * step)
            with k.loop(first, last, UNROLLED * step, [*kept, k.reg(first)]) as loop, self.elements.scope():
                states = list(_grouped(loop.carried, counts))
                several = [Turn(self, k.add(loop.index, i * step), None) for i in range(UNROLLED)]
                self._load_ahead(several)
                for turn in several:
                    states = visit(turn, states)
                following = k.reg(k.add(loop.index, UNROLLED * step))
                loop.next(*[register for state in states for register in state], following)
            states, first = list(_grouped(loop.results, counts)), loop.results[-1]
        kept = [register for state in states for register in state]
        with k.loop(first, stop, step, kept) as loop, self.elements.scope():
            states = list(_grouped(loop.carried, counts))
            states = visit(Turn(self, loop.index, None), states)
            loop.next(*[register for state in states for register in state])
        return list(_grouped(loop.results, counts))

    def _load_ahead(self, turns: Sequence[Turn]) -> None:
        """Have the loads of all turns on their way before anything is computed; what nobody reads falls away later."""
        flow = self.elements.flow
        size = self.lines.count * self.lines.length
        whole = [v for v in range(flow.given) if flow.types[v].size == size]
        for turn in turns:
            for value in whole:
                self.elements.at(value, turn.place(flow.types[value].shape))

    def span(self, step: int) -> tuple[Index, Index, int]:
        """The part of a line that the block works on: its first element, its end, and how many there are at most."""
        k, splits, length = self.k, self.sharing.splits, self.lines.length
        if splits == 1:
            return 0, length, length
        most = -(-length // (step * splits)) * step
        begin = k.mul(self.split, most)
        return begin, k.op("arith.minsi", k.reg(k.add(begin, most)), k.reg(length)), most

    def together(self, folds: Sequence[Fold], states: Sequence[State]) -> list[State]:
        """What the threads of each line have, of whose accumulators `states` are one thread's."""
        k, sharing = self.k, self.sharing
        if not sharing.inward:
            return over_rows(k, folds, states, self.beside, self.mine, sharing.across, sharing.beside)
        whole = [over_lanes(k, fold, state) for fold, state in zip(folds, states, strict=True)]
        if sharing.across > WARP:
            return over_block(k, folds, whole, self.thread, sharing.across // WARP) if folds else []
        return [over_warp(k, fold, state, sharing.across) for fold, state in zip(folds, whole, strict=True)]

    def part_place(self, shape: Ints, part: Index | None = None) -> Place:
        """Where what a block has folded of its part belongs in a temporary, or where another part's is.

        A line's parts lie side by side there, or a part's lines.
        """
        k, sharing = self.k, self.sharing
        number = self.split if part is None else part
        if sharing.inward:
            return Place(shape, None, known_number=k.add(k.mul(self.row, sharing.splits), number))
        lane = 1 if sharing.lanes else None
        return Place(shape, lane, known_number=k.add(k.mul(number, self.lines.count), self.row))

    def once(self) -> Reg | None:
        """Whether the thread is the one that stores what its line has one of; None where every thread is."""
        k = self.k
        first = None if self.sharing.across == 1 else k.compare("eq", k.reg(self.mine), k.reg(0))
        if first is None or self.row_valid is None:
            return first if self.row_valid is None else self.row_valid
        return k.op("arith.andi", first, self.row_valid)


@contextmanager
def under(k: Kernel, *conditions: Reg | None) -> Iterator[None]:
    """What is written within the block happens where all conditions hold; None always does."""
    given = [condition for condition in conditions if condition is not None]
    if not given:
        yield
        return
    with k.when(reduce(lambda a, b: k.op("arith.andi", a, b), given)):
        yield


def _grouped(registers: Sequence[Reg], counts: Sequence[int]) -> Iterator[State]:
    at = 0
    for count in counts:
        yield tuple(registers[at : at + count])
        at += count
