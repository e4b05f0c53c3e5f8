"""Pairs of kept and swept rows in the kernels of attention on tensor cores: their scores, and which of them are seen.

The kept rows are queries and the swept ones keys, or the other way round. Exponents are to base 2: log2(e) is part of
what the products are multiplied by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import define, field

from sexpgpu.passes.gpu.attention_tile import FRAGMENT, WARPS, rounded_all
from sexpgpu.passes.gpu.attention_warp import Sight, greater, lesser
from sexpgpu.passes.gpu.kernel import WARP, Index, Kernel, Reg
from sexpgpu.passes.gpu.layout import Place
from sexpgpu.passes.gpu.memory import Operand, load

LOG2E = math.log2(math.e)


@define(eq=False)
class Block:
    """What a block works on: `tiles` times 16 rows a warp, of `count` rows of each of `heads` heads."""

    kernel: Kernel
    count: int
    heads: int
    tiles: int
    last_first: bool  # later blocks of rows see more: they begin first
    batch: Index = field(init=False)
    head: Index = field(init=False)
    first: Index = field(init=False)
    own: Index = field(init=False)  # the first row of the warp, within the block
    row: Index = field(init=False)  # the lane's row within 8
    column: Index = field(init=False)  # the lane's first column within 8

    def __attrs_post_init__(self) -> None:
        k = self.kernel
        cuts = -(-self.count // self.rows)
        number = k.block_number()
        above, cut = k.div(number, cuts), k.rem(number, cuts)
        if self.last_first:
            cut = k.sub(cuts - 1, cut)
        self.batch, self.head = k.div(above, self.heads), k.rem(above, self.heads)
        self.first = k.mul(cut, self.rows)
        thread = k.thread()
        lane = k.rem(thread, WARP)
        self.own = k.mul(k.div(thread, WARP), self.tiles * FRAGMENT)
        self.row, self.column = k.div(lane, 4), k.mul(k.rem(lane, 4), 2)

    @property
    def rows(self) -> int:
        return block_rows(self.tiles)

    def numbers(self) -> list[Index]:
        """The thread's rows: two for each 16, some perhaps behind the last."""
        k = self.kernel
        start = k.add(k.add(self.first, self.own), self.row)
        return [k.add(start, tile * FRAGMENT + half) for tile in range(self.tiles) for half in (0, 8)]


def block_rows(tiles: int) -> int:
    return WARPS * tiles * FRAGMENT


def of_row(values: Sequence[Reg], place: int, rows: int) -> list[int]:
    """Where the numbers of a thread's row, by its place in `Block.numbers`, stand among sums over `rows` rows."""
    tile, half = divmod(place, 2)
    starts = range(tile * (rows // 8) * 4 + half * 2, (tile + 1) * (rows // 8) * 4, 4)
    return [start + i for start in starts for i in range(2)]


@define(eq=False)
class Pairs:
    """The pairs of a block's rows with tiles of `swept` rows; `keyed`: the swept rows are the keys."""

    block: Block
    sight: Sight
    swept: int
    keyed: bool
    bias: Operand | None
    batch: Index
    head: Index  # of the queries

    @property
    def kernel(self) -> Kernel:
        return self.block.kernel

    @property
    def total(self) -> int:
        return self.sight.keys if self.keyed else self.sight.rows

    @property
    def shift(self) -> int:
        return self.sight.offset if self.keyed else -self.sight.offset

    @property
    def before(self) -> int | None:
        """How far before its own place a kept row sees, or is seen."""
        return self.sight.behind if self.keyed else self.sight.ahead

    @property
    def after(self) -> int | None:
        return self.sight.ahead if self.keyed else self.sight.behind

    @property
    def factor(self) -> float:
        """What `exponents` have to be multiplied by."""
        return self.sight.form.scale * LOG2E if self._plain else 1.0

    @property
    def _plain(self) -> bool:
        """Whether the greatest product is the greatest score."""
        return self.bias is None and self.sight.form.scale > 0

    @property
    def whole(self) -> bool:
        """Whether no tile reaches behind the last of the swept rows."""
        return self.total % self.swept == 0 and self.before is None

    def range(self) -> tuple[Index, Index]:
        """The first of the swept rows that any row of the block pairs with, and the one behind the last."""
        k = self.kernel
        low: Index = 0
        high: Index = self.total
        if self.before is not None:
            low = greater(k, k.add(self.block.first, self.shift - self.before), 0)
        if self.after is not None:
            high = lesser(k, k.add(self.block.first, self.block.rows + self.shift + self.after), self.total)
        return low, high

    def exponents(self, products: Sequence[Reg], first: Index) -> list[Reg]:
        """The scores of the block with the tile from `first` on, over `factor`; -inf where a pair is not seen."""
        k = self.kernel
        values = rounded_all(k, products)
        if not self._plain:
            scale = k.const(self.sight.form.scale * LOG2E, "f32")
            values = [k.op("arith.mulf", value, scale) for value in values]
        if self.bias is not None:
            values = self._biased(self.bias, values, first)
        partly = self._partly(first)
        return values if partly is None else k.either(partly, lambda: self._hidden(values, first), values)

    def _partly(self, first: Index) -> Reg | None:
        """Whether some pair of the tile is not seen; None where all always are."""
        k = self.kernel
        tests = []
        if self.after is not None:
            reach = k.add(self.block.first, self.shift + self.after - self.swept + 1)
            tests.append(k.compare("gt", k.reg(first), k.reg(reach)))
        if self.before is not None:
            reach = k.add(self.block.first, self.block.rows - 1 + self.shift - self.before)
            tests.append(k.compare("lt", k.reg(first), k.reg(reach)))
        if not self.whole:
            tests.append(k.compare("gt", k.reg(first), k.reg(self.total - self.swept)))
        found: Reg | None = None
        for test in tests:
            found = test if found is None else k.op("arith.ori", found, test)
        return found

    def _hidden(self, values: Sequence[Reg], first: Index) -> list[Reg]:
        k = self.kernel
        lowest = k.const(-math.inf, "f32")
        made = list(values)
        start = k.add(first, self.block.column)
        for place, row in enumerate(self.block.numbers()):
            last: Index = self.total - 1
            if self.after is not None:
                last = lesser(k, k.add(row, self.shift + self.after), last)
            least = None if self.before is None else k.reg(k.sub(k.add(row, self.shift - self.before), start))
            most = k.reg(k.sub(last, start))
            for number, at in enumerate(of_row(values, place, self.swept)):
                distance = k.reg(number // 2 * 8 + number % 2)
                seen = k.compare("le", distance, most)
                if least is not None:
                    seen = k.op("arith.andi", seen, k.compare("ge", distance, least))
                made[at] = k.select(seen, made[at], lowest)
        return made

    def _biased(self, bias: Operand, values: Sequence[Reg], first: Index) -> list[Reg]:
        k = self.kernel
        shape = bias.layout.shape
        made = list(values)
        start = k.add(first, self.block.column)
        factor = k.const(LOG2E, "f32")
        for place, row in enumerate(self.block.numbers()):
            for number, at in enumerate(of_row(values, place, self.swept)):
                other = lesser(k, k.add(start, number // 2 * 8 + number % 2), self.total - 1)
                kept = lesser(k, row, self.block.count - 1)
                query, key = (kept, other) if self.keyed else (other, kept)
                full = (self.batch, self.head, query, key)
                axes = tuple([0 if n == 1 else index for n, index in zip(shape, full, strict=True)])
                given = load(k, bias, Place(shape, None, known_axes=axes), 0)
                made[at] = k.op("math.fma", given, factor, made[at])
        return made
