"""Types and attributes between Python and MLIR, cached: the bindings build them faster than they read them.

Caches live as long as a context is open; `forget` empties them, since what is kept alive keeps its context.
"""

from __future__ import annotations

import re
from typing import Any, cast

import numpy as np
from mlir import ir

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.opdef import Array, AttrType, Dense, numpy_dtype
from sexpgpu.tensortype import DType, TensorType

_ELEMENTS = {"f32": "f32", "f64": "f64", "bf16": "bf16", "i32": "i32", "i64": "i64", "u8": "i8", "bool": "i1"}
_DTYPES = cast("dict[str, DType]", {element: dtype for dtype, element in _ELEMENTS.items()})
_WRAP = 1 << 64

_types: dict[ir.Type, TensorType] = {}
_values: dict[tuple[AttrType, ir.Attribute], Any] = {}


def forget() -> None:
    """Drops what was read so far."""
    _types.clear()
    _values.clear()


def element_type(dtype: str, context: ir.Context) -> ir.Type:
    return ir.Type.parse(_ELEMENTS[dtype], context)


def to_mlir(type: TensorType, context: ir.Context) -> ir.Type:
    element = element_type(type.dtype, context)
    return ir.RankedTensorType.get(type.shape, element, loc=ir.Location.unknown(context))


def from_mlir(type: ir.Type) -> TensorType:
    """The TensorType of a `tensor<...>`. Raises ValueError for any other type."""
    found = _types.get(type)
    if found is None:
        if not isinstance(type, ir.RankedTensorType) or not type.has_static_shape:
            raise ValueError(f"not a tensor of the dialect: {type}")
        dtype = _DTYPES.get(str(type.element_type))
        if dtype is None:
            raise ValueError(f"not a tensor of the dialect: {type}")
        found = _types[type] = TensorType(tuple(type.shape), dtype)
    return found


def encode(kind: AttrType, value: Any, context: ir.Context) -> ir.Attribute:
    """The attribute that holds a Python value of a kind other than `tensor`; integers are modulo 2**64."""
    if kind == "number":
        kind = "float" if isinstance(value, float) else "int"
    match kind:
        case "ints":
            return ir.DenseI64ArrayAttr.get(value, context)
        case "floats":
            return ir.DenseF64ArrayAttr.get(value, context)
        case "bool":
            return ir.BoolAttr.get(value, context)
        case "int":
            signed = (value + _WRAP // 2) % _WRAP - _WRAP // 2
            return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context), signed)
        case "float":
            return ir.FloatAttr.get_f64(float(value), context)
        case "str":
            return ir.StringAttr.get(value, context)
        case "dtype":
            return ir.TypeAttr.get(element_type(value, context), context)
    raise AssertionError(kind)


def decode(kind: AttrType, attribute: ir.Attribute) -> Any:
    """The Python value of an attribute. Raises ValueError when it does not hold one of that kind."""
    if kind == "tensor":
        return _decode_dense(attribute)
    key = (kind, attribute)
    found = _values.get(key)
    if found is None:
        found = _values[key] = _decode(kind, attribute)
    return found


def _decode(kind: AttrType, attribute: ir.Attribute) -> Any:
    if kind == "number":
        kind = "float" if isinstance(attribute, ir.FloatAttr) else "int"
    match kind, attribute:
        case "ints", ir.DenseI64ArrayAttr():
            return tuple(attribute)
        case "floats", ir.DenseF64ArrayAttr():
            return tuple(attribute)
        case ("bool", ir.BoolAttr()) | ("int", ir.IntegerAttr()) | ("float", ir.FloatAttr()):
            return attribute.value
        case "str", ir.StringAttr():
            return attribute.value
        case "dtype", ir.TypeAttr() if str(attribute.value) in _DTYPES:
            return _DTYPES[str(attribute.value)]
    raise ValueError(f"not an attribute of kind {kind}: {attribute}")


def encode_dense(value: Dense, type: ir.Type, context: ir.Context) -> ir.Attribute:
    """The attribute of a constant; `type` is the MLIR form of its type."""
    element = type.element_type
    data = value.data
    if isinstance(data, np.ndarray):
        if data.size != 1:
            return _encode_array(value.type, data, element, context)
        data = data.item()  # the bindings read a buffer of one element as a splat
    if value.type.is_float:
        scalar: ir.Attribute = ir.FloatAttr.get_unchecked(element, float(data), context)
    else:
        scalar = ir.IntegerAttr.get(element, int(data))
    return ir.DenseElementsAttr.get_splat(type, scalar)


def _encode_array(type: TensorType, data: Array, element: ir.Type, context: ir.Context) -> ir.Attribute:
    raw = np.ascontiguousarray(data, dtype=numpy_dtype(type.dtype))
    if type.dtype == "bf16":
        raw = (round_bf16(raw).view(np.uint32) >> 16).astype(np.uint16)
    elif type.dtype == "bool":
        raw = np.packbits(raw, axis=None, bitorder="little")
    return ir.DenseElementsAttr.get(raw, type=element, shape=type.shape, context=context)


def _decode_dense(attribute: ir.Attribute) -> Dense:
    if not isinstance(attribute, ir.DenseElementsAttr):
        raise ValueError(f"not a dense constant: {attribute}")
    type = from_mlir(attribute.type)
    if type.size and attribute.is_splat:
        value = attribute.get_splat_value().value
        return Dense(type, value % 256 if type.dtype == "u8" else value)
    if not type.size:
        data: Array = np.empty(0, numpy_dtype(type.dtype))
    elif type.dtype == "bf16":
        data = _bf16_elements(attribute)
    else:
        data = np.array(attribute)
    if type.dtype == "u8":
        data = data.view(np.uint8)
    return Dense(type, data.reshape(type.shape))


def _bf16_elements(attribute: ir.DenseElementsAttr) -> Array:
    # The bindings give no buffer of bf16. The text is exact: decimals that parse back to the same value, the
    # bits of NaN and infinity in hexadecimal, or the raw bytes of a large array in one hexadecimal string.
    text = str(attribute)
    packed = re.search(r'"0x([0-9A-Fa-f]*)"', text)
    if packed:
        bits = np.frombuffer(bytes.fromhex(packed[1]), np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32)
    body = text[text.index("<") + 1 : text.rindex(">", 0, text.rindex(" : "))]
    numbers = [
        np.array(int(word, 16) << 16, np.uint32).view(np.float32).item() if word[:2] == "0x" else float(word)
        for word in re.findall(r"[^\[\], ]+", body)
    ]
    return round_bf16(np.array(numbers, np.float32))
