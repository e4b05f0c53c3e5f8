"""to-nvvm: the kernels of the module in MLIR's LLVM and NVVM dialects, by upstream's passes, for one chip.

    gpu.module @kernels { gpu.func @k(...) kernel { gpu.thread_id x ... } }
                                              =>
    gpu.module @kernels [#nvvm.target<chip = "sm_80", ...>] { llvm.func @k(...) { nvvm.read.ptx.sreg.tid.x ... } }

Indices are 32 bits wide where the kernels did not ask for more, and arguments are bare pointers; a table of tensors is
an array that is passed by value, which upstream's conversion does not say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mlir import ir

from sexpgpu.diag import error
from sexpgpu.dialects.context import Context
from sexpgpu.passes.base import Pass
from sexpgpu.passes.gpu.modules import TABLE, gpu_modules, replaced

ROLLED = "llvm.loop_annotation"
CHIPS = {"sm_80": "+ptx80", "sm_90": "+ptx80", "sm_90a": "+ptx80", "sm_100": "+ptx86"}
"""The chips that kernels are made for, and the version of PTX that each is given."""
PIPELINE = (
    "builtin.module(gpu.module(convert-scf-to-cf,"
    "convert-gpu-to-nvvm{index-bitwidth=32 use-bare-ptr-memref-call-conv=true},"
    "convert-nvvm-to-llvm,reconcile-unrealized-casts,canonicalize,cse))"
)


@dataclass(frozen=True)
class ToNvvm(Pass):
    """Lowers every `gpu.module`."""

    name: ClassVar[str] = "to-nvvm"
    chip: str = "sm_80"

    def run(self, module: Any, context: Context) -> str:
        if self.chip not in CHIPS:
            raise error("E-IR-011", f"`sx-to-nvvm`: `{self.chip}` is no value for `chip`", expected=" or ".join(CHIPS))
        target = ir.Attribute.parse(
            f'#nvvm.target<chip = "{self.chip}", features = "{CHIPS[self.chip]}", O = 3>', context.mlir
        )
        found = gpu_modules(module)
        for op in found:
            (made,) = replaced(op, context, PIPELINE)
            _keep_rolled(made)
            _pass_tables(made)
            made.attributes["targets"] = ir.ArrayAttr.get([target], context=context.mlir)
        return f"for {self.chip}"


def _keep_rolled(kernels: Any) -> None:
    """Give branches what was said of their loops, which upstream's conversion leaves beside them."""
    for func in kernels.regions[0].blocks[0].operations:
        for block in func.regions[0].blocks if func.regions else ():
            end = block.operations[len(block.operations) - 1]
            if ROLLED in end.attributes:
                end.attributes["loop_annotation"] = end.attributes[ROLLED]


def _pass_tables(kernels: Any) -> None:
    """Pass the tables of kernels by value, in the space of their parameters."""
    for each in kernels.regions[0].blocks[0].operations:
        func = each.operation
        if TABLE not in func.attributes:
            continue
        context = func.context
        words = ir.IntegerAttr(func.attributes[TABLE]).value
        array = ir.Type.parse(f"!llvm.array<{words} x i64>", context)
        table = {
            "llvm.byval": ir.TypeAttr.get(array, context=context),
            "llvm.align": ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context), 8),
            "llvm.noundef": ir.UnitAttr.get(context=context),
        }
        others = len(func.regions[0].blocks[0].arguments) - 1
        attributes = [ir.DictAttr.get({}, context)] * others + [ir.DictAttr.get(table, context)]
        func.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes, context=context)
        del func.attributes[TABLE]
