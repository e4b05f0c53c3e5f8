"""Sums of products of bf16 or tf32 on tensor cores, in f32: each warp makes a part of the block's tile from fragments.

A tile of a factor lies in shared memory as it does in global memory: lines of the depth, or, where the factor's lines
are beside each other there, places of the sum of the lines; `ldmatrix` reads bf16 either way. Chunks of 16 bytes are
put in another order in each row, the number of the row added without carry to that of the chunk, so that neither eight
chunks of a row nor eight rows of a chunk fall on the same banks.

A matrix of 8 rows of 16 bytes is one of 8 x 4 f32 as well, of which each thread gets the one that it wants. There is no
such load of the transposed matrix: where lines are beside each other, threads read numbers, from rows that are as many
elements apart as keep those of four rows on other banks. Factors are rounded to tf32 when they have been read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from attrs import define, field

from sexpgpu.passes.gpu.kernel import WARP, Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.product_factor import Factor
from sexpgpu.passes.gpu.product_pipeline import Place, Stream
from sexpgpu.passes.gpu.product_tiling import Tiling
from sexpgpu.passes.gpu.tensorcore import TensorCore, dynamic_shared

EIGHT = 8
"""Lines of a matrix that ldmatrix reads."""
FRAGMENT = 16
"""Lines that four such matrices have, two by two."""


@define(eq=False)
class WarpProducts:
    """The work of one warp."""

    kernel: Kernel
    tiling: Tiling
    factors: tuple[Factor, Factor]
    _bases: tuple[Pointer, Pointer] = field(init=False)
    _core: TensorCore = field(init=False)
    _lane: Index = field(init=False)
    _firsts: tuple[Index, Index] = field(init=False)

    def __attrs_post_init__(self) -> None:
        k, tiling = self.kernel, self.tiling
        self._core = TensorCore(k)
        first = dynamic_shared(k, self.type)
        self._bases = first, Pointer(k.address(first, tiling.stages * tiling.slots[0]), self.type, 3)
        warp = k.div(k.thread(), WARP)
        self._lane = k.rem(k.thread(), WARP)
        beside = tiling.columns // tiling.share[1]
        self._firsts = k.mul(k.div(warp, beside), tiling.share[0]), k.mul(k.rem(warp, beside), tiling.share[1])

    @property
    def type(self) -> Literal["bf16", "f32"]:
        """The type of factors in shared memory."""
        return "bf16" if self.tiling.instruction == "mma.m16n8k16" else "f32"

    @property
    def chunk(self) -> int:
        """Elements of 16 bytes, what ldmatrix reads of a line; two of them are the places of a product's sum."""
        return 16 // self.tiling.item

    @property
    def sums(self) -> Pointer:
        """Where `spread` puts the sums."""
        return Pointer(self._bases[0].value, self.tiling.type, 3)

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
                place=self._placing(factor, lines[i]),
                whole=True,
                packed=self.type,
                threads=tiling.threads,
            )
            for i, factor in enumerate(self.factors)
        ]

    def _placing(self, factor: Factor, lines: int) -> Place:
        k, each = self.kernel, self.chunk
        width = self.tiling.depth if factor.along == "depth" else lines

        def place(line: Index, place: Index) -> Index:
            row, column = (line, place) if factor.along == "depth" else (place, line)
            if self._is_apart(factor):
                return k.add(k.mul(row, width + self.tiling.pad), column)
            chunk = _swizzled(k, row, k.div(column, each), width // each)
            return k.add(k.mul(row, width), k.add(k.mul(chunk, each), k.rem(column, each)))

        return place

    def _is_apart(self, factor: Factor) -> bool:
        """Whether a factor's rows in shared memory are apart, and its elements read one by one."""
        return self.type == "f32" and factor.along == "lines"

    def zero(self) -> list[Reg]:
        """The sums of nothing: four a thread for each 16 rows and 8 columns."""
        down, across = self.tiling.share
        return [self.kernel.const(0, "f32")] * (down // 16 * (across // 8) * 4)

    def step(self, sums: list[Reg], slot: Reg) -> list[Reg]:
        """The sums with the products of one stage."""
        down, across = self.tiling.share
        for place in range(0, self.tiling.depth, 2 * self.chunk):
            rows = [self._fragments(0, slot, i, place) for i in range(0, down, FRAGMENT)]
            columns = [self._fragments(1, slot, i, place) for i in range(0, across, FRAGMENT)]
            for r, a in enumerate(rows):
                for c, both in enumerate(columns):
                    for half in range(2):
                        at = ((r * len(columns) + c) * 2 + half) * 4
                        b = both[2 * half : 2 * half + 2]
                        sums[at : at + 4] = self._core.product(a, b, sums[at : at + 4], self._multiplied)
        return sums

    @property
    def _multiplied(self) -> str:
        return "bf16" if self.type == "bf16" else "tf32"

    def _fragments(self, which: int, slot: Reg, line: int, place: int) -> list[Reg]:
        """16 lines of a factor from `line` on, 16 places of the sum: four matrices.

        Rows are wanted as (first, second) half of the lines for the first half of the depth, then for the second;
        columns as both halves of the depth for the first half of the lines, then for the second.
        """
        k, factor, each = self.kernel, self.factors[which], self.chunk
        if self._is_apart(factor):
            return [self._core.tf32(a) for a in self._read(which, slot, line, place)]
        within, matrix = k.rem(self._lane, EIGHT), k.div(self._lane, EIGHT)
        halves = k.rem(matrix, 2), k.div(matrix, 2)
        of_line, of_place = halves if which == 0 else (halves[1], halves[0])
        first = k.add(self._firsts[which], line)
        lines = (self.tiling.rows, self.tiling.columns)[which]
        if factor.along == "depth":
            row = k.add(first, k.add(k.mul(of_line, EIGHT), within))
            chunk = k.add(of_place, place // each)
            width = self.tiling.depth
        else:
            row = k.add(k.add(k.mul(of_place, EIGHT), within), place)
            chunk = k.add(k.div(first, EIGHT), of_line)
            width = lines
        at = k.add(k.mul(row, width), k.mul(_swizzled(k, row, chunk, width // each), each))
        start = k.mul(slot, self.tiling.slots[which])
        found = self._core.fragments(self._bases[which], k.add(start, at), factor.along == "lines")
        return found if self.type == "bf16" else [self._core.tf32(a) for a in found]

    def _read(self, which: int, slot: Reg, line: int, place: int) -> list[Reg]:
        """The same where the places of the sum are rows in shared memory: a number of each of the four matrices."""
        k = self.kernel
        pitch = (self.tiling.rows, self.tiling.columns)[which] + self.tiling.pad
        first = k.add(k.add(self._firsts[which], line), k.div(self._lane, self.chunk))
        start = k.add(k.mul(slot, self.tiling.slots[which]), k.add(first, k.mul(k.rem(self._lane, self.chunk), pitch)))
        found = []
        for number in range(4):
            of_line, of_place = (number % 2, number // 2) if which == 0 else (number // 2, number % 2)
            at = k.add(start, of_line * EIGHT + (place + of_place * self.chunk) * pitch)
            found.append(k.load(self._bases[which], at))
        return found

    def spread(self, sums: Sequence[Reg]) -> None:
        """Write the sums to shared memory, in place of the tiles: rows of columns, `pitch` apart."""
        k, tiling = self.kernel, self.tiling
        down, across = tiling.share
        row = k.add(self._firsts[0], k.div(self._lane, 4))
        column = k.add(self._firsts[1], k.mul(k.rem(self._lane, 4), 2))
        first = k.add(k.mul(row, tiling.pitch), column)
        pairs = iter(range(0, len(sums), 2))
        for r in range(0, down, FRAGMENT):
            for c in range(0, across, 8):
                for half in (0, 8):
                    at = next(pairs)
                    k.store(k.pack(sums[at : at + 2]), self.sums, k.add(first, (r + half) * tiling.pitch + c))


def _swizzled(k: Kernel, row: Index, chunk: Index, chunks: int) -> Index:
    """The chunk where that of a row lies, of `chunks` a row, a power of two."""
    # Rows shorter than the 32 banks fill them together.
    moved = k.rem(row, 8) if chunks >= 8 else k.rem(k.div(row, 8 // chunks), chunks)
    if isinstance(chunk, int) and isinstance(moved, int):
        return chunk ^ moved
    return k.op("arith.xori", k.reg(chunk), k.reg(moved))
