"""The modules of kernels inside a module, and what upstream's passes make of them."""

from __future__ import annotations

from typing import Any

from mlir import ir
from mlir.dialects import gpu

from sexpgpu.dialects.context import Context


def gpu_modules(module: Any) -> list[Any]:
    """The operations `gpu.module` of a module."""
    return [op.operation for op in module.body.operations if op.operation.name == "gpu.module"]


def replaced(op: Any, context: Context, pipeline: str) -> list[Any]:
    """Put what an upstream pipeline makes of a `gpu.module`, alone in a module of its own, in its place."""
    alone = ir.Module.create(loc=op.location)
    alone.operation.attributes["gpu.container_module"] = ir.UnitAttr.get(context=context.mlir)
    op.clone(ir.InsertionPoint(alone.body))
    lowered = context.run_pipeline(alone, pipeline)
    made = [each.operation.clone(ir.InsertionPoint(op)) for each in lowered.body.operations]
    context.erase(op)
    return [each.operation for each in made]


def ptx_of(binary: Any) -> str:
    """The text of PTX in a `gpu.binary`."""
    objects = ir.ArrayAttr(binary.attributes["objects"])
    return bytes(gpu.ObjectAttr(objects[0]).object).rstrip(b"\0").decode()
