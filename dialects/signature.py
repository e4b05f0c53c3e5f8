"""Graph signatures as attributes of `func.func`: the module says by itself what each argument and result is.

    func.func @train(%0: tensor<65x128xf32> {sx.param = "model.wte"}, %1: tensor<12x65xi32> {sx.field = "tokens"})
        -> (tensor<f32> {sx.loss = "loss"}) attributes {sx.graph = "train", sx.rows = 12 : i64}

The role is the attribute's name and the value is the name under which the loop holds the tensor. In a graph that runs
several microbatches (`sx.stacked`), `sx.part` says of which one an argument or result is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, TypeVar, cast, get_args

from mlir import ir

from sexpgpu.diag import Span
from sexpgpu.dialects.attributes import from_mlir
from sexpgpu.dialects.locations import span_of
from sexpgpu.experiment import Graph, Input, InputRole, Output, OutputRole, Reduction, SampleForm
from sexpgpu.tensortype import TensorType

Role = TypeVar("Role")

SQUARES = "sx.squares"
"""On a graph: the norm of its gradients is wanted as they are, since no other call of the step adds to them."""
_INPUT_ROLES: dict[str, InputRole] = {f"sx.{role}": role for role in get_args(InputRole)}
_OUTPUT_ROLES: dict[str, OutputRole] = {f"sx.{role}": role for role in get_args(OutputRole)}


def type_of(value: Any) -> TensorType:
    """The tensor type of an MLIR value."""
    return from_mlir(value.type)


def terminator_of(func: Any) -> Any:
    """The `func.return` of a function."""
    return ir.InsertionPoint.at_block_terminator(func.regions[0].blocks[0]).ref_operation


def write_signature(func: Any, inputs: Iterable[Input], outputs: Iterable[Output]) -> None:
    """Set argument and result attributes of `func`, and its function type from its block and terminator."""
    block = func.regions[0].blocks[0]
    returned = terminator_of(func).operands
    function_type = ir.FunctionType.get(
        [a.type for a in block.arguments], [v.type for v in returned], context=func.context
    )
    func.attributes["function_type"] = ir.TypeAttr.get(function_type, context=func.context)
    func.attributes["arg_attrs"] = _array(func, [_input_attributes(func, i) for i in inputs])
    func.attributes["res_attrs"] = _array(func, [_output_attributes(func, o) for o in outputs])


def _array(func: Any, rows: list[Any]) -> Any:
    return ir.ArrayAttr.get(rows, context=func.context)


def _text(func: Any, text: str) -> Any:
    return ir.StringAttr.get(text, context=func.context)


def _input_attributes(func: Any, given: Input) -> Any:
    attributes = {f"sx.{given.role}": _text(func, given.name)}
    if given.frozen:
        attributes["sx.frozen"] = ir.UnitAttr.get(context=func.context)
    attributes |= _part(func, given.part)
    return ir.DictAttr.get(attributes, context=func.context)


def _output_attributes(func: Any, given: Output) -> Any:
    attributes = {f"sx.{given.role}": _text(func, given.name)}
    if given.role == "metric":
        attributes["sx.reduce"] = _text(func, given.reduce)
    if given.form is not None:
        attributes["sx.as"] = _text(func, given.form)
    if given.then is not None:
        attributes["sx.then"] = _text(func, given.then)
    attributes |= _part(func, given.part)
    return ir.DictAttr.get(attributes, context=func.context)


def _part(func: Any, part: int | None) -> dict[str, Any]:
    i64 = ir.IntegerType.get_signless(64, context=func.context)
    return {} if part is None else {"sx.part": ir.IntegerAttr.get(i64, part)}


def read_inputs(func: Any) -> list[Input]:
    """What the attributes of `func` say of its arguments, in order."""
    arguments = func.regions[0].blocks[0].arguments
    rows = _rows(func, "arg_attrs", len(arguments))
    inputs = []
    for argument, row in zip(arguments, rows, strict=True):
        role, name = _role(row, _INPUT_ROLES) or ("value", "")
        inputs.append(Input(role, name, type_of(argument), "sx.frozen" in row, _number(row, "sx.part")))
    return inputs


def read_outputs(func: Any) -> list[Output]:
    """What the attributes of `func` say of its results, in order."""
    returned = terminator_of(func).operands
    rows = _rows(func, "res_attrs", len(returned))
    outputs = []
    symbols = cache(partial(_symbols, func))  # few graphs give what groups make
    for value, row in zip(returned, rows, strict=True):
        role, name = _role(row, _OUTPUT_ROLES) or ("value", "")
        reduce = cast(Reduction, _string(row, "sx.reduce") or "mean")
        form = cast("SampleForm | None", _string(row, "sx.as"))
        then, part = _string(row, "sx.then"), _number(row, "sx.part")
        outputs.append(Output(role, name, type_of(value), reduce, then, _place(value, symbols), form, part))
    return outputs


def input_roles(func: Any) -> list[InputRole]:
    """The roles of the arguments of `func`, in order."""
    return _roles(func, "arg_attrs", _INPUT_ROLES) or ["value"] * len(func.regions[0].blocks[0].arguments)


def output_roles(func: Any) -> list[OutputRole]:
    """The roles of the results of `func`, in order."""
    return _roles(func, "res_attrs", _OUTPUT_ROLES) or ["value"] * len(terminator_of(func).operands)


def _roles(func: Any, key: str, known: dict[str, Any]) -> list[Any]:
    if key not in func.attributes:
        return []
    rows = func.attributes[key]
    return [next((known[named.name] for named in row if named.name in known), "value") for row in rows]


def _symbols(op: Any) -> ir.SymbolTable:
    """The functions of the module around an operation."""
    while op.parent is not None:
        op = op.parent
    return ir.SymbolTable(op.operation)


def _place(value: Any, symbols: Callable[[], ir.SymbolTable]) -> Span | None:
    """Where the operation of a value was written, within the group that gives it; an argument has no place."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    if op.name == "func.call":
        called = symbols()[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]
        if len(called.regions[0].blocks):
            returned = list(called.regions[0].blocks[0].operations)[-1].operands
            return _place(returned[list(op.results).index(value)], symbols)
    return span_of(op.location)


def _rows(func: Any, key: str, count: int) -> list[dict[str, Any]]:
    attributes = func.attributes
    if key not in attributes:
        return [{} for _ in range(count)]
    return [{named.name: named.attr for named in row} for row in attributes[key]]


def _string(row: dict[str, Any], key: str) -> str | None:
    return cast(str, ir.StringAttr(row[key]).value) if key in row else None


def _number(row: dict[str, Any], key: str) -> int | None:
    return cast(int, ir.IntegerAttr(row[key]).value) if key in row else None


def _role(row: dict[str, Any], roles: dict[str, Role]) -> tuple[Role, str] | None:
    key = next((key for key in row if key in roles), None)
    return None if key is None else (roles[key], cast(str, ir.StringAttr(row[key]).value))


def read_graph(func: Any) -> Graph:
    """The graph record of a function; `sx.graph` names it, the symbol where that is absent."""
    attributes = func.attributes
    symbol = ir.StringAttr(attributes["sym_name"]).value
    name = ir.StringAttr(attributes["sx.graph"]).value if "sx.graph" in attributes else symbol
    rows = ir.IntegerAttr(attributes["sx.rows"]).value if "sx.rows" in attributes else None
    text = ir.StringAttr(attributes["sx.counters"]).value if "sx.counters" in attributes else "{}"
    counters = tuple(json.loads(text).items())
    stacked = ir.IntegerAttr(attributes["sx.stacked"]).value if "sx.stacked" in attributes else 1
    return Graph(name, symbol, tuple(read_inputs(func)), tuple(read_outputs(func)), rows, counters, stacked)
