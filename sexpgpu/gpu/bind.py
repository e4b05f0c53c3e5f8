"""A plan as a list of commands: where each argument of each kernel lies, worked out once.

An address is in the arena, in a constant, or an offset into memory that the caller gives for an input or result. Loops
become the commands of all their turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from sexpgpu.gpu.driver import Call, Command, Copy, Driver, Execute, Function, Run, Words
from sexpgpu.gpu.library.choice import behind
from sexpgpu.plan.arena import aligned
from sexpgpu.plan.build import askew_bytes, temporary_offsets
from sexpgpu.plan.records import At, Fixed, Given, GraphPlan, Into, Launch, Launches, Step, Turns, View
from sexpgpu.plan.tensor_maps import WORDS, TensorMap
from sexpgpu.tensortype import TensorType

Numbers = NDArray[np.int64]
_FIXED = -1
_What = Launch | int | Execute
"""A kernel, a copy of so many bytes, or a graph of a library."""


@frozen
class Address:
    """Byte `offset` of what the caller gives at `place` (inputs, then results); without a place, of all memory."""

    offset: int
    place: int = _FIXED

    def plus(self, nbytes: int) -> Address:
        return Address(self.offset + nbytes, self.place)


@frozen
class _Map:
    """A tensor map whose words begin at `position`: of what lies at `where`."""

    position: int
    map: TensorMap
    where: Address


@frozen(eq=False)
class Bound:
    """Commands whose arguments are in `words`; those at `positions` are the caller's addresses plus `offsets`.

    `maps` are of what the caller gives; `seen` are the addresses that each was encoded for last. The results at the
    places `lacking` are not made: sums of squares, beside what a library computes.
    """

    commands: tuple[Command, ...]
    words: Words
    positions: Numbers
    places: Numbers
    offsets: Words
    maps: tuple[_Map, ...] = ()
    seen: dict[int, int] = field(factory=dict)
    lacking: frozenset[int] = frozenset()

    def give(self, addresses: Words, driver: Driver) -> None:
        """Set the caller's addresses: one an input, one a result."""
        if self.positions.size:
            self.words[self.positions] = addresses[self.places] + self.offsets
        for each in self.maps:
            address = int(addresses[each.where.place]) + each.where.offset
            if self.seen.get(each.position) != address:
                self.words[each.position : each.position + WORDS] = driver.encode(each.map, address)
                self.seen[each.position] = address


Constants = Callable[[GraphPlan], Sequence[int]]
"""Where the constants of a graph, or of a body, lie."""
Marks = Callable[[int, Step], int]
"""The address of an argument of a step's kernels that is no tensor: `FAULTS` or `SCALE`."""


def bind(
    plan: GraphPlan, driver: Driver, functions: Mapping[str, Function], arena: int, constants: Constants, marks: Marks
) -> Bound:
    """The commands of a graph whose arena begins at address `arena`."""
    binder = _Binder(driver, functions, constants, marks)
    count = len(plan.spec.inputs)
    inputs = [Address(0, place) for place in range(count)]
    results = [Address(0, count + place) for place in range(len(plan.results))]
    binder.graph(plan, inputs, results, arena)
    return binder.finish()


@define
class _Binder:
    driver: Driver
    functions: Mapping[str, Function]
    constants: Constants
    marks: Marks
    _arguments: list[Address] = field(factory=list, init=False)
    _made: list[tuple[_What, int, int]] = field(factory=list, init=False)  # what, its arguments from, to
    _maps: list[_Map] = field(factory=list, init=False)
    _granted: dict[str, int] = field(factory=dict, init=False)
    _lacking: set[int] = field(factory=set, init=False)

    def graph(self, plan: GraphPlan, inputs: Sequence[Address], results: Sequence[Address], base: int) -> None:
        """The commands of a plan whose arena begins at `base`."""
        places = _places(plan, inputs, results, base, self.constants(plan))
        for step in plan.steps:
            match step.how:
                case Launches(over=over):
                    if over >= 0:
                        self._copy(places[step.outs[0]], places[step.ins[over]], plan.slots[step.outs[0]].type.nbytes)
                    self._launches(plan, step, step.how, places, base)
                case Turns():
                    self._loop(plan, step, step.how, places, base)
                case _ if len(step.outs) == 1 and isinstance(plan.slots[step.outs[0]].home, View):
                    pass  # a view needs no kernel: who reads it knows its strides
                case _:
                    raise ValueError(f"no kernel runs {step.op} at {step.span}")
        for place, (slot, target) in enumerate(zip(plan.results, results, strict=True)):
            if plan.slots[slot].home != Into(place):
                # A view among the results lies dense from its buffer's first byte: the pass to-gpu sees to that.
                self._copy(target, places[slot], plan.slots[slot].type.nbytes)

    def _launches(self, plan: GraphPlan, step: Step, how: Launches, places: Sequence[Address], base: int) -> None:
        start = base + step.workspace[0]
        known = [places[slot] for slot in (*step.ins, *step.outs)]
        known += [Address(start + offset) for offset in temporary_offsets(how.temporaries)[:-1]]
        execute = self._library(plan, step, how)
        if execute is not None and how.library is not None:
            self._add(execute, [known[each.argument].plus(behind(each)) for each in how.library.tensors])
            homes = {slot.home for slot in (plan.slots[out] for out in step.outs)}
            outputs = enumerate(plan.spec.outputs)
            self._lacking |= {place for place, o in outputs if o.role == "squares" and Into(place) in homes}
        else:
            self._kernels(step, how, known)

    def _kernels(self, step: Step, how: Launches, known: Sequence[Address]) -> None:
        for launch in how.kernels:
            if min(launch.grid) > 0:
                given = [known[n] if n >= 0 else Address(self.marks(n, step)) for n in launch.args]
                if launch.table is not None:
                    given += launch.table.words(known, Address)
                for map in launch.maps:
                    self._maps.append(_Map(len(self._arguments) + len(given), map, known[map.argument]))
                    given += [Address(0)] * WORDS
                self._add(launch, given)

    def _library(self, plan: GraphPlan, step: Step, how: Launches) -> Execute | None:
        """What a library has for a step that it is faster at."""
        libraries = self.driver.libraries
        if libraries is None or how.library is None:
            return None
        sizes = [plan.slots[_buffer(plan, slot)].type.nbytes for slot in (*step.ins, *step.outs)]

        def own(places: Sequence[int]) -> tuple[Command, ...]:
            binder = _Binder(self.driver, self.functions, self.constants, self.marks)
            binder._kernels(step, how, [Address(place) for place in places])
            return binder.finish().commands

        return libraries.choose(self.driver, how, [*sizes, *how.temporaries], own)

    def _loop(self, plan: GraphPlan, step: Step, turns: Turns, places: Sequence[Address], base: int) -> None:
        """All turns one behind another; the states take turns in two sets of memory behind the body's arena."""
        (body,) = step.bodies
        if any(turns.items) or any(turns.outs):
            raise ValueError(f"the items of {step.op} at {step.span} do not lie one behind another")
        count, last = turns.states, turns.states + len(turns.items)
        given = [places[slot] for slot in step.ins]
        outs = [places[slot] for slot in step.outs]
        types = [body.slots[slot].type for slot in body.results]
        space = base + step.workspace[0]
        buffers = _state_buffers(types[:count], space + (body.memory.arena if body.memory else 0))
        item_bytes = [plan.slots[slot].type.nbytes // max(turns.count, 1) for slot in step.ins[count:last]]
        states = given[:count]
        ends = space + step.workspace[1]
        item_types = [slot.type for slot in body.slots[count:last]]
        straight = _straight_rows([*item_types, *types[count:]], ends)
        for number in range(turns.count):
            turn = turns.count - 1 - number if turns.reverse else number
            items = [place.plus(turn * size) for place, size in zip(given[count:last], item_bytes, strict=True)]
            rows = [out.plus(turn * type.nbytes) for out, type in zip(outs[count:], types[count:], strict=True)]
            following = [Address(address) for address in buffers[number % 2]]
            read = [row if place is None else place for row, place in zip(items, straight, strict=False)]
            written = [row if place is None else place for row, place in zip(rows, straight[len(items) :], strict=True)]
            for place, row, size in zip(read, items, item_bytes, strict=True):
                self._copy(place, row, size)
            self.graph(body, [*states, *read, *given[last:]], [*following, *written], space)
            for row, place, type in zip(rows, written, types[count:], strict=True):
                self._copy(row, place, type.nbytes)
            states = following
        for out, state, slot in zip(outs, states, step.outs, strict=False):
            self._copy(out, state, plan.slots[slot].type.nbytes)

    def _copy(self, target: Address, source: Address, nbytes: int) -> None:
        if nbytes and target != source:
            self._add(nbytes, [target, source])

    def _add(self, what: _What, arguments: Sequence[Address]) -> None:
        start = len(self._arguments)
        self._arguments += arguments
        self._made.append((what, start, len(self._arguments)))

    def finish(self) -> Bound:
        caller = [(number, a) for number, a in enumerate(self._arguments) if a.place != _FIXED]
        words = np.array([a.offset for a in self._arguments], np.uint64)
        pointers = np.uint64(words.ctypes.data) + np.arange(len(words), dtype=np.uint64) * np.uint64(words.itemsize)
        commands = tuple([self._command(what, words[i:j], pointers[i:j]) for what, i, j in self._made])
        for each in self._maps:
            if each.where.place == _FIXED:
                words[each.position : each.position + WORDS] = self.driver.encode(each.map, each.where.offset)
        return Bound(
            commands,
            words,
            np.array([number for number, _ in caller], np.int64),
            np.array([a.place for _, a in caller], np.int64),
            np.array([a.offset for _, a in caller], np.uint64),
            tuple([each for each in self._maps if each.where.place != _FIXED]),
            lacking=frozenset(self._lacking),
        )

    def _command(self, what: _What, words: Words, pointers: Words) -> Command:
        if isinstance(what, int):
            return Copy(words, what)
        if not isinstance(what, Launch):
            return Call(what, words)
        function = self.functions[what.kernel]
        if what.shared > self._granted.get(what.kernel, 0):
            self.driver.allow_shared(function, what.shared)
            self._granted[what.kernel] = what.shared
        values = [WORDS] * len(what.maps)
        if what.table is not None:
            values.insert(0, len(words) - len(what.args) - sum(values))
        firsts = [*range(len(what.args)), *(len(words) - sum(values[i:]) for i in range(len(values)))]
        return Run(function, what.grid, what.block, what.shared, words, pointers[firsts], tuple(values))


def _places(
    plan: GraphPlan, inputs: Sequence[Address], results: Sequence[Address], base: int, constants: Sequence[int]
) -> list[Address]:
    """Where the buffer of each slot begins; of a view it is that of the slot it looks into."""
    places: list[Address] = []
    for number in range(len(plan.slots)):
        match plan.slots[_buffer(plan, number)].home:
            case Given(place):
                places.append(inputs[place])
            case Into(place):
                places.append(results[place])
            case At(offset):
                places.append(Address(base + offset))
            case Fixed(place):
                places.append(Address(constants[place]))
            case _:
                raise ValueError(f"graph `{plan.spec.name}` has no memory plan")
    return places


def _buffer(plan: GraphPlan, slot: int) -> int:
    """The slot whose buffer a slot looks into, or itself."""
    home = plan.slots[slot].home
    return _buffer(plan, home.of) if isinstance(home, View) else slot


def _straight_rows(types: Sequence[TensorType], end: int) -> list[Address | None]:
    """Of a loop's rows, places for those that lie askew, the last of which ends at `end`."""
    places: list[Address | None] = []
    place = end - sum(map(askew_bytes, types))
    for type in types:
        places.append(Address(place) if askew_bytes(type) else None)
        place += askew_bytes(type)
    return places


def _state_buffers(types: Sequence[TensorType], offset: int) -> tuple[list[int], list[int]]:
    buffers: tuple[list[int], list[int]] = ([], [])
    for type in types:
        for buffer in buffers:
            buffer.append(offset)
            offset += aligned(type.nbytes)
    return buffers
