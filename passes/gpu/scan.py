"""Kernels of running sums: a thread walks along a line, or a warp or a block takes a stretch of it at a time.

Where the elements of lines lie side by side, the threads of a group each add up a vector, and the sums of those before
are exchanged by shuffles and, between warps, through shared memory (Merrill and Garland, "Single-pass parallel prefix
scan with decoupled look-back", 2016, section 3, is about such scans of one stretch). Of long lines that are few, blocks
first sum their parts into a temporary; then each begins with the sums of those before its own.
"""

from __future__ import annotations

from attrs import define, field

from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.folds import Fold, State
from sexpgpu.passes.gpu.kernel import WARP, Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.lanes import widest
from sexpgpu.passes.gpu.lines import MULTIPROCESSORS, Lines, Sharing
from sexpgpu.passes.gpu.memory import Operand, load, store
from sexpgpu.passes.gpu.scalar import combine
from sexpgpu.passes.gpu.task import Task
from sexpgpu.passes.gpu.walk import UNROLLED, Turn, Walk, under
from sexpgpu.plan.records import Launches
from sexpgpu.tensortype import TensorType

_THREADS = 256
_SHORT = 1024
"""The elements of a line that a warp takes alone, where there are lines enough."""
_PART = 512
"""The elements of a line that a block gets at least, where several share it."""


def lower(task: Task) -> Launches:
    """One kernel, or two where several blocks share a line."""
    (node,) = task.flow.nodes
    type = task.flow.types[node.outs[0]]
    if type.size:
        lines = Lines.of(type.shape, (node.attrs["axis"],))
        lanes = widest(task.flow, [node.outs[0]], frozenset(node.outs)) if lines.inward else 0
        scan = _Scan(task, node.ins[0], lines, _share(lines, lanes))
        parts = scan.write_parts() if scan.sharing.splits > 1 else None
        scan.write(parts)
    return task.lowered()


def _share(lines: Lines, lanes: int) -> Sharing:
    if lines.inward and lines.length > WARP:
        warps = lines.length <= _SHORT and lines.count >= MULTIPROCESSORS
        sharing = Sharing(True, WARP, 4, lanes, 0) if warps else Sharing(True, _THREADS, 1, lanes, 0)
    else:
        beside = 128 if lines.count >= 128 * MULTIPROCESSORS else WARP
        sharing = Sharing(lines.inward, 1, beside, 0, 0)
    blocks = sharing.blocks(lines)
    least = _PART if sharing.across == 1 else 8 * _PART
    if blocks >= MULTIPROCESSORS // 2 or lines.length < 2 * least:
        return sharing
    splits = min(-(-2 * MULTIPROCESSORS // blocks), lines.length // least)
    return Sharing(sharing.inward, sharing.across, sharing.beside, sharing.lanes, 0, splits)


@define(eq=False)
class _Scan:
    """The running sums of `operand` along lines."""

    task: Task
    operand: int
    lines: Lines
    sharing: Sharing
    fold: Fold = field(init=False)
    type: TensorType = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.type = self.task.flow.types[self.operand]
        self.fold = Fold("add", self.type.dtype)

    @property
    def step(self) -> int:
        """The elements that a group of threads takes at a time."""
        return self.sharing.across * max(self.sharing.lanes, 1)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the temporary with the sums of parts."""
        sizes = self.lines.count, self.sharing.splits
        return sizes if self.sharing.inward else (sizes[1], sizes[0])

    def _begin(self, read: list[int], written: list[int]) -> tuple[Walk, dict[int, Operand]]:
        task, sharing = self.task, self.sharing
        k, tensors = task.begin(read, written, sharing.blocks(self.lines), sharing.threads)
        elements = Elements(k, task.flow, [tensors[a] for a in range(task.flow.given)], sharing.lanes)
        walk = Walk(k, elements, self.lines, sharing)
        walk.begin([self.type.shape])
        return walk, tensors

    def _vector(self, turn: Turn) -> Reg:
        return turn.walk.elements.vector(self.operand, turn.place(self.type.shape))

    def write_parts(self) -> int:
        """The kernel that sums parts of lines; the temporary with the sums."""
        parts = self.task.temporary(TensorType(self.shape, self.fold.types[0]))  # type: ignore[arg-type]
        walk, tensors = self._begin([*range(self.task.flow.given)], [parts])
        k, lanes = walk.k, self.sharing.lanes

        def visit(turn: Turn, states: list[State]) -> list[State]:
            return [self.fold.merge(k, states[0], (self._vector(turn),))]

        states = walk.sweep(visit, [self.fold.identity(k, lanes)])
        (state,) = walk.together([self.fold], states)
        with under(k, walk.once()):
            store(k, tensors[parts], walk.part_place(self.shape), state[0], 0)
        k.end()
        return parts

    def write(self, parts: int | None) -> None:
        read = [*range(self.task.flow.given), *([] if parts is None else [parts])]
        walk, tensors = self._begin(read, [self.task.result(0)])
        k = walk.k
        start = self.fold.identity(k, 0)[0]
        if parts is not None:
            start = self._before(walk, tensors[parts])
        if self.sharing.across == 1:
            self._along(walk, tensors[self.task.result(0)], start)
        else:
            self._by_stretches(walk, tensors[self.task.result(0)], start)
        k.end()

    def _before(self, walk: Walk, parts: Operand) -> Reg:
        """The sum of the parts of the line before the block's own."""
        k, across = walk.k, self.sharing.across
        with k.loop(walk.mine, walk.split, across, self.fold.identity(k, 0)) as loop:
            where = walk.part_place(self.shape, loop.index)
            loop.next(combine(k, "add", loop.carried[0], load(k, parts, where, 0)))
        return walk.together([self.fold], [tuple(loop.results)])[0][0]

    # A thread for each line

    def _along(self, walk: Walk, result: Operand, start: Reg) -> None:
        """A thread walks along its line, with a few loads ahead of their sums."""
        k = walk.k
        begin, stop, most = walk.span(1)
        first, total = k.reg(begin), start
        if most >= UNROLLED:
            with k.loop(first, k.sub(stop, UNROLLED - 1), UNROLLED, [total, first]) as loop, walk.elements.scope():
                total = self._run(walk, result, loop.carried[0], loop.index, UNROLLED)
                loop.next(total, k.reg(k.add(loop.index, UNROLLED)))
            total, first = loop.results
        with k.loop(first, stop, 1, [total]) as loop, walk.elements.scope():
            loop.next(self._run(walk, result, loop.carried[0], loop.index, 1))

    def _run(self, walk: Walk, result: Operand, total: Reg, first: Index, count: int) -> Reg:
        k = walk.k
        turns = [Turn(walk, k.add(first, i), None) for i in range(count)]
        sums = []
        for value in [self._vector(turn) for turn in turns]:
            sums.append(total := combine(k, "add", total, value))
        with under(k, walk.row_valid):
            for turn, value in zip(turns, sums, strict=True):
                store(k, result, turn.place(self.type.shape), value, 0)
        return total

    # A warp or a block for each line

    def _by_stretches(self, walk: Walk, result: Operand, start: Reg) -> None:
        k, lanes = walk.k, self.sharing.lanes
        begin, stop, _ = walk.span(self.step)
        warps = self.sharing.across // WARP
        space = k.shared(start.type, warps) if warps > 1 else None
        with k.loop(begin, stop, self.step, [start]) as loop, walk.elements.scope():
            along = k.add(loop.index, k.mul(walk.mine, max(lanes, 1)))
            valid = k.below(along, stop) if self._ragged else None
            if valid is not None:
                along = k.select(valid, k.reg(along), k.reg(0))
            turn = Turn(walk, along, valid)
            sums = self._in_vector(k, self._vector(turn))
            before, total = _exclusive(k, sums[-1], walk.thread, space, warps)
            offset = combine(k, "add", loop.carried[0], before)
            whole = [combine(k, "add", offset, value) for value in sums]
            with under(k, valid, walk.row_valid):
                store(k, result, turn.place(self.type.shape), k.pack(whole) if lanes else whole[0], lanes)
            loop.next(combine(k, "add", loop.carried[0], total))

    @property
    def _ragged(self) -> bool:
        return self.sharing.splits > 1 or self.lines.length % self.step != 0

    def _in_vector(self, k: Kernel, value: Reg) -> list[Reg]:
        sums = [k.lane(value, 0)]
        for i in range(1, value.lanes):
            sums.append(combine(k, "add", sums[-1], k.lane(value, i)))
        return sums


def _exclusive(k: Kernel, value: Reg, thread: Reg, space: Pointer | None, warps: int) -> tuple[Reg, Reg]:
    """The sum of the values of the threads before in the group, and of all of its threads; all of them are here."""
    lane = k.reg(k.rem(thread, WARP))
    inclusive = _in_warp(k, value, lane, WARP)
    zero = k.const(0, value.type)
    before = k.select(k.compare("eq", lane, k.reg(0)), zero, k.from_lane(inclusive, k.sub(lane, 1)))
    if space is None:
        return before, k.from_lane(inclusive, WARP - 1)
    warp = k.reg(k.div(thread, WARP))
    with k.when(k.compare("eq", lane, k.reg(WARP - 1))):
        k.store(inclusive, space, warp)
    k.barrier()
    part = k.rem(lane, warps)
    sums = _in_warp(k, k.load(space, part), k.reg(part), warps)
    k.barrier()
    ahead = k.select(k.compare("eq", warp, k.reg(0)), zero, k.from_lane(sums, k.sub(warp, 1)))
    return combine(k, "add", ahead, before), k.from_lane(sums, warps - 1)


def _in_warp(k: Kernel, value: Reg, lane: Reg, width: int) -> Reg:
    """Running sums over the first `width` lanes, a power of two; `lane` counts within each such group."""
    distance = 1
    while distance < width:
        other = k.from_lane(value, k.sub(lane, distance))
        value = k.select(k.compare("ge", lane, k.reg(distance)), combine(k, "add", value, other), value)
        distance *= 2
    return value
