"""to-nvvm: the kernels of the module in MLIR's LLVM and NVVM dialects, by upstream's passes, for one chip.

    gpu.module @kernels { gpu.func @k(...) kernel { gpu.thread_id x ... } }
                                              =>
    gpu.module @kernels [#nvvm.target<chip = "sm_80", ...>] { llvm.func @k(...) { nvvm.read.ptx.sreg.tid.x ... } }

Indices are 32 bits wide where the kernels did not ask for more, and arguments are bare pointers; a table of tensors and
tensor maps are arrays that are passed by value, which upstream's conversion does not say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mlir import ir

from sexpgpu.dialects.context import Context
from sexpgpu.passes.base import Pass
from sexpgpu.passes.gpu.modules import CHIPS, MAPS, TABLE, gpu_modules, replaced, require_chip
from sexpgpu.plan.tensor_maps import ALIGNMENT, WORDS

ROLLED = "llvm.loop_annotation"
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
        require_chip(self.name, self.chip)
        target = ir.Attribute.parse(
            f'#nvvm.target<chip = "{self.chip}", features = "{CHIPS[self.chip]}", O = 3>', context.mlir
        )
        found = gpu_modules(module)
        for op in found:
            (made,) = replaced(op, context, PIPELINE)
            _keep_rolled(made)
            _pass_values(made)
            made.attributes["targets"] = ir.ArrayAttr.get([target], context=context.mlir)
        return f"for {self.chip}"


def _keep_rolled(kernels: Any) -> None:
    """Give branches what was said of their loops, which upstream's conversion leaves beside them."""
    for func in kernels.regions[0].blocks[0].operations:
        for block in func.regions[0].blocks if func.regions else ():
            end = block.operations[len(block.operations) - 1]
            if ROLLED in end.attributes:
                end.attributes["loop_annotation"] = end.attributes[ROLLED]


def _pass_values(kernels: Any) -> None:
    """Pass tables and tensor maps of kernels by value, in the space of their parameters."""
    for each in kernels.regions[0].blocks[0].operations:
        func = each.operation
        words, maps = (_taken(func, name) for name in (TABLE, MAPS))
        if not words and not maps:
            continue
        context = func.context
        values = [_value(f"array<{words} x i64>", 8, context)] if words else []
        # Bulk copies read a map through its address: where there is one, all threads have to see the same.
        map = {**_value(f"array<{WORDS} x i64>", ALIGNMENT, context), "nvvm.grid_constant": ir.UnitAttr.get(context)}
        values += [map] * maps
        none: dict[str, Any] = {}
        others = len(func.regions[0].blocks[0].arguments) - len(values)
        attributes = [ir.DictAttr.get(said, context) for said in (*[none] * others, *values)]
        func.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes, context=context)


def _taken(func: Any, name: str) -> int:
    """A number among a function's attributes, which is removed; 0 where there is none."""
    if name not in func.attributes:
        return 0
    found: int = ir.IntegerAttr(func.attributes[name]).value
    del func.attributes[name]
    return found


def _value(type: str, alignment: int, context: Any) -> dict[str, Any]:
    """What a parameter says that is passed by value."""
    return {
        "llvm.byval": ir.TypeAttr.get(ir.Type.parse(f"!llvm.{type}", context), context=context),
        "llvm.align": ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context), alignment),
        "llvm.noundef": ir.UnitAttr.get(context=context),
    }
