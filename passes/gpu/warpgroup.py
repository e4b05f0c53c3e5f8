"""Bulk copies by tensor maps, barriers in shared memory, and products of warpgroups: instructions of sm_90a.

A barrier (`mbarrier`) has phases; a phase is over when as many have arrived as it was begun for and all bytes have come
that were announced. Who waits names the parity of the phase that is to be over: 0 for the first. Products read their
factors from shared memory, where descriptors say how they lie (PTX ISA, "Asynchronous warpgroup level matrix
multiply-accumulate instructions").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field
from mlir import ir

from sexpgpu.passes.gpu.kernel import Index, Kernel, Pointer, Reg

WARPGROUP = 128
"""Threads that make a product together."""
ROWS = 64
"""Rows of a product."""
DEPTH = 16
"""Places of the sum that a product of bf16 has."""
SWIZZLE = 128
"""Bytes of a row of a tile in shared memory, in which chunks of 16 bytes change places."""
GROUP = 8 * SWIZZLE
"""Bytes after which the exchange begins anew: tiles begin at a multiple."""
_PATIENCE = 10_000_000
"""Nanoseconds that a thread may sleep at a barrier before it looks again."""


@define(eq=False)
class Barriers:
    """Barriers one behind another in shared memory, 8 bytes each."""

    kernel: Kernel
    base: Pointer

    def at(self, number: Index) -> Any:
        return self.kernel.address(self.base, number)

    def init(self, number: int, arrivals: int) -> None:
        """By one thread, before `ready`: so many arrive in each phase."""
        k = self.kernel
        k.emit("nvvm.mbarrier.init", [], [self.at(number), k.const(arrivals, "i32").value])

    def ready(self) -> None:
        """By the thread that called `init`, before others see the barriers."""
        self.kernel.emit("nvvm.fence.mbarrier.init", [], [])

    def expect(self, number: Index, nbytes: int) -> None:
        """Arrive, and announce bytes that copies bring."""
        k = self.kernel
        k.emit("nvvm.mbarrier.arrive.expect_tx", [], [self.at(number), k.const(nbytes, "i32").value])

    def arrive(self, number: Index) -> None:
        self.kernel.emit("nvvm.mbarrier.arrive", [self.kernel.type("i64")], [self.at(number)])

    def wait(self, number: Index, parity: Reg) -> None:
        """Until the phase of that parity is over."""
        k = self.kernel
        operands = [self.at(number), parity.value, k.const(_PATIENCE, "i32").value]
        k.emit("nvvm.mbarrier.try_wait.parity", [], operands)


def copy_box(k: Kernel, map: Any, corner: Sequence[Index], target: Pointer, at: Index, arrived: Any) -> None:
    """Begin to copy the box of a tensor map that begins at `corner`, innermost axis first, to shared memory.

    Its bytes count for the barrier at `arrived`. By one thread.
    """
    mlir = k.context.mlir
    place = k.emit("llvm.addrspacecast", [ir.Type.parse("!llvm.ptr<7>", mlir)], [k.address(target, at)])
    coordinates = [_short(k, number).value for number in corner]
    segments = ir.DenseI32ArrayAttr.get([1, 1, len(coordinates), 1, 0, 0, 0, 0], context=mlir)
    operands = [place, map, *coordinates, arrived]
    k.emit("nvvm.cp.async.bulk.tensor.shared.cluster.global", [], operands, {"operandSegmentSizes": segments})


def meet(k: Kernel, threads: int) -> None:
    """The first so many threads of a block wait for each other."""
    segments = ir.DenseI32ArrayAttr.get([1, 1, 0], context=k.context.mlir)
    operands = [k.const(number, "i32").value for number in (1, threads)]
    k.emit("nvvm.barrier", [], operands, {"operandSegmentSizes": segments})


def _short(k: Kernel, index: Index) -> Reg:
    if isinstance(index, int):
        return k.const(index, "i32")
    return index if index.type == "i32" else k.op("arith.trunci", index, type="i32")


@define(eq=False)
class Warpgroup:
    """Products of `columns` columns, 64 rows and 16 places of the sum, of bf16 in f32.

    `across` says of each factor whether its lines, not its depth, lie beside each other in shared memory.
    """

    kernel: Kernel
    columns: int
    across: tuple[bool, bool]
    _sums: Any = field(init=False)
    _attributes: dict[str, Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        mlir = self.kernel.context.mlir

        def parsed(text: str) -> Any:
            return ir.Attribute.parse(f"#nvvm.{text}", mlir)

        self._sums = ir.Type.parse(f"!llvm.struct<({', '.join(['f32'] * self.count)})>", mlir)
        layouts = [["row", "col"][self.across[0]], ["col", "row"][self.across[1]]]
        self._attributes = {
            "shape": parsed(f"shape<m = {ROWS}, n = {self.columns}, k = {DEPTH}>"),
            "typeA": parsed("wgmma_type<bf16>"),
            "typeB": parsed("wgmma_type<bf16>"),
            "typeD": parsed("wgmma_type<f32>"),
            "scaleD": parsed("wgmma_scale_out<one>"),
            "scaleA": parsed("wgmma_scale_in<one>"),
            "scaleB": parsed("wgmma_scale_in<one>"),
            "layoutA": parsed(f"mma_layout<{layouts[0]}>"),
            "layoutB": parsed(f"mma_layout<{layouts[1]}>"),
        }

    @property
    def count(self) -> int:
        """Sums that a thread has.

        Thread t of the warpgroup has, for each 8 columns, elements 2 (t % 4) and the next of lines
        16 (t / 32) + t % 32 / 4 and 8 behind it.
        """
        return ROWS * self.columns // WARPGROUP

    def descriptor(self, base: Pointer, at: Index, which: int, block: int) -> Reg:
        """How a factor lies that begins at byte `at` of shared memory, in rows of one swizzle width.

        Where its lines lie beside each other, `block` bytes lie between those of one row and the next.
        """
        k = self.kernel
        first = Reg(k.emit("llvm.ptrtoint", [k.type("i64")], [k.address(base, at)]), "i64")
        start = k.op("arith.shrui", k.op("arith.andi", first, k.const(0x3FFFF, "i64")), k.const(4, "i64"))
        leading = block if self.across[which] else 16
        fields = leading >> 4 << 16 | GROUP >> 4 << 32 | 1 << 62
        return k.op("arith.ori", start, k.const(fields, "i64"))

    def begin(self) -> None:
        """Before products, where registers of sums were written."""
        self.kernel.emit("nvvm.wgmma.fence.aligned", [], [])

    def product(self, a: Reg, b: Reg, sums: Any) -> Any:
        """Begin to add a product to sums, by descriptors of its factors; nothing reads the sums before `wait`."""
        return self.kernel.emit("nvvm.wgmma.mma_async", [self._sums], [sums, a.value, b.value], self._attributes)

    def commit(self) -> None:
        """Make one group of the products begun so far."""
        self.kernel.emit("nvvm.wgmma.commit.group.sync.aligned", [], [])

    def wait(self, pending: int) -> None:
        """Until no more than the `pending` latest groups are under way."""
        attributes = {"group": ir.IntegerAttr.get(self.kernel.type("i64"), pending)}
        self.kernel.emit("nvvm.wgmma.wait.group.sync.aligned", [], [], attributes)

    def packed(self, sums: Sequence[Reg]) -> Any:
        """Sums as products take them."""
        k = self.kernel
        made = k.emit("llvm.mlir.undef", [self._sums], [])
        for number, each in enumerate(sums):
            made = k.emit("llvm.insertvalue", [self._sums], [made, each.value], self._position(number))
        return made

    def unpacked(self, sums: Any) -> list[Reg]:
        k = self.kernel
        f32 = k.type("f32")
        return [Reg(k.emit("llvm.extractvalue", [f32], [sums], self._position(n)), "f32") for n in range(self.count)]

    def _position(self, number: int) -> dict[str, Any]:
        return {"position": ir.DenseI64ArrayAttr.get([number], context=self.kernel.context.mlir)}
