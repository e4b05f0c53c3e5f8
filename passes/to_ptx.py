"""to-ptx: the kernels of the module as text of PTX, by upstream's code generator.

    gpu.module @kernels [#nvvm.target<...>] { llvm.func @k(...) }  =>  gpu.binary @kernels [#gpu.object<..., "...">]

The functions of CUDA's libdevice are part of the bindings, so that nothing of a toolkit is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sexpgpu.dialects.context import Context
from sexpgpu.passes.base import Pass
from sexpgpu.passes.gpu.modules import drop_timings, gpu_modules, ptx_of, replaced

PIPELINE = "builtin.module(gpu-module-to-binary{format=isa})"


@dataclass(frozen=True)
class ToPtx(Pass):
    """Compiles every `gpu.module`."""

    name: ClassVar[str] = "to-ptx"

    def run(self, module: Any, context: Context) -> str:
        size = 0
        for op in gpu_modules(module):
            for made in replaced(op, context, PIPELINE):
                if made.name == "gpu.binary":
                    drop_timings(made)
                    size += len(ptx_of(made))
        return f"{size:,} bytes of PTX"
