"""Products of a few rows with many, tile by tile, in one warp: the skeleton of attention without tensor cores.

A warp keeps some rows and sweeps over others, 32 at a time, one a lane. At each tile every kept row is multiplied with
the lane's swept row (`dots`), numbers are made of the products, and swept rows are added to sums of the kept rows,
weighted by the numbers of their lanes (`gather`). Nothing is shared between warps.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from sexpgpu.passes.gpu.kernel import WARP, Index, Kernel, Reg
from sexpgpu.passes.gpu.layout import Place
from sexpgpu.passes.gpu.memory import Operand, load, vectors
from sexpgpu.passes.gpu.scalar import REGISTER

VECTOR = 4
"""Elements of a row that are read at once where they lie so."""


@frozen(eq=False)
class Rows:
    """The rows of a tensor [batch, heads, rows, length] under one batch and head."""

    tensor: Operand
    batch: Index
    head: Index

    @property
    def count(self) -> int:
        return self.tensor.layout.shape[2]

    @property
    def length(self) -> int:
        return self.tensor.layout.shape[3]

    @property
    def register(self) -> str:
        return REGISTER[self.tensor.dtype]

    def at(self, k: Kernel, row: Index, column: Index, lanes: int = 0) -> Reg:
        """Elements of a row from a column on."""
        shape = self.tensor.layout.shape
        place = Place(shape, 3 if lanes else None, known_axes=(self.batch, self.head, row, column))
        return load(k, self.tensor, place, lanes)

    @property
    def lanes(self) -> int:
        """The elements that may be read at once."""
        layout = self.tensor.layout
        suits = layout.strides[3] == 1 and self.length % VECTOR == 0 and vectors(layout, 3, VECTOR)
        return VECTOR if suits else 0


def dots(k: Kernel, kept: Rows, rows: Sequence[Index], swept: Rows, row: Index) -> list[Reg]:
    """The product of every kept row with one swept row, its lane's own."""
    lanes = min(kept.lanes, swept.lanes)
    type = kept.register
    zeros = [k.const(0, type) for _ in rows]
    if not kept.length:
        return zeros
    with k.loop(0, kept.length, max(lanes, 1), zeros, rolled=True) as turn:
        other = swept.at(k, row, turn.index, lanes)
        sums = []
        for mine, total in zip(rows, turn.carried, strict=True):
            own = kept.at(k, mine, turn.index, lanes)
            for lane in range(max(lanes, 1)):
                total = fused(k, k.lane(own, lane), k.lane(other, lane), total)
            sums.append(total)
        turn.next(*sums)
    return turn.results


def columns(swept: Rows) -> int:
    """How many columns of a swept row each lane sums up."""
    return -(-swept.length // WARP)


def gather(
    k: Kernel, numbers: Sequence[Reg], swept: Rows, first: Index, last: Index, sums: Sequence[Reg], lane: Reg
) -> list[Reg]:
    """`sums`, `columns(swept)` for each of `numbers`, with the rows from `first` on added, as the lanes weigh them.

    Lane l holds columns l, l + 32, ...; rows from `last` on are not read, and a column behind the end is not used.
    """
    width = columns(swept)
    count = k.reg(k.sub(last, first))
    tile = k.reg(WARP)
    turns = k.select(k.compare("lt", count, tile), count, tile)
    with k.loop(0, turns, 1, list(sums)) as turn:
        row = k.add(first, turn.index)
        given = []
        for part in range(width):
            column = k.reg(k.add(lane, part * WARP))
            if (part + 1) * WARP > swept.length:  # read again what is there, rather than ask
                column = k.op("arith.minsi", column, k.reg(swept.length - 1))
            given.append(swept.at(k, row, column))
        out = []
        for place, number in enumerate(numbers):
            weight = k.from_lane(number, turn.index)
            for part in range(width):
                out.append(fused(k, weight, given[part], turn.carried[place * width + part]))
        turn.next(*out)
    return turn.results


def fused(k: Kernel, a: Reg, b: Reg, c: Reg) -> Reg:
    """a b + c, rounded once."""
    return k.op("math.fma", a, b, c)


def over_warp(k: Kernel, value: Reg, how: str) -> Reg:
    """`maximumf` or `addf` of a value over the lanes, the same in each."""
    distance = WARP // 2
    while distance:
        value = k.op(f"arith.{how}", value, k.shuffle(value, distance))
        distance //= 2
    return value
