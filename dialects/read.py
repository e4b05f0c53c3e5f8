"""Reading operations of the dialect back: names, attributes, types, and whether they agree with the table."""

from __future__ import annotations

from typing import Any

from mlir import ir

from sexpgpu.diag import SxError
from sexpgpu.dialects.attributes import decode, from_mlir
from sexpgpu.dialects.opdef import OpDef
from sexpgpu.dialects.ops import OPS
from sexpgpu.tensortype import TensorType


def op_name(op: ir.Operation | ir.OpView) -> str:
    """`add` for `sx.add`; the full name, `func.return`, for an operation of another dialect."""
    # An op view may have an attribute `name` of its own (func.func has); the operation never does.
    name: str = op.operation.name
    return name[3:] if name.startswith("sx.") else name


def definition_of(op: ir.Operation | ir.OpView) -> OpDef | None:
    """The record of an operation of the dialect, None for another dialect's."""
    name: str = op.operation.name
    return OPS[name[3:]] if name.startswith("sx.") else None


def attrs_of(op: ir.Operation | ir.OpView) -> dict[str, Any]:
    """The declared attributes of an `sx` operation as Python values, as `infer` and `numpy` take them."""
    declared = OPS[op.operation.name[3:]].attrs
    if not declared:
        return {}
    attributes = op.attributes
    return {attr.name: decode(attr.type, attributes[attr.name]) for attr in declared}


def operand_types(op: ir.Operation | ir.OpView) -> tuple[TensorType, ...]:
    return tuple(from_mlir(operand.type) for operand in op.operands)


def result_types(op: ir.Operation | ir.OpView) -> tuple[TensorType, ...]:
    return tuple(from_mlir(result.type) for result in op.results)


def check_op(op: ir.Operation | ir.OpView) -> str | None:
    """What is wrong with an `sx` operation by the table, or None when `infer` says the same as its types."""
    definition = definition_of(op)
    if definition is None:
        return None
    try:
        inferred = definition.infer(*operand_types(op), **attrs_of(op))
        actual = result_types(op)
    except SxError as failure:
        fact = failure.diagnostic
        return f"{fact.message} (expected {fact.expected}, actual {fact.actual})"
    except ValueError as failure:
        return str(failure)
    expected = inferred if isinstance(inferred, tuple) else (inferred,)
    if actual != expected:
        return f"{definition.name} gives {_listed(expected)}, but the module says {_listed(actual)}"
    return None


def _listed(types: tuple[TensorType, ...]) -> str:
    return ", ".join(map(str, types))
