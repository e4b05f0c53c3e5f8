"""Modules built by hand, for tests of what works on modules."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from sexpgpu.dialects.context import Context
from sexpgpu.dialects.function import write_function
from sexpgpu.dialects.ops import OPS
from sexpgpu.dialects.read import attrs_of, op_name
from sexpgpu.tensortype import TensorType


def function(context: Context, inputs: list[TensorType], build: Any) -> Any:
    """A module of one function with `inputs` as fields whose results are what `build(builder, values)` gives."""
    module = ir.Module.create(loc=context.location(None))
    write_function(module, context, "f", [("field", type) for type in inputs], build)
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
