"""Lines put in order: a block sorts a line by pairs of an element and its place, so that equals keep their order.

Batcher's bitonic network ("Sorting networks and their applications", 1968) on a line padded to a power of two, in
shared memory where it fits, else in a temporary. All pairs differ, so any network gives the one stable order.
"""

from __future__ import annotations

import math

from attrs import define, field

from sexpgpu.dialects.opdef import Order
from sexpgpu.passes.gpu.kernel import BYTES, FLOATS, Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.layout import Ints, Place, coordinates
from sexpgpu.passes.gpu.memory import Operand, load, store
from sexpgpu.passes.gpu.scalar import REGISTER
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.dataflow import Node
from sexpgpu.plan.records import Launches
from sexpgpu.tensortype import DType, TensorType

MOST_THREADS = 512
SHARED = 48 * 1024
"""Bytes of shared memory that a kernel may have without asking for more."""
_STORED: dict[str, DType] = {"f32": "f32", "f64": "f64", "i32": "i32", "i64": "i64"}


def lower(task: Task) -> Launches:
    """One kernel, a block a line."""
    (node,) = task.flow.nodes
    if task.type(node.ins[0]).size and task.type(task.result(0)).size:
        _Sort(task, node).lower()
    return task.lowered()


@define(eq=False)
class _Sort:
    task: Task
    node: Node
    kind: Order = field(init=False)
    shape: Ints = field(init=False)
    axis: int = field(init=False)
    padded: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        assert self.node.record is not None
        assert isinstance(self.node.record.kind, Order)
        self.kind = self.node.record.kind
        self.shape = self.task.type(self.node.ins[0]).shape
        self.axis = self.node.attrs.get("axis", len(self.shape) - 1)
        self.padded = 1 << max(self.length - 1, 1).bit_length()

    @property
    def length(self) -> int:
        return self.shape[self.axis]

    def lower(self) -> None:
        task, padded = self.task, self.padded
        (x,) = self.node.ins
        lines = math.prod(self.shape) // self.length
        key = REGISTER[task.type(x).dtype]
        threads = min(MOST_THREADS, max(32, padded // 2))
        temporaries = []
        if padded * (BYTES[key] + BYTES["i32"]) > SHARED:
            kinds: tuple[DType, DType] = (_STORED[key], "i32")
            temporaries = [task.temporary(TensorType((lines, padded), kind)) for kind in kinds]
        results = [task.result(place) for place in range(len(task.results))]
        k, tensors = task.begin([x], [*results, *temporaries], lines, threads)
        thread = k.thread()
        line = k.block_number()
        spaces: tuple[Pointer, ...]
        if temporaries:
            spaces, start = tuple([tensors[t].pointer for t in temporaries]), k.mul(line, padded)
        else:
            spaces, start = (k.shared(key, padded), k.shared("i32", padded)), 0
        pairs = _Pairs(k, spaces[0], spaces[1], start, self.length, self.kind.descending)
        outer = coordinates(k, line, (*self.shape[: self.axis], *self.shape[self.axis + 1 :]))
        with k.loop(thread, padded, threads) as turn:
            inside = k.below(turn.index, self.length)
            held = k.select(inside, turn.index, k.reg(0))
            pairs.put(turn.index, (load(k, tensors[x], self._place(self.shape, outer, held), 0), turn.index))
            turn.next()
        self._network(k, pairs, thread, threads)
        for place, result in enumerate(results):
            self._write(k, tensors[result], pairs, outer, thread, threads, self._gives(place))
        k.end()

    def _gives(self, place: int) -> str:
        """What a result holds: `values` or `places`."""
        return ("values", "places")[place] if self.kind.gives == "both" else self.kind.gives

    def _place(self, shape: Ints, outer: tuple[Index, ...], at: Index) -> Place:
        return Place(shape, None, known_axes=(*outer[: self.axis], at, *outer[self.axis :]))

    def _network(self, k: Kernel, pairs: _Pairs, thread: Index, threads: int) -> None:
        """Every stage merges runs of 2^stage pairs, each step compares pairs 2^step apart."""
        one = k.reg(1)
        with k.loop(1, self.padded.bit_length(), 1) as stage:
            with k.loop(0, stage.index, 1) as count:
                k.barrier()
                step = k.reg(k.sub(k.sub(stage.index, 1), count.index))
                apart = k.op("arith.shli", one, step)
                with k.loop(thread, self.padded // 2, threads) as turn:
                    within = k.op("arith.andi", turn.index, k.op("arith.subi", apart, one))
                    first = k.add(k.mul(k.reg(k.sub(turn.index, within)), 2), within)
                    pairs.order(k.reg(first), k.op("arith.addi", k.reg(first), apart), stage.index)
                    turn.next()
                count.next()
            stage.next()
        k.barrier()

    def _write(
        self,
        k: Kernel,
        result: Operand,
        pairs: _Pairs,
        outer: tuple[Index, ...],
        thread: Index,
        threads: int,
        gives: str,
    ) -> None:
        shape = result.layout.shape
        with k.loop(thread, shape[self.axis], threads) as turn:
            value, place = pairs.get(turn.index)
            if gives == "places":
                value = place if place.type == "i32" else k.op("arith.trunci", place, type="i32")
            store(k, result, self._place(shape, outer, turn.index), value, 0)
            turn.next()


@define(eq=False)
class _Pairs:
    """Elements of a line and their places, `length` of them and padding, which comes last."""

    k: Kernel
    keys: Pointer
    places: Pointer
    start: Index
    length: int
    descending: bool

    def get(self, at: Index) -> tuple[Reg, Reg]:
        k = self.k
        index = k.add(self.start, at)
        return k.load(self.keys, index), k.load(self.places, index)

    def put(self, at: Index, pair: tuple[Reg, Reg]) -> None:
        k = self.k
        value, place = pair
        index = k.add(self.start, at)
        k.store(value, self.keys, index)
        k.store(place if place.type == "i32" else k.op("arith.trunci", place, type="i32"), self.places, index)

    def order(self, first: Reg, second: Reg, stage: Reg) -> None:
        """Swap two pairs unless they are in the order of their run: every other run of 2^stage is the wrong way."""
        k = self.k
        a, b = self.get(first), self.get(second)
        backwards = k.op("arith.andi", k.op("arith.shrui", first, stage), k.reg(1))
        wrong = k.op("arith.xori", self._precedes(b, a), k.compare("ne", backwards, k.reg(0)))
        with k.when(wrong):
            self.put(first, b)
            self.put(second, a)

    def _precedes(self, a: tuple[Reg, Reg], b: tuple[Reg, Reg]) -> Reg:
        """Whether pair a comes before pair b: by the elements, NaN above all, then by place; padding is last."""
        k = self.k
        (x, i), (y, j) = a, b
        greater, less = self._less(y, x), self._less(x, y)
        if self.descending:
            greater, less = less, greater
        # Padding: its places are not below the length.
        outside = [k.compare("ge", place, k.const(self.length, "i32")) for place in (i, j)]
        by_place = k.compare("lt", i, j)
        by_value = k.select(less, k.const(1, "i1"), k.select(greater, k.const(0, "i1"), by_place))
        either = k.op("arith.ori", *outside)
        return k.select(either, by_place, by_value)

    def _less(self, x: Reg, y: Reg) -> Reg:
        k = self.k
        less = k.compare("lt", x, y)
        if x.type not in FLOATS:
            return less
        above = k.op("arith.andi", k.compare("ne", y, y), k.compare("eq", x, x))  # y is NaN, x is none
        return k.op("arith.ori", less, above)
