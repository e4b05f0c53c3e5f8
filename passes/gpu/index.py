"""Scatters: slices of a copy of a tensor changed at places that other operands name, in the order of those.

No atomic additions of floats: whatever is written to is owned by one warp, which looks through the indices, 32 at a
time, for those that name its slice, and adds their updates in order. So the result is the same every time, and equal to
the interpreter's bit for bit. Where slices and indices are many, a first kernel finds between which indices each slice
is named at all, by atomic minima and maxima of integers, whose order does not matter.

On lines that have indices of their own a thread owns each element, as in any kernel of elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import define, field, frozen

from sexpgpu.dialects.opdef import Index as IndexKind
from sexpgpu.passes.gpu import pointwise
from sexpgpu.passes.gpu.kernel import WARP, Index, Kernel, Reg
from sexpgpu.passes.gpu.layout import Ints, Place, coordinates
from sexpgpu.passes.gpu.memory import Operand, load, store, vectors
from sexpgpu.passes.gpu.scalar import combine
from sexpgpu.passes.gpu.task import Task
from sexpgpu.passes.gpu.threads import atomic, ballot, lowest_bit, population
from sexpgpu.plan.records import Launches
from sexpgpu.tensortype import TensorType

THREADS = 128
WARPS = THREADS // WARP
PIECES = 4
"""Vectors of a slice that a lane holds at most; a longer slice is for several warps."""
MANY = 1 << 22
"""Looks of a warp at 32 indices from which on it is worth knowing where each slice is named."""


def lower(task: Task) -> Launches:
    """Kernels for one scatter."""
    (node,) = task.flow.nodes
    assert node.record is not None
    kind = node.record.kind
    assert isinstance(kind, IndexKind)
    if kind.lines:
        return pointwise.lower(task)
    if task.type(task.result(0)).size:
        _Scatter(task, node.attrs["axis"], node.ins, kind.access == "add").lower()
    return task.lowered()


UNTOUCHED = 1 << 16
"""Elements of a tensor from which on a scatter leaves the slices alone that nothing names."""


@frozen(eq=False)
class _Owned:
    """What a warp owns of a slice: coordinates in front of the axis, along it, and where its vectors begin behind."""

    outer: tuple[Index, ...]
    row: Reg
    columns: list[tuple[Index, Reg | None]]


@define(eq=False)
class _Scatter:
    """x [before, length, behind] with updates [before, count, behind] at indices [count]; `adds`, or else replaces."""

    task: Task
    axis: int
    given: tuple[int, ...]
    adds: bool
    before: Ints = field(init=False)
    behind: Ints = field(init=False)
    length: int = field(init=False)
    count: int = field(init=False)
    lanes: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        x, indices, updates = self.given
        shape = self.task.type(x).shape
        self.before, self.length, self.behind = shape[: self.axis], shape[self.axis], shape[self.axis + 1 :]
        self.count = self.task.type(indices).size
        self.lanes = 0
        for lanes in (4, 2):
            layouts = [self.task.layout(a) for a in (x, updates, self.task.result(0))]
            if not self.lanes and self.behind and self.behind[-1] % lanes == 0:
                suits = all(v.strides[-1] in (0, 1) and vectors(v, len(v.shape) - 1, lanes) for v in layouts)
                self.lanes = lanes if suits else 0

    def lower(self) -> None:
        width = math.prod(self.behind)
        part = WARP * max(self.lanes, 1) * PIECES
        parts = -(-width // part)
        warps = math.prod(self.before) * self.length * parts
        looks = warps * -(-self.count // WARP)
        x, indices, updates = self.given
        # What no index names stays as it is, where it is there already: the buffer is copied, or written over.
        layout = self.task.layout(x)
        entire = layout.is_dense and not layout.offset
        over = entire and x not in (indices, updates) and self.task.type(x).size > UNTOUCHED
        ranges = self._ranges() if over or looks > MANY else None
        if over:
            self.task.over = x
        result = self.task.result(0)
        source = result if over else x
        reads = [a for a in dict.fromkeys((source, indices, updates)) if a != result]
        reads += [ranges] if ranges is not None else []
        k, tensors = self.task.begin(reads, [result], -(-warps // WARPS), THREADS)
        thread = k.thread()
        lane = k.reg(k.rem(thread, WARP))
        warp = k.add(k.mul(k.block_number(), WARPS), k.div(thread, WARP))
        with k.when(k.below(warp, warps)):
            slice_, piece = k.div(warp, parts), k.rem(warp, parts)
            above, row = k.div(slice_, self.length), k.reg(k.rem(slice_, self.length))
            low, high = self._range(k, tensors, ranges, row)
            owned = _Owned(coordinates(k, above, self.before), row, self._columns(k, k.mul(piece, part), lane, width))
            named = k.below(low, high) if over else None
            _where(k, named, lambda: self._collect(k, tensors, source, owned, (low, high), lane, ranges is None))
        k.end()

    def _collect(
        self,
        k: Kernel,
        tensors: dict[int, Operand],
        source: int,
        owned: _Owned,
        between: tuple[Index, Index],
        lane: Reg,
        checks: bool,
    ) -> None:
        """Bring the updates between two indices to what a warp owns of a slice, which `source` holds before."""
        _, indices, updates = self.given
        low, high = between
        row, columns = owned.row, owned.columns
        values = [self._read(k, tensors[source], (*owned.outer, row), column, ()) for column, _ in columns]
        with k.loop(low, high, WARP, values) as turn:
            at = k.reg(k.add(turn.index, lane))
            exists = k.below(at, high)
            named = self._named(k, tensors[indices], k.select(exists, at, k.reg(k.sub(high, 1))))
            if checks:
                k.report(k.op("arith.andi", exists, k.outside(named, self.length)), named, self.length)
            mine = k.op("arith.andi", exists, k.compare("eq", named, row))
            votes = ballot(k, mine)
            with k.loop(0, _index(k, population(k, votes)), 1, [votes, *turn.carried]) as each:
                left, *held = each.carried
                update = k.add(turn.index, _index(k, lowest_bit(k, left)))
                given = [self._read(k, tensors[updates], owned.outer, column, (update,)) for column, _ in columns]
                if self.adds:
                    given = [combine(k, "add", a, b) for a, b in zip(held, given, strict=True)]
                less = k.op("arith.subi", left, k.const(1, "i32"))
                each.next(k.op("arith.andi", left, less), *given)
            turn.next(*each.results[1:])
        for (column, valid), value in zip(columns, turn.results, strict=True):
            self._write(k, tensors[self.task.result(0)], (*owned.outer, row), column, valid, value)

    def _columns(self, k: Kernel, first: Index, lane: Reg, width: int) -> list[tuple[Index, Reg | None]]:
        """Where the lane's vectors begin within a slice, and whether they are there; others read the slice's first."""
        each = max(self.lanes, 1)
        found: list[tuple[Index, Reg | None]] = []
        for piece in range(min(PIECES, -(-width // (WARP * each)))):
            column = k.add(first, k.mul(k.add(lane, piece * WARP), each))
            if width % (WARP * each * PIECES) == 0:
                found.append((column, None))
            else:
                valid = k.below(column, width)
                found.append((k.select(valid, k.reg(column), k.reg(0)), valid))
        return found

    def _place(self, k: Kernel, shape: Ints, axes: tuple[Index, ...], column: Index) -> Place:
        lane = len(shape) - 1 if self.lanes else None
        return Place(shape, lane, known_axes=(*axes, *coordinates(k, column, self.behind)))

    def _read(
        self, k: Kernel, tensor: Operand, outer: tuple[Index, ...], column: Index, source: tuple[Index, ...]
    ) -> Reg:
        """Elements of a slice; that of an update is named by its number among the indices."""
        indices = self.task.type(self.given[1]).shape
        axes = (*outer, *coordinates(k, source[0], indices)) if source else outer
        value = load(k, tensor, self._place(k, tensor.layout.shape, axes, column), self.lanes)
        return k.splat(value, self.lanes)

    def _write(
        self, k: Kernel, tensor: Operand, outer: tuple[Index, ...], column: Index, valid: Reg | None, value: Reg
    ) -> None:
        def write() -> None:
            store(k, tensor, self._place(k, tensor.layout.shape, outer, column), value, self.lanes)

        _where(k, valid, write)

    def _named(self, k: Kernel, indices: Operand, number: Index) -> Reg:
        place = Place(indices.layout.shape, None, known_number=number)
        return _index(k, load(k, indices, place, 0))

    def _range(self, k: Kernel, tensors: dict[int, Operand], ranges: int | None, row: Reg) -> tuple[Index, Index]:
        """Between which indices the slice is named."""
        if ranges is None:
            return 0, self.count
        found = [load(k, tensors[ranges], Place((2, self.length), None, known_axes=(i, row)), 0) for i in range(2)]
        return _index(k, found[0]), _index(k, found[1])

    def _ranges(self) -> int:
        """Kernels that find for each slice the first index that names it, and the one behind the last."""
        task = self.task
        ranges = task.temporary(TensorType((2, self.length), "i32"))
        k, tensors = task.begin([], [ranges], -(-self.length // THREADS), THREADS)
        row = k.add(k.mul(k.block_number(), THREADS), k.thread())
        with k.when(k.below(row, self.length)):
            for which, value in enumerate((self.count, 0)):
                place = Place((2, self.length), None, known_axes=(which, row))
                store(k, tensors[ranges], place, k.const(value, "i32"), 0)
        k.end()
        indices = self.given[1]
        k, tensors = task.begin([indices], [ranges], -(-self.count // THREADS), THREADS)
        number = k.add(k.mul(k.block_number(), THREADS), k.thread())
        with k.when(k.below(number, self.count)):
            named = self._named(k, tensors[indices], number)
            bad = k.outside(named, self.length)
            k.report(bad, named, self.length)
            row = k.select(bad, k.reg(0), named)
            pointer = tensors[ranges].pointer
            narrow = k.reg(number)
            if narrow.type != "i32":
                narrow = k.op("arith.trunci", narrow, type="i32")
            atomic(k, "min", pointer, row, narrow)
            atomic(k, "max", pointer, k.add(row, self.length), k.op("arith.addi", narrow, k.const(1, "i32")))
        k.end()
        return ranges


def _index(k: Kernel, value: Reg) -> Reg:
    """A number that was read, or that a warp gives, as an index."""
    if value.type == k.index:
        return value
    return k.op("arith.extsi" if k.index == "i64" else "arith.trunci", value, type=k.index)


def _where(k: Kernel, valid: Reg | None, action: Callable[[], None]) -> None:
    if valid is None:
        action()
    else:
        with k.when(valid):
            action()
