"""A function of a module, written operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.signature import write_signature
from sexpgpu.experiment import Input, InputRole, Output, OutputRole
from sexpgpu.tensortype import TensorType

Build = Callable[[Builder, list[Val]], Sequence[Val]]
"""Adds the body of a function: its results from its arguments."""
Names = tuple[str, str]


def write_function(
    module: Any,
    context: Context,
    symbol: str,
    arguments: Sequence[tuple[InputRole, TensorType]],
    build: Build,
    gives: OutputRole = "value",
    names: Names = ("x{}", "y{}"),
) -> Any:
    """Add `symbol` to a module: a graph of arguments of these roles and types, whose results are what `build` gives, of
    the role `gives`. Returns the `func.func`.

    `names` are those of arguments and of results, each with its number where there is a `{}`.
    """
    empty = ir.FunctionType.get([], [], context=context.mlir)
    func = ir.Operation.create(
        "func.func",
        attributes={
            "sym_name": ir.StringAttr.get(symbol, context.mlir),
            "function_type": ir.TypeAttr.get(empty, context=context.mlir),
        },
        regions=1,
        loc=context.location(None),
        ip=ir.InsertionPoint(module.body),
    )
    block = func.regions[0].blocks.append()
    builder = Builder(context, ir.InsertionPoint(block))
    given = [Val(builder, block.add_argument(context.type(t), context.location(None)), t) for _, t in arguments]
    results = build(builder, given)
    ir.Operation.create(
        "func.return",
        operands=[result.value for result in results],
        loc=context.location(None),
        ip=ir.InsertionPoint(block),
    )
    write_signature(
        func,
        [Input(role, names[0].format(i), type) for i, (role, type) in enumerate(arguments)],
        [Output(gives, names[1].format(i), result.type) for i, result in enumerate(results)],
    )
    return func
