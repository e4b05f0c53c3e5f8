"""Kernels that fold many tensors, each to single elements, in two launches: the norm of all gradients, say.

    s = sum(x * x), of each tensor by itself    =>    @row_1(table)       a block folds a chunk of a tensor
                                                      @row_1_2(table)     a block folds what its tensor's blocks have

Which threads fold which elements depends on a tensor's size alone, so that the same tensor gives the same bits whatever
it shares a launch with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from attrs import define, evolve, field

from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.folds import Fold, State, over_block, over_lanes
from sexpgpu.passes.gpu.kernel import BYTES, WARP, Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.layout import Layout, Place
from sexpgpu.passes.gpu.lookup import Lookup
from sexpgpu.passes.gpu.members import ELEMENTS, Body
from sexpgpu.passes.gpu.memory import WIDEST, Operand, load, store
from sexpgpu.passes.gpu.scalar import MEMORY
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.records import Launch
from sexpgpu.plan.tables import Row, Table
from sexpgpu.tensortype import DType, TensorType

THREADS = 256
PIECES = 4
"""The vectors that a thread takes of a chunk."""
_WHOLE = 1 << 62
"""The chunk of which every tensor has one."""


def folds_alone(body: Body) -> bool:
    """Whether all that a group gives are single elements that are made of folds of what each tensor has of its own."""
    operands = range(body.flow.given)
    return bool(body.folds) and not any(body.whole) and body.wide.issuperset(operands)


@define(eq=False)
class Folding:
    """The two kernels of a group of folds; `parts` are temporaries, one for each fold, of what blocks have folded."""

    task: Task
    body: Body
    size: int = field(init=False)
    lanes: int = field(init=False)
    parts: dict[int, int] = field(init=False)
    _folds: dict[int, Fold] = field(init=False)
    _first: Lookup = field(init=False)
    _second: Lookup = field(init=False)

    def __attrs_post_init__(self) -> None:
        task, body = self.task, self.body
        operands = tuple(range(body.flow.given))
        self.size = task.type(body.members.gradient).size
        self.lanes = min(8, WIDEST // min(BYTES[MEMORY[task.type(a).dtype]] for a in operands))
        self._folds = {out: Fold.of(node, body.flow.types[node.ins[0]].dtype) for out, node in body.folds.items()}
        blocks = Row((), self.size).blocks(self.chunk)
        self.parts = {out: task.temporary(TensorType((blocks,), _kept(fold))) for out, fold in self._folds.items()}
        results = tuple([task.result(place) for place in range(len(task.results))])
        self._first = Lookup((*operands, *self.parts.values()), 0)
        self._second = Lookup((*self.parts.values(), *results), 0)

    @property
    def chunk(self) -> int:
        """The elements that a block of the first kernel takes."""
        return THREADS * self.lanes * PIECES

    def launches(self, first: str, second: str) -> tuple[Launch, ...]:
        """Both for the group's one tensor, by the kernels' names."""
        return self._launch(first, self._first, self.chunk), self._launch(second, self._second, _WHOLE)

    def _launch(self, name: str, lookup: Lookup, chunk: int) -> Launch:
        table = Table((Row(lookup.arguments, self.size),), lookup.capacity, chunk)
        return Launch(name, (table.blocks, 1, 1), (THREADS, 1, 1), 0, (), table=table)

    def write(self, first: str, second: str) -> None:
        self._write_chunks(first)
        self._write_tensors(second)

    def _write_chunks(self, name: str) -> None:
        """A block folds its chunk: every thread the vectors that lie a block's apart."""
        task, body = self.task, self.body
        k = Kernel(task.module, name, THREADS)
        k.begin([], 0, table=self._first.capacity * self._first.words)
        found = self._first.find(k)
        start, count = found.part(k, self.chunk)
        tensors = {}
        for value in range(body.flow.given):
            pointer = Pointer(found.addresses[value], MEMORY[task.type(value).dtype], constant=True)
            pointer = evolve(pointer, value=k.address(pointer, start))
            tensors[value] = Operand(pointer, Layout.dense(ELEMENTS), task.type(value).dtype)
        states = [fold.identity(k, 0) for fold in self._folds.values()]
        thread = k.thread()
        for piece in range(PIECES):
            first = k.reg(k.mul(k.add(thread, piece * THREADS), self.lanes))
            behind = k.reg(k.add(first, self.lanes))
            vector = partial(self._folded, k, tensors, first, self.lanes, states)
            states = self._where(k, k.compare("le", behind, count), vector, states)
            ragged = k.op("arith.andi", k.below(first, count), k.compare("gt", behind, count))
            rest = partial(self._rest, k, tensors, first, count, states)
            states = self._where(k, ragged, rest, states)
        whole = over_block(k, list(self._folds.values()), states, thread, THREADS // WARP)
        with k.when(k.below(thread, 1)):
            for (out, fold), (register,) in zip(self._folds.items(), whole, strict=True):
                part = Pointer(found.addresses[self.parts[out]], fold.types[0])
                k.store(register, part, found.number)
        k.end()

    def _write_tensors(self, name: str) -> None:
        """A block folds what the blocks before have of a tensor, and makes the results of that."""
        task, body = self.task, self.body
        k = Kernel(task.module, name, THREADS)
        k.begin([], 0, table=self._second.capacity * self._second.words)
        found = self._second.find(k)
        more = k.op("arith.addi", found.size, k.const(self.chunk - 1, "i64"))
        count = k.op("arith.trunci", k.op("arith.divui", more, k.const(self.chunk, "i64")), type="i32")
        thread = k.thread()
        states = []
        for out, fold in self._folds.items():
            part = Pointer(found.addresses[self.parts[out]], fold.types[0], constant=True)
            with k.loop(thread, count, THREADS, fold.identity(k, 0)) as turn:
                turn.next(*fold.merge(k, tuple(turn.carried), (k.load(part, turn.index),)))
            states.append(tuple(turn.results))
        whole = over_block(k, list(self._folds.values()), states, thread, THREADS // WARP)
        with k.when(k.below(thread, 1)):
            made = {
                out: partial(_made, fold.result(k, state))
                for (out, fold), state in zip(self._folds.items(), whole, strict=True)
            }
            elements = Elements(k, body.flow, (), 0, dict(made))
            at = Place((), None, known_axes=(), known_number=0)
            for place, value in enumerate(body.flow.results):
                argument = task.result(place)
                dtype: DType = task.type(argument).dtype
                target = Operand(Pointer(found.addresses[argument], MEMORY[dtype]), Layout.dense(()), dtype)
                store(k, target, at, elements.at(value, at), 0)
        k.end()

    def _folded(
        self, k: Kernel, tensors: Mapping[int, Operand], first: Index, width: int, states: Sequence[State]
    ) -> list[State]:
        """The accumulators with the elements from `first` on: a vector of `width`, or one."""
        known = {value: partial(load, k, tensor, lanes=width) for value, tensor in tensors.items()}
        each = Elements(k, self.body.flow, (), width, dict(known))
        at = Place(ELEMENTS, 0 if width else None, known_number=first)
        found = []
        for (out, fold), state in zip(self._folds.items(), states, strict=True):
            value = k.splat(each.at(self.body.folds[out].ins[0], at), width)
            mine = over_lanes(k, fold, fold.element(k, value, lambda: k.reg(first)))
            found.append(fold.merge(k, state, mine))
        return found

    def _rest(
        self, k: Kernel, tensors: Mapping[int, Operand], first: Reg, count: Reg, states: Sequence[State]
    ) -> list[State]:
        """The accumulators with the elements behind the last whole vector."""
        with k.loop(first, count, 1, [register for (register,) in states], rolled=True) as turn:
            inside = [(register,) for register in turn.carried]
            turn.next(*[register for (register,) in self._folded(k, tensors, turn.index, 0, inside)])
        return [(register,) for register in turn.results]

    @staticmethod
    def _where(k: Kernel, condition: Reg, fold: partial[list[State]], states: Sequence[State]) -> list[State]:
        """What a function makes of the accumulators where the condition holds."""
        kept = [register for (register,) in states]
        return [(r,) for r in k.either(condition, lambda: [register for (register,) in fold()], kept)]


def _made(value: Reg, place: Place) -> Reg:
    return value


def _kept(fold: Fold) -> DType:
    """The dtype in which accumulators lie in memory, of the size of their registers."""
    kept: dict[str, DType] = {"f64": "f64", "f32": "f32", "i64": "i64", "i32": "i32"}
    return kept[fold.types[0]]
