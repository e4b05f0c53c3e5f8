"""Modules built by hand, for tests of what works on modules."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import attrs_of, op_name
from sexpgpu.dialects.signature import write_signature
from sexpgpu.experiment import Input, Output
from sexpgpu.tensortype import TensorType


def function(context: Context, inputs: list[TensorType], build: Any) -> Any:
    """A `func.func` with `inputs` as fields whose results are what `build(builder, values)` gives."""
    module = ir.Module.create(loc=context.location(None))
    empty = ir.FunctionType.get([], [], context=context.mlir)
    func = ir.Operation.create(
        "func.func",
        attributes={
            "sym_name": ir.StringAttr.get("f", context.mlir),
            "function_type": ir.TypeAttr.get(empty, context=context.mlir),
        },
        regions=1,
        loc=context.location(None),
        ip=ir.InsertionPoint(module.body),
    )
    block = func.regions[0].blocks.append()
    builder = Builder(context, ir.InsertionPoint(block))
    values = [Val(builder, block.add_argument(context.type(t), context.location(None)), t) for t in inputs]
    results = build(builder, values)
    ir.Operation.create(
        "func.return",
        operands=[v.value for v in results],
        loc=context.location(None),
        ip=ir.InsertionPoint(block),
    )
    write_signature(
        func,
        [Input("field", f"x{i}", t) for i, t in enumerate(inputs)],
        [Output("value", f"y{i}", v.type) for i, v in enumerate(results)],
    )
    return module


def naive(func: Any, arrays: list[Any]) -> list[Any]:
    """Every value kept, every operation on its own."""
    values = dict(zip(func.regions[0].blocks[0].arguments, arrays, strict=True))
    operations = [op.operation for op in func.regions[0].blocks[0].operations]
    with np.errstate(all="ignore"):
        for op in operations[:-1]:
            result = OPS[op_name(op)].numpy(*(values[v] for v in op.operands), **attrs_of(op))
            values[op.results[0]] = np.array(result)
    return [values[v] for v in operations[-1].operands]
