"""Sums of squares of what a product stores: a block adds up those of its elements, so that nobody reads them again.

    lanes of a vector, turns of a thread     in the elements' own dtype
    threads of a warp, warps of a block      in f64, in a fixed order

The block's sum goes to its place in a vector, one number a tile: `Tiles` says which elements that is of.
"""

from __future__ import annotations

from attrs import frozen

from sexpgpu.dialects.builder import Val
from sexpgpu.passes.gpu.folds import Fold, over_lanes, over_warp
from sexpgpu.passes.gpu.kernel import WARP, Index, Kernel, Reg
from sexpgpu.passes.gpu.memory import Operand
from sexpgpu.passes.gpu.scalar import combine
from sexpgpu.tensortype import DType, TensorType

SQUARED: frozenset[DType] = frozenset({"f32", "f64"})
"""The dtypes of which squares are summed up: those of gradients."""
_SUM = Fold("add", "f64")


@frozen
class Tiles:
    """Elements of `batch` matrices [rows, columns], `down` by `across` of which are summed up together."""

    batch: int
    rows: int
    columns: int
    down: int
    across: int

    @classmethod
    def in_order(cls, size: int, chunk: int) -> Tiles:
        """`size` elements in their order, `chunk` by `chunk`."""
        return cls(1, 1, size, 1, chunk)

    @property
    def counts(self) -> tuple[int, int]:
        """Tiles of one matrix along its rows and along its columns."""
        return -(-self.rows // self.down), -(-self.columns // self.across)

    @property
    def type(self) -> TensorType:
        """A number for each tile, row of tiles after row."""
        down, across = self.counts
        return TensorType((self.batch * down * across,), "f64")

    def number(self, k: Kernel, batch: Index, row: Index, column: Index) -> Index:
        """The number of the tile that begins in a row and a column of a matrix."""
        down, across = self.counts
        line = k.add(k.mul(batch, down), k.div(row, self.down))
        return k.add(k.mul(line, across), k.div(column, self.across))

    def summed(self, x: Val) -> Val:
        """What the numbers are, as operations: of a tensor with these elements in their order."""
        b = x.builder
        down, across = self.counts
        more = (0, down * self.down - self.rows, across * self.across - self.columns)
        found = b("reshape", x * x, shape=(self.batch, self.rows, self.columns))
        if any(more):
            found = b("pad", found, low=(0, 0, 0), high=more, value=0.0)
        found = b("reshape", found, shape=(self.batch, down, self.down, across, self.across))
        found = found if x.type.dtype == "f64" else b("cast", found, dtype="f64")
        found = b("sum", found, axes=(2, 4), keepdims=False)
        return b("reshape", found, shape=self.type.shape)


def squares(k: Kernel, found: Reg, sum: Reg) -> Reg:
    """A thread's sum with the squares of a vector."""
    (own,) = over_lanes(k, Fold("add", _dtype(found)), (combine(k, "mul", found, found),))
    return combine(k, "add", sum, own)


def keep(k: Kernel, sum: Reg, threads: int, target: Operand, number: Index) -> None:
    """Store the sum of what all threads of a block have. All of them come here."""
    wide = sum if sum.type == "f64" else k.op("arith.extf", sum, type="f64")
    (held,) = over_warp(k, _SUM, (wide,), WARP)
    warps = threads // WARP
    space = k.shared("f64", warps)
    thread = k.thread()
    with k.when(k.compare("eq", k.reg(k.rem(thread, WARP)), k.reg(0))):
        k.store(held, space, k.div(thread, WARP))
    k.barrier()
    with k.when(k.below(thread, 1)):
        total = k.load(space, 0)
        for warp in range(1, warps):
            total = combine(k, "add", total, k.load(space, warp))
        k.store(total, target.pointer, number)


def _dtype(register: Reg) -> DType:
    return "f64" if register.type == "f64" else "f32"
