"""Instructions of a warp's threads together, and atomic ones."""

from __future__ import annotations

from typing import Any

from mlir import ir

from sexpgpu.passes.gpu.kernel import Index, Kernel, Pointer, Reg

_ATOMIC = {"add": 1, "max": 7, "min": 8}
"""The numbers of LLVM's `AtomicBinOp`, of signed integers."""
_RELAXED = 2


def ballot(k: Kernel, vote: Reg) -> Reg:
    """The votes of a warp's lanes as the bits of an i32."""
    kind = ir.Attribute.parse("#nvvm<vote_sync_kind ballot>", k.context.mlir)
    value = k.emit("nvvm.vote.sync", [k.type("i32")], [k.const(-1, "i32").value, vote.value], {"kind": kind})
    return Reg(value, "i32")


def population(k: Kernel, bits: Reg) -> Reg:
    """How many bits of an i32 are set."""
    return k.op("llvm.intr.ctpop", bits)


def lowest_bit(k: Kernel, bits: Reg) -> Reg:
    """The number of the lowest bit that is set; there is one."""
    return k.op("llvm.intr.cttz", bits, is_zero_poison=ir.IntegerAttr.get(k.type("i1"), 1))


def atomic(k: Kernel, how: str, base: Pointer, index: Index, value: Reg) -> None:
    """`add`, `min` or `max` of an integer in memory: the result does not depend on who comes first."""
    attributes: dict[str, Any] = {
        "bin_op": ir.IntegerAttr.get(k.type("i64"), _ATOMIC[how]),
        "ordering": ir.IntegerAttr.get(k.type("i64"), _RELAXED),
    }
    k.emit("llvm.atomicrmw", [k.type(value.type)], [k.address(base, index), value.value], attributes)
