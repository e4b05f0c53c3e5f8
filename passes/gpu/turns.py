"""The turns of a loop whose body works element by element, as one thread of a kernel runs them for one element.

Nothing of a turn goes to memory but its outs. What several turns read is asked for before the first of them computes,
so that memory is waited for once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from attrs import define, evolve, frozen

from sexpgpu.dialects.loops import Loop
from sexpgpu.dialects.opdef import Pointwise
from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.kernel import Index, Kernel, Reg
from sexpgpu.passes.gpu.layout import Layout, Place
from sexpgpu.passes.gpu.memory import Operand, load, store
from sexpgpu.plan.dataflow import Dataflow

_AHEAD = 4
"""Turns whose items are read before the first of them computes."""
LONG = 96
"""Operations of a body from which on one turn at a time is code enough."""

Turn = Callable[[Index, int, list[Reg]], list[Reg]]
"""Writes so many turns from one on: what they make of what is carried."""


@frozen(eq=False)
class Recurrence:
    """A loop with its body as operations on elements."""

    loop: Loop
    turns: int
    body: Dataflow

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the states."""
        return self.body.types[self.body.results[0]].shape

    @property
    def ahead(self) -> int:
        """The turns that are written side by side."""
        return 1 if len(self.body.nodes) > LONG else _AHEAD


@frozen(eq=False)
class Sink:
    """Where an out goes: along `axis` of a tensor, its first place being `skip`."""

    operand: Operand
    axis: int
    skip: int = 0


@define(eq=False)
class Turns:
    """The turns of one thread; `operands` are those of the loop, `sinks` those of each out."""

    kernel: Kernel
    recurrence: Recurrence
    operands: Sequence[Operand]
    sinks: Sequence[Sequence[Sink]]

    def first_states(self, number: Index) -> list[Reg]:
        """The states of the element with this number before the first turn."""
        given = self.operands[: self.recurrence.loop.states]
        return [load(self.kernel, operand, self.at(number), 0) for operand in given]

    def at(self, number: Index) -> Place:
        """A place of its own for whoever asks: coordinates, once worked out, are those of a loop or condition."""
        return Place(self.recurrence.shape, None, known_number=number)

    def along(self, first: Index, count: Index, carried: Sequence[Reg], turn: Turn) -> list[Reg]:
        """`count` turns from turn `first` on, several side by side as long as there are so many."""
        k, ahead = self.kernel, self.recurrence.ahead
        rest = k.rem(count, ahead)
        whole = k.sub(count, rest)
        found = list(carried)
        if whole != 0:
            with k.loop(first, k.add(first, whole), ahead, found) as several:
                several.next(*turn(several.index, ahead, several.carried))
            found = several.results
        if isinstance(rest, int):
            return turn(k.add(first, whole), rest, found) if rest else found
        with k.loop(k.add(first, whole), k.add(first, count), 1, found) as one:
            one.next(*turn(one.index, 1, one.carried))
        return one.results

    def write(self, number: Index, first: Index, count: Index, states: Sequence[Reg]) -> list[Reg]:
        """Write turns of the element with this number: the states behind them."""

        def turn(first: Index, count: int, states: list[Reg]) -> list[Reg]:
            at = self.at(number)
            for place, each in self.side_by_side(number, first, count):
                made = self.made(each, at, states)
                states = made[: self.recurrence.loop.states]
                for sinks, value in zip(self.sinks, made[len(states) :], strict=True):
                    for sink in sinks:
                        target = row(self.kernel, sink.operand, sink.axis, self.kernel.add(place, sink.skip))
                        store(self.kernel, target, at, value, 0)
            return states

        return self.along(first, count, states, turn)

    def side_by_side(self, number: Index, first: Index, count: int) -> list[tuple[Index, Elements]]:
        """The places of several turns with the elements of the bodies there, whose items have been asked for."""
        k, body = self.kernel, self.recurrence.body
        places = [self.place(k.add(first, turn)) for turn in range(count)]
        found = [(place, Elements(k, body, self.given(place), 0)) for place in places]
        at = self.at(number)
        for _, each in found:
            self._read(each, at)
        return found

    def made(self, elements: Elements, at: Place, states: Sequence[Reg]) -> list[Reg]:
        """What the body gives from these states."""
        elements.known.update({number: partial(kept, state) for number, state in enumerate(states)})
        return [elements.at(value, at) for value in self.recurrence.body.results]

    def place(self, turn: Index) -> Index:
        """Where the items and outs of a turn lie."""
        return self.kernel.sub(self.recurrence.turns - 1, turn) if self.recurrence.loop.reverse else turn

    def given(self, place: Index) -> list[Operand]:
        """The operands of the body in the turn at a place."""
        loop = self.recurrence.loop
        first, behind = loop.states, loop.states + len(loop.items)
        items = [
            row(self.kernel, operand, axis, place)
            for operand, axis in zip(self.operands[first:behind], loop.items, strict=True)
        ]
        return [*self.operands[:first], *items, *self.operands[behind:]]

    def _read(self, elements: Elements, at: Place) -> None:
        """Ask for the items that functions of elements read at this place."""
        flow, loop = self.recurrence.body, self.recurrence.loop
        items = range(loop.states, loop.states + len(loop.items))
        read = {v for node in flow.nodes if node.record and isinstance(node.record.kind, Pointwise) for v in node.ins}
        for item in items:
            if item in read and flow.types[item].shape == self.recurrence.shape:
                elements.at(item, at)


def kept(state: Reg, place: Place) -> Reg:
    """The element of a value at the thread's place, which is the only one that is asked for."""
    return state


def row(k: Kernel, operand: Operand, axis: int, place: Index) -> Operand:
    """The part of a tensor at a place along an axis."""
    layout = operand.layout
    start = k.address(operand.pointer, k.mul(place, layout.strides[axis]))
    rest = [i for i in range(len(layout.shape)) if i != axis]
    shape, strides = (tuple(each[i] for i in rest) for each in (layout.shape, layout.strides))
    return Operand(evolve(operand.pointer, value=start), Layout(shape, strides, layout.offset), operand.dtype)
