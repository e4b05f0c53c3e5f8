"""Sums of products by multiply-add, each thread those of a few rows and columns: any dtype, exact in f32 and f64.

    rows of a, a chunk at a time               thread (i, j) has rows c i + r, c i + r + rows/groups, ...
    [depth, rows]      [depth, columns]        and columns c j + s, c j + s + columns/groups, ...

Both tiles lie in shared memory with the places of the sum first, so that a thread reads chunks of c neighbours, and
threads beside each other read chunks beside each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from sexpgpu.passes.gpu.kernel import FLOATS, Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.product_factor import Factor
from sexpgpu.passes.gpu.product_pipeline import Place, Stream
from sexpgpu.passes.gpu.product_tiling import Tiling
from sexpgpu.passes.gpu.tensorcore import dynamic_shared

SHORT = 8
"""Places of a stage whose products all stand in the code, one behind another."""
TOGETHER = 4
"""Places that do where a stage has more."""


@define(eq=False)
class MultiplyAdd:
    """The work of one thread."""

    kernel: Kernel
    tiling: Tiling
    factors: tuple[Factor, Factor]
    _bases: tuple[Pointer, Pointer] = field(init=False)
    _row: Index = field(init=False)
    _column: Index = field(init=False)

    def __attrs_post_init__(self) -> None:
        k, tiling = self.kernel, self.tiling
        base = dynamic_shared(k, tiling.type)
        second = Pointer(k.address(base, tiling.stages * tiling.slots[0]), tiling.type, 3)
        self._bases = base, second
        beside = tiling.columns // tiling.share[1]
        self._row = k.mul(k.div(k.thread(), beside), tiling.chunk)
        self._column = k.mul(k.rem(k.thread(), beside), tiling.chunk)

    @property
    def sums(self) -> Pointer:
        """Where `spread` puts the sums."""
        return self._bases[0]

    def streams(self) -> list[Stream]:
        """The tiles of both factors."""
        tiling = self.tiling
        lines = tiling.rows, tiling.columns
        return [
            Stream(
                kernel=self.kernel,
                factor=factor,
                base=self._bases[i],
                lines=lines[i],
                depth=tiling.depth,
                slot=tiling.slots[i],
                place=self._placing(lines[i] + tiling.pad),
                whole=factor.along == "lines",
                packed=None,
                threads=tiling.threads,
            )
            for i, factor in enumerate(self.factors)
        ]

    def _placing(self, pitch: int) -> Place:
        k = self.kernel
        return lambda line, place: k.add(k.mul(place, pitch), line)

    def zero(self) -> list[Reg]:
        """The sums of nothing, by row, then by chunk of columns."""
        down, across = self.tiling.share
        zero = self.kernel.const(0, self.tiling.type, self._lanes)
        return [zero] * (down * (across // self.tiling.chunk))

    @property
    def _lanes(self) -> int:
        return self.tiling.chunk if self.tiling.chunk > 1 else 0

    def step(self, sums: list[Reg], slot: Reg) -> list[Reg]:
        """The sums with the products of one stage."""
        k, tiling = self.kernel, self.tiling
        starts = [k.add(k.mul(slot, tiling.slots[i]), (self._row, self._column)[i]) for i in range(2)]
        if tiling.depth <= SHORT:
            for place in range(tiling.depth):
                sums = self._place(sums, starts, place)
            return sums
        with k.loop(0, tiling.depth, TOGETHER, sums) as turn:
            lines = tiling.rows + tiling.pad, tiling.columns + tiling.pad
            moved = [k.add(start, k.mul(turn.index, n)) for start, n in zip(starts, lines, strict=True)]
            sums = list(turn.carried)
            for place in range(TOGETHER):
                sums = self._place(sums, moved, place)
            turn.next(*sums)
        return turn.results

    def _place(self, sums: list[Reg], starts: Sequence[Index], place: int) -> list[Reg]:
        """The sums with the products of one place, so many behind the starts of both factors."""
        k, chunk = self.kernel, self.tiling.chunk
        rows, columns = (self._read(which, starts[which], place) for which in range(2))
        made: list[Reg] = []
        for r in range(self.tiling.share[0]):
            factor = k.splat(k.lane(rows[r // chunk], r % chunk), self._lanes)
            for column in columns:
                made.append(multiplied(k, factor, column, sums[len(made)]))
        return made

    def _read(self, which: int, start: Index, place: int) -> list[Reg]:
        """The thread's chunks of one factor at a place of the sum."""
        k, tiling = self.kernel, self.tiling
        lines = (tiling.rows, tiling.columns)[which]
        groups = tiling.share[which] // tiling.chunk
        return [
            k.load(
                self._bases[which],
                k.add(start, place * (lines + tiling.pad) + group * (lines // groups)),
                self._lanes,
            )
            for group in range(groups)
        ]

    def spread(self, sums: Sequence[Reg]) -> None:
        """Write the sums to shared memory, in place of the tiles: rows of columns, `pitch` apart."""
        k, tiling = self.kernel, self.tiling
        chunk = tiling.chunk
        chunks = tiling.share[1] // chunk
        groups = tiling.share[0] // chunk
        first = k.add(k.mul(self._row, tiling.pitch), self._column)
        for r in range(tiling.share[0]):
            row = r // chunk * (tiling.rows // groups) + r % chunk
            for c in range(chunks):
                at = k.add(first, row * tiling.pitch + c * (tiling.columns // chunks))
                k.store(sums[r * chunks + c], self._bases[0], at)


def multiplied(k: Kernel, a: Reg, b: Reg, c: Reg) -> Reg:
    """a b + c, of floats rounded once."""
    if a.type in FLOATS:
        return k.op("math.fma", a, b, c)
    return k.op("arith.addi", k.op("arith.muli", a, b), c)
