"""Tiles of rows of bf16 in shared memory and products of them on tensor cores: what flash attention is made of.

A block keeps rows of one head, each warp 16 or 32 of them, and sweeps over others, tile by tile; `cp.async` brings the
next tile beside the work on one. Sums of products of kept with swept rows lie in the order that a first factor of the
next product has, so that scores go from one to the other in registers (Dao, "FlashAttention-2", 2023).

Rows in shared memory are `PAD` elements longer than they need be: the eight lines that `ldmatrix` reads at once begin
an odd number of 16 bytes apart, on different banks, and every fragment lies at a known distance from the lane's first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field, frozen
from mlir import ir

from sexpgpu.passes.gpu.kernel import BYTES, WARP, Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.layout import Place
from sexpgpu.passes.gpu.memory import Operand
from sexpgpu.passes.gpu.sweep import Rows
from sexpgpu.passes.gpu.tensorcore import TensorCore, commit, copy, dynamic_shared, wait

WARPS = 4
THREADS = WARPS * WARP
CHUNK = 8
"""Elements that one copy brings, and that a line of a matrix of `ldmatrix` has."""
FRAGMENT = 16
"""Rows of a first factor, places of a sum, and columns that one load of a second factor gives."""
PAD = CHUNK
STAGES = 2
BESIDE = 8
"""The most threads that bring parts of one row."""

Left = Callable[[int, int], Sequence[Reg]]
"""Gives the fragment of a first factor at a tile of 16 rows and 16 places of the sum, by their numbers."""


@define(eq=False)
class Room:
    """Dynamic shared memory while it is given out; `used` bytes so far."""

    kernel: Kernel
    used: int = field(init=False, default=0)

    def take(self, type: str, count: int) -> Pointer:
        """Room for `count` elements, aligned to 16 bytes."""
        found = dynamic_shared(self.kernel, type, self.used)
        self.used += -(-count * BYTES[type] // 16) * 16
        return found


@define(eq=False)
class Tile:
    """`stages` times `rows` rows of `length` elements in shared memory."""

    core: TensorCore
    base: Pointer
    rows: int
    length: int

    @classmethod
    def take(cls, core: TensorCore, room: Room, rows: int, length: int, stages: int = 1) -> Tile:
        return cls(core, room.take("bf16", stages * rows * (length + PAD)), rows, length)

    @property
    def pitch(self) -> int:
        return self.length + PAD

    def copy(self, source: Rows, first: Index, stage: Index, whole: bool) -> None:
        """Begin to copy the rows of a tensor from `first` on; unless they are a `whole` tile, zeros behind the last."""
        k = self.core.kernel
        across = self.length // CHUNK
        # Threads that bring a row together, as many as let each thread stay in the same columns.
        beside = min(across & -across, BESIDE)
        row, column = k.div(k.thread(), beside), k.mul(k.rem(k.thread(), beside), CHUNK)
        to = k.add(k.mul(stage, self.rows * self.pitch), k.add(k.mul(row, self.pitch), column))
        target = Pointer(k.address(self.base, to), "bf16", 3)
        if THREADS // beside <= self.rows:
            self._copy(source, k.add(first, row), column, beside, target, whole)
        else:
            with k.when(k.below(row, self.rows)):
                self._copy(source, k.add(first, row), column, beside, target, whole)

    def _copy(self, source: Rows, row: Index, column: Index, beside: int, target: Pointer, whole: bool) -> None:
        k = self.core.kernel
        tensor = source.tensor

        def pointer(line: Index) -> Pointer:
            place = Place(tensor.layout.shape, None, known_axes=(source.batch, source.head, line, column))
            return Pointer(k.address(tensor.pointer, place.index(k, tensor.layout)), "bf16")

        start = pointer(row) if whole else None
        for down in range(0, self.rows, THREADS // beside):
            begin, ahead, where = start, down * tensor.layout.strides[2], None
            if begin is None:
                line, where = existing(k, k.add(row, down), source.count)
                begin, ahead = pointer(line), 0
            for along in range(0, self.length, beside * CHUNK):
                copy(k, begin, ahead + along, target, down * self.pitch + along, CHUNK, where)

    def shown(self, first: Index = 0, stage: Index = 0) -> Shown:
        """A stage as a warp reads it, from row `first` on."""
        k = self.core.kernel
        lane = k.rem(k.thread(), WARP)
        within, matrix = k.rem(lane, CHUNK), k.div(lane, CHUNK)
        low, high = k.mul(k.rem(matrix, 2), CHUNK), k.mul(k.div(matrix, 2), CHUNK)
        start = k.add(k.mul(stage, self.rows * self.pitch), k.mul(k.add(first, within), self.pitch))

        def pointer(row: Index, column: Index) -> Pointer:
            at = k.add(start, k.add(k.mul(row, self.pitch), column))
            return Pointer(k.address(self.base, at), "bf16", 3)

        return Shown(self.core, self.pitch, pointer(low, high), pointer(high, low))


@frozen(eq=False)
class Shown:
    """Rows in shared memory as fragments: `_down` and `_across` are where the lane's line of the first one begins."""

    core: TensorCore
    pitch: int
    _down: Pointer
    _across: Pointer

    def left(self, row: int, column: int) -> list[Reg]:
        """16 rows and 16 columns as a first factor."""
        return self.core.fragments(self._down, row * self.pitch + column, False)

    def across(self, row: int, column: int) -> list[list[Reg]]:
        """16 rows as the columns of a second factor, 8 and 8, over 16 places of the sum."""
        found = self.core.fragments(self._across, row * self.pitch + column, False)
        return [found[:2], found[2:]]

    def down(self, row: int, column: int) -> list[list[Reg]]:
        """16 columns as those of a second factor, 8 and 8, over 16 rows as places of the sum."""
        found = self.core.fragments(self._down, row * self.pitch + column, True)
        return [found[:2], found[2:]]


def lefts(shown: Shown, tiles: int, length: int, keep: bool) -> Left:
    """The fragments of a warp's `tiles` times 16 rows, kept in registers or loaded where they are used."""
    if not keep:
        return lambda tile, step: shown.left(tile * FRAGMENT, step * FRAGMENT)
    kept = [[shown.left(tile * FRAGMENT, place) for place in range(0, length, FRAGMENT)] for tile in range(tiles)]
    return lambda tile, step: kept[tile][step]


def dots(left: Left, tiles: int, swept: Shown, rows: int, length: int) -> list[Reg]:
    """The products of every kept with every swept row: for each tile, each 8 rows, four sums a thread."""
    core = swept.core
    sums = [core.kernel.const(0, "f32")] * (tiles * rows // 8 * 4)
    for place in range(0, length, FRAGMENT):
        firsts = [left(tile, place // FRAGMENT) for tile in range(tiles)]
        for row in range(0, rows, FRAGMENT):
            for half, second in enumerate(swept.across(row, place)):
                for tile, first in enumerate(firsts):
                    at = (tile * (rows // 8) + row // 8 + half) * 4
                    sums[at : at + 4] = core.product(first, second, sums[at : at + 4])
    return sums


def gather(numbers: Sequence[Reg], tiles: int, swept: Shown, rows: int, length: int, sums: Sequence[Reg]) -> list[Reg]:
    """`sums` with the swept rows added, weighted by numbers that lie as `dots` gives them, rounded to bf16."""
    core = swept.core
    made = list(sums)
    across = rows // 8
    for row in range(0, rows, FRAGMENT):
        firsts = []
        for tile in range(tiles):
            at = (tile * across + row // 8) * 4
            firsts.append([packed(core.kernel, *numbers[i : i + 2]) for i in range(at, at + 8, 2)])
        for column in range(0, length, FRAGMENT):
            for half, second in enumerate(swept.down(row, column)):
                for tile, first in enumerate(firsts):
                    at = (tile * (length // 8) + column // 8 + half) * 4
                    made[at : at + 4] = core.product(first, second, made[at : at + 4])
    return made


def packed(k: Kernel, a: Reg, b: Reg) -> Reg:
    """Two numbers rounded to bf16, the first in the low half of an i32."""
    halves = k.op("arith.truncf", k.pack([a, b]), type="bf16")
    return Reg(k.emit("llvm.bitcast", [k.type("i32")], [halves.value]), "i32")


def rounded_all(k: Kernel, values: Sequence[Reg]) -> list[Reg]:
    """The values rounded to bf16, two at a time."""
    shift, mask = k.const(16, "i32"), k.const(-65536, "i32")
    found = []
    for i in range(0, len(values), 2):
        both = packed(k, values[i], values[i + 1])
        found += [k.op("arith.bitcast", k.op(name, both, by), type="f32") for name, by in
                  (("arith.shli", shift), ("arith.andi", mask))]  # fmt: skip
    return found


def exp2(k: Kernel, value: Reg) -> Reg:
    """2 to a power, with the precision of the instruction: two units in the last place of f32."""
    return _approximate(k, "ex2.approx.ftz", value)


def log2(k: Kernel, value: Reg) -> Reg:
    """The logarithm, with the precision of the instruction: 2^-22, absolute near 1 and relative elsewhere."""
    return _approximate(k, "lg2.approx.ftz.f", value)


def reciprocal(k: Kernel, value: Reg) -> Reg:
    """1 over a number, with the precision of the instruction: one unit in the last place."""
    return _approximate(k, "rcp.approx.ftz.f", value)


def _approximate(k: Kernel, name: str, value: Reg) -> Reg:
    attributes = {
        "intrin": ir.StringAttr.get(f"llvm.nvvm.{name}", context=k.context.mlir),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0], context=k.context.mlir),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([], context=k.context.mlir),
    }
    return Reg(k.emit("llvm.call_intrinsic", [k.type("f32")], [value.value], attributes), "f32")


def over_quad(k: Kernel, value: Reg, how: str) -> Reg:
    """`maximumf` or `addf` over the four lanes that hold a row."""
    for distance in (1, 2):
        value = k.op(f"arith.{how}", value, k.shuffle(value, distance))
    return value


def folded(k: Kernel, values: Sequence[Reg], how: str) -> Reg:
    """`maximumf` or `addf` of values, by halves."""
    left = list(values)
    while len(left) > 1:
        pairs = [k.op(f"arith.{how}", left[i], left[i + 1]) for i in range(0, len(left) - 1, 2)]
        left = pairs + left[len(left) // 2 * 2 :]
    return left[0]


@frozen(eq=False)
class Lines:
    """A number a row, [batch, heads, rows] in f32, in shared memory tile by tile."""

    kernel: Kernel
    base: Pointer
    rows: int

    @classmethod
    def take(cls, room: Room, rows: int) -> Lines:
        return cls(room.kernel, room.take("f32", STAGES * rows), rows)

    def copy(self, source: Operand, batch: Index, head: Index, first: Index, stage: Index) -> None:
        """Begin to copy the numbers of the rows from `first` on."""
        k = self.kernel
        thread = k.thread()
        with k.when(k.below(thread, self.rows)):
            shape = source.layout.shape
            row, where = existing(k, k.add(first, thread), shape[2])
            at = Place(shape, None, known_axes=(batch, head, row)).index(k, source.layout)
            copy(k, source.pointer, at, self.base, k.add(k.mul(stage, self.rows), thread), 1, where)

    def pairs(self, stage: Index, column: Index) -> list[Reg]:
        """The numbers of the rows that stand at the columns of a thread's sums, from `column` on."""
        k = self.kernel
        start = k.add(k.mul(stage, self.rows), column)
        base = Pointer(k.address(self.base, start), "f32", 3)
        both = [k.load(base, at, 2) for at in range(0, self.rows, 8)]
        return [k.lane(two, i) for two in both for i in range(2)]


def existing(k: Kernel, row: Index, count: int) -> tuple[Index, Reg]:
    """A row that there is, and whether it is the one that was asked for."""
    return k.op("arith.minsi", k.reg(row), k.reg(count - 1)), k.below(row, count)


Bring = Callable[[Index, Index], None]
"""Begins to copy the tiles from a row on to a stage."""
Turn = Callable[[Reg, Reg, list[Reg]], Sequence[Reg]]
"""The sums with what the tiles from a row on, in a stage, add."""


def sweep(k: Kernel, low: Index, high: Index, rows: int, bring: Bring, sums: Sequence[Reg], turn: Turn) -> list[Reg]:
    """The sums behind all tiles of `rows` rows from `low` to `high`."""
    bring(low, 0)
    commit(k)
    with k.loop(low, high, rows, [*sums, k.reg(0)]) as each:
        *before, stage = each.carried
        wait(k, 0)
        k.barrier()
        ahead = k.add(each.index, rows)
        other = k.reg(k.sub(1, stage))
        with k.when(k.below(ahead, high)):
            bring(ahead, other)
        commit(k)
        each.next(*turn(each.index, stage, before), other)
    wait(k, 0)
    k.barrier()
    return each.results[:-1]
