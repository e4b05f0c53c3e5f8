"""Kernels that MLIR and LLVM make, as the product does: pointwise functions with the mathematical library linked in."""

from __future__ import annotations

from collections.abc import Mapping

from mlir.dialects import gpu

from sexpgpu.dialects.context import open_context

PIPELINE = (
    "builtin.module(gpu.module(convert-scf-to-cf,"
    "convert-gpu-to-nvvm{index-bitwidth=32 use-bare-ptr-memref-call-conv=true},"
    "convert-nvvm-to-llvm,reconcile-unrealized-casts,canonicalize,cse))"
)
SIZE = 4096

KERNEL = """
gpu.func @{name}({arguments}) kernel {{
  %thread = gpu.thread_id x
  %block = gpu.block_id x
  %width = gpu.block_dim x
  %m = arith.muli %block, %width : index
  %i = arith.addi %m, %thread : index
  {loads}
  {body}
  memref.store %r, %out[%i] : memref<{size}x{result}>
  gpu.return
}}
"""


def ptx(kernels: Mapping[str, tuple[str, str, str]], chip: str = "sm_90") -> str:
    """PTX with a kernel for each of (types of the inputs, type of the result, MLIR of %r from %a, %b, …)."""
    functions = []
    for name, (inputs, result, body) in kernels.items():
        types = inputs.split()
        letters = "abcdef"[: len(types)]
        named = [(f"%p{x}", x, kind) for x, kind in zip(letters, types, strict=True)]
        arguments = [f"{p}: memref<{SIZE}x{kind}> {{llvm.noalias, llvm.readonly}}" for p, _, kind in named]
        loads = "\n  ".join(f"%{x} = memref.load {p}[%i] : memref<{SIZE}x{kind}>" for p, x, kind in named)
        arguments.append(f"%out: memref<{SIZE}x{result}> {{llvm.noalias}}")
        functions.append(
            KERNEL.format(name=name, arguments=", ".join(arguments), loads=loads, body=body, size=SIZE, result=result)
        )
    features = "+ptx86" if chip == "sm_100" else "+ptx80"
    text = (
        "module attributes {gpu.container_module} {\n"
        f'gpu.module @kernels [#nvvm.target<chip = "{chip}", features = "{features}", O = 3>] {{\n'
        + "".join(functions)
        + "}\n}\n"
    )
    with open_context() as context:
        module = context.parse_module(text, "kernels.mlir")
        lowered = context.run_pipeline(module, PIPELINE)
        binary = context.run_pipeline(lowered, "builtin.module(gpu-module-to-binary{format=isa})")
        for op in binary.body.operations:
            if op.operation.name == "gpu.binary":
                return bytes(gpu.ObjectAttr(op.operation.attributes["objects"][0]).object).rstrip(b"\0").decode()
    raise AssertionError("no binary")
