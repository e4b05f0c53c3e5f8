"""Tensor cores, and copies from global to shared memory that run beside the threads: instructions of sm_80 and later.

Fragments are those of the PTX ISA, "Matrix multiply-accumulate operation using mma instruction", m16n8k16 for bf16 and
m16n8k8 for tf32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from attrs import define
from mlir import ir

from sexpgpu.passes.gpu.kernel import BYTES, Index, Kernel, Pointer, Reg

DYNAMIC = "dynamic_shared"
"""The symbol of the shared memory whose size a launch says; one for all kernels of a module that want one alignment."""
ALIGNMENT = 128


def dynamic_shared(k: Kernel, type: str, start: int = 0, align: int = ALIGNMENT) -> Pointer:
    """The dynamic shared memory of the kernel from byte `start`, a multiple of 16, on, as elements of `type`.

    Where it begins is a multiple of `align`.
    """
    mlir = k.context.mlir
    symbol = DYNAMIC if align == ALIGNMENT else f"{DYNAMIC}_{align}"
    symbols = [op.operation.attributes["sym_name"] for op in k.module.block.operations if "sym_name" in op.attributes]
    if not any(ir.StringAttr(name).value == symbol for name in symbols):
        attributes = {
            "sym_name": ir.StringAttr.get(symbol, context=mlir),
            "global_type": ir.TypeAttr.get(ir.Type.parse("!llvm.array<0 x i8>", mlir), context=mlir),
            "linkage": ir.Attribute.parse("#llvm.linkage<external>", mlir),
            "addr_space": ir.IntegerAttr.get(k.type("i32"), 3),
            "alignment": ir.IntegerAttr.get(k.type("i64"), align),
        }
        begin = ir.InsertionPoint.at_block_begin(k.module.block)
        ir.Operation.create("llvm.mlir.global", attributes=attributes, regions=1, loc=k.location, ip=begin)
    named = {"global_name": ir.FlatSymbolRefAttr.get(symbol, context=mlir)}
    value = k.emit("llvm.mlir.addressof", [ir.Type.parse("!llvm.ptr<3>", mlir)], [], named)
    return Pointer(k.address(Pointer(value, "i8", 3), start), type, 3)


def copy(k: Kernel, source: Pointer, at: Index, target: Pointer, to: Index, lanes: int, where: Reg | None) -> None:
    """Begin a copy of `lanes` elements, 4, 8 or 16 bytes, to shared memory; zeros arrive unless `where` holds."""
    size = lanes * BYTES[source.type]
    # Sixteen bytes need not pass through the cache of the multiprocessor.
    modifier = ir.Attribute.parse(f"#nvvm<load_cache_modifier {'cg' if size == 16 else 'ca'}>", k.context.mlir)
    operands = [k.address(target, to), k.address(source, at)]
    if where is not None:
        operands.append(k.select(where, k.const(size, "i32"), k.const(0, "i32")).value)
    attributes = {"size": ir.IntegerAttr.get(k.type("i32"), size), "modifier": modifier}
    k.emit("nvvm.cp.async.shared.global", [], operands, attributes)


def commit(k: Kernel) -> None:
    """Make one group of the copies begun so far."""
    k.emit("nvvm.cp.async.commit.group", [], [])


def wait(k: Kernel, pending: int) -> None:
    """Wait until no more than the `pending` latest groups of copies of this thread are under way."""
    k.emit("nvvm.cp.async.wait.group", [], [], {"n": ir.IntegerAttr.get(k.type("i32"), pending)})


@define(eq=False, slots=False)
class TensorCore:
    """Loads of fragments and products of them, in one kernel."""

    kernel: Kernel

    def fragments(self, base: Pointer, at: Index, transposed: bool) -> list[Reg]:
        """Four matrices of 8 x 8 bf16, two elements of each a thread, as i32.

        Thread 8 i + j says where line j of matrix i begins, at a multiple of 16 bytes. Of matrix i it gets elements
        2 (t % 4) and the next of line t / 4, t its number in the warp; of a `transposed` matrix, of its columns.
        """
        k = self.kernel
        attributes = self._load_attributes["col" if transposed else "row"]
        made = k.emit("nvvm.ldmatrix", [self._four("i32")], [k.address(base, at)], attributes)
        return self._parts(made, "i32")

    def tf32(self, a: Reg) -> Reg:
        """f32 rounded to the nearest tf32, ties away from zero, as i32; `a` may be the bits of it."""
        k = self.kernel
        value = k.op("arith.bitcast", a, type="f32") if a.type == "i32" else a
        attributes = {"rnd": ir.Attribute.parse("#nvvm.fp_rnd_mode<rna>", k.context.mlir)}
        return Reg(k.emit("nvvm.convert.float.to.tf32", [k.type("i32")], [value.value], attributes), "i32")

    def product(self, a: Sequence[Reg], b: Sequence[Reg], c: Sequence[Reg], type: str = "bf16") -> list[Reg]:
        """a b + c in f32: a [16, n] in four registers, b [n, 8] in two, c [16, 8] in four; n is 16 of bf16, 8 of tf32.

        Thread t has elements 2 (t % 4) and the next of lines t / 4 and t / 4 + 8 of c.
        """
        operands = [each.value for each in (*a, *b, *c)]
        made = self.kernel.emit("nvvm.mma.sync", [self._four("f32")], operands, self._product_attributes[type])
        return self._parts(made, "f32")

    def _parts(self, made: Any, type: str) -> list[Reg]:
        k = self.kernel
        return [Reg(k.emit("llvm.extractvalue", [k.type(type)], [made], at), type) for at in self._positions]

    def _four(self, type: str) -> Any:
        return self._structs[type]

    @cached_property
    def _structs(self) -> dict[str, Any]:
        mlir = self.kernel.context.mlir
        return {t: ir.Type.parse(f"!llvm.struct<({t}, {t}, {t}, {t})>", mlir) for t in ("i32", "f32")}

    @cached_property
    def _positions(self) -> list[dict[str, Any]]:
        mlir = self.kernel.context.mlir
        return [{"position": ir.DenseI64ArrayAttr.get([i], context=mlir)} for i in range(4)]

    @cached_property
    def _load_attributes(self) -> dict[str, dict[str, Any]]:
        mlir = self.kernel.context.mlir
        return {
            layout: {
                "num": ir.IntegerAttr.get(self.kernel.type("i32"), 4),
                "layout": ir.Attribute.parse(f"#nvvm.mma_layout<{layout}>", mlir),
                "shape": ir.Attribute.parse("#nvvm.ld_st_matrix_shape<m=8,n=8>", mlir),
                "eltType": ir.Attribute.parse("#nvvm.ld_st_matrix_elt_type<b16>", mlir),
            }
            for layout in ("row", "col")
        }

    @cached_property
    def _product_attributes(self) -> dict[str, dict[str, Any]]:
        mlir = self.kernel.context.mlir
        return {
            type: {
                "shape": ir.Attribute.parse(f"#nvvm.shape<m=16,n=8,k={places}>", mlir),
                "layoutA": ir.Attribute.parse("#nvvm.mma_layout<row>", mlir),
                "layoutB": ir.Attribute.parse("#nvvm.mma_layout<col>", mlir),
                "multiplicandAPtxType": ir.Attribute.parse(f"#nvvm.mma_type<{type}>", mlir),
                "multiplicandBPtxType": ir.Attribute.parse(f"#nvvm.mma_type<{type}>", mlir),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([4, 2, 4], context=mlir),
            }
            for type, places in (("bf16", 16), ("tf32", 8))
        }
