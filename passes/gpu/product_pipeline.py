"""A ring of tiles in shared memory, filled from global memory while the threads of a block work on earlier ones.

A tile is `depth` places of the sum for all lines that the block needs of a factor. Vectors that need no change are
copied by cp.async beside the threads; others pass through registers, read before a step and written behind it, so that
the latency of global memory is behind the step's products in both cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from attrs import define, field

from sexpgpu.passes.gpu.kernel import Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.product_factor import Factor
from sexpgpu.passes.gpu.scalar import stored
from sexpgpu.passes.gpu.tensorcore import commit, copy, wait
from sexpgpu.tensortype import DType

Place = Callable[[Index, Index], Index]
Step = Callable[[list[Reg], Reg], list[Reg]]


@define(eq=False)
class _Part:
    """A vector that a thread brings: its line and place in the tile, and its line in the factor."""

    line: Index
    place: Index
    source: Index
    inside: Reg | None


@define(eq=False)
class Stream:
    """The tiles of one factor: `lines` x `depth` elements a stage, `slot` elements of shared memory from `base` on.

    `place` says where an element lies in a stage; vectors lie there as vectors where `whole`. Elements are stored as
    they are in registers, or, where `packed` names a dtype, as that lies in memory.
    """

    kernel: Kernel
    factor: Factor
    base: Pointer
    lines: int
    depth: int
    slot: int
    place: Place
    whole: bool
    packed: DType | None
    threads: int
    _parts: list[_Part] = field(init=False, factory=list)
    _batch: Index = field(init=False, default=0)
    _first: Index = field(init=False, default=0)

    @property
    def copies(self) -> bool:
        return self.factor.copied and bool(self.packed)

    def begin(self, batch: Index, line: Index, first: Index) -> None:
        """For the product `batch`: lines from `line`, the sum from place `first` on."""
        k = self.kernel
        self._batch, self._first = batch, first
        each = max(self.factor.lanes, 1)
        inner = (self.depth if self.factor.along == "depth" else self.lines) // each
        count = inner * (self.depth if self.factor.along == "lines" else self.lines)
        for start in range(0, count, self.threads):
            number = k.add(k.thread(), start)
            inside = None
            if start + self.threads > count:
                # Threads behind the last vector read it as well, and write nothing.
                inside = k.below(number, count)
                number = _least(k, number, count - 1)
            beside, behind = k.mul(k.rem(number, inner), each), k.div(number, inner)
            at, place = (behind, beside) if self.factor.along == "depth" else (beside, behind)
            source = k.add(line, at)
            if self.factor.lines % self.lines:
                # Lines behind the last are sums that nothing reads: any will do.
                source = _least(k, source, self.factor.lines - (each if self.factor.along == "lines" else 1))
            self._parts.append(_Part(at, place, source, inside))

    def copy(self, step: Index, slot: Index) -> None:
        """Begin to copy the tile of a step."""
        k = self.kernel
        for part in self._parts:
            with nullcontext() if part.inside is None else k.when(part.inside):
                place, where = self._source(part, step)
                source, at = self.factor.address(self._batch, part.source, place)
                copy(k, source, at, self.base, self._target(part, slot), self.factor.lanes, where)

    def fetch(self, step: Index) -> list[Reg]:
        """The thread's elements of the tile of a step."""
        k = self.kernel
        found = []
        for part in self._parts:
            place, where = self._source(part, step)
            value = self.factor.read(self._batch, part.source, place)
            if where is not None:
                value = k.select(where, value, k.const(0, value.type, value.lanes))
            found.append(value)
        return found

    def put(self, slot: Index, values: Sequence[Reg]) -> None:
        """Write to shared memory what `fetch` gave."""
        k = self.kernel
        for part, value in zip(self._parts, values, strict=True):
            if self.packed:
                value = stored(k, value, self.packed)
            with nullcontext() if part.inside is None else k.when(part.inside):
                if self.whole:
                    k.store(value, self.base, self._target(part, slot))
                else:
                    for i in range(max(value.lanes, 1)):
                        k.store(k.lane(value, i), self.base, self._target(part, slot, i))

    def _source(self, part: _Part, step: Index) -> tuple[Index, Reg | None]:
        """The place in the sum, one that there is, and whether it is the one that was asked for."""
        k = self.kernel
        place = k.add(k.add(k.mul(step, self.depth), self._first), part.place)
        if self.factor.depth % self.depth == 0:
            return place, None
        each = max(self.factor.lanes, 1) if self.factor.along == "depth" else 1
        return _least(k, place, self.factor.depth - each), k.below(place, self.factor.depth)

    def _target(self, part: _Part, slot: Index, i: int = 0) -> Index:
        k = self.kernel
        line, place = part.line, part.place
        if self.factor.along == "depth":
            place = k.add(place, i)
        else:
            line = k.add(line, i)
        return k.add(k.mul(slot, self.slot), self.place(line, place))


def accumulate(
    k: Kernel, streams: Sequence[Stream], steps: Index, stages: int, sums: Sequence[Reg], step: Step
) -> list[Reg]:
    """The sums after all steps, of which there is one at least: `step` adds the tiles in a slot of the ring."""
    copied = [stream for stream in streams if stream.copies]
    fetched = [stream for stream in streams if not stream.copies]
    last = k.sub(steps, 1)
    for slot in range(stages - 1):
        _fill(k, copied, fetched, _least(k, slot, last), slot)
    carried = [*sums, k.reg(0), k.reg(stages - 1)]
    with k.loop(0, steps, 1, carried) as turn:
        *sums, reading, writing = turn.carried
        if copied:
            wait(k, stages - 2)
        k.barrier()
        ahead = k.add(turn.index, stages - 1)
        if copied:
            with k.when(k.below(ahead, steps)):
                for stream in copied:
                    stream.copy(ahead, writing)
            commit(k)
        # Past the last step its tile is read once more, into a slot that nothing reads.
        values = [stream.fetch(_least(k, ahead, last)) for stream in fetched]
        sums = step(list(sums), reading)
        for stream, found in zip(fetched, values, strict=True):
            stream.put(writing, found)
        turn.next(*sums, _following(k, reading, stages), _following(k, writing, stages))
    if copied:
        wait(k, 0)
    k.barrier()
    return turn.results[:-2]


def _fill(k: Kernel, copied: Sequence[Stream], fetched: Sequence[Stream], step: Index, slot: int) -> None:
    for stream in copied:
        stream.copy(step, slot)
    if copied:
        commit(k)
    for stream in fetched:
        stream.put(slot, stream.fetch(step))


def _following(k: Kernel, slot: Reg, stages: int) -> Reg:
    """The slot behind one in the ring."""
    end = k.compare("eq", slot, k.reg(stages - 1))
    return k.select(end, k.reg(0), k.reg(k.add(slot, 1)))


def _least(k: Kernel, a: Index, b: Index) -> Index:
    """The lesser of two."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return k.op("arith.minsi", k.reg(a), k.reg(b))
