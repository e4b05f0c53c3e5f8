"""How a group's function says which graph of a library may run in its stead: an attribute, read back as the record."""

from __future__ import annotations

from typing import Any

import attrs
from mlir import ir

from sexpgpu.dialects.attributes import from_mlir, to_mlir
from sexpgpu.plan.library import AttentionGraph, ConvolutionGraph, Library, LibraryTensor, ProductGraph

_GRAPHS: dict[str, type[Library]] = {
    "attention": AttentionGraph,
    "product": ProductGraph,
    "convolution": ConvolutionGraph,
}
"""The kinds of graphs of libraries, by what the attribute calls them."""


def encode_library(library: Library, mlir: Any) -> Any:
    """The attribute that says a graph, field by field."""
    fields: dict[str, Any] = {each.name: getattr(library, each.name) for each in attrs.fields(type(library))}
    tensors = [_encode_tensor(each, mlir) for each in fields.pop("tensors")]
    encoded = {name: _encode_field(value, mlir) for name, value in fields.items()}
    kind = next(name for name, made in _GRAPHS.items() if isinstance(library, made))
    encoded["graph"] = ir.StringAttr.get(kind, context=mlir)
    return ir.DictAttr.get({**encoded, "tensors": ir.ArrayAttr.get(tensors, context=mlir)}, context=mlir)


def _encode_field(value: Any, mlir: Any) -> Any:
    match value:
        case bool():
            return ir.BoolAttr.get(value, context=mlir)
        case float():
            return ir.FloatAttr.get(ir.F64Type.get(context=mlir), value, ir.Location.unknown(mlir))
        case str():
            return ir.StringAttr.get(value, context=mlir)
        case _:
            return ir.DenseI64ArrayAttr.get(list(value), context=mlir)


def _encode_tensor(tensor: LibraryTensor, mlir: Any) -> Any:
    fields: dict[str, Any] = {
        "role": ir.StringAttr.get(tensor.role, context=mlir),
        "argument": _number(tensor.argument, mlir),
        "type": ir.TypeAttr.get(to_mlir(tensor.type, mlir), context=mlir),
        "strides": ir.DenseI64ArrayAttr.get(list(tensor.strides), context=mlir),
    }
    if tensor.offset:
        fields["offset"] = _number(tensor.offset, mlir)
    return ir.DictAttr.get(fields, context=mlir)


def decode_library(fields: Any) -> Library:
    """The graph that an attribute says."""
    made = _GRAPHS[ir.StringAttr(fields["graph"]).value]
    tensors = tuple([_decode_tensor(ir.DictAttr(each)) for each in ir.ArrayAttr(fields["tensors"])])
    rest = [each.name for each in attrs.fields(made) if each.name != "tensors"]
    return made(tensors, **{name: _decode_field(fields[name]) for name in rest})


def _decode_field(attribute: Any) -> Any:
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return tuple(attribute)
    return attribute.value


def _decode_tensor(fields: Any) -> LibraryTensor:
    return LibraryTensor(
        ir.StringAttr(fields["role"]).value,
        ir.IntegerAttr(fields["argument"]).value,
        from_mlir(ir.TypeAttr(fields["type"]).value),
        tuple(ir.DenseI64ArrayAttr(fields["strides"])),
        ir.IntegerAttr(fields["offset"]).value if "offset" in fields else 0,
    )


def _number(value: int, mlir: Any) -> Any:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context=mlir), value)
