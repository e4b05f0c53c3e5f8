"""How a group's function says which kernels it became: attributes that plans are read from."""

from __future__ import annotations

from typing import Any

import attrs
from mlir import ir

from sexpgpu.dialects.attributes import from_mlir, to_mlir
from sexpgpu.plan.library import AttentionGraph, Library, LibraryTensor
from sexpgpu.plan.records import Launch, Launches

KERNELS, TEMPORARIES, OVER, LIBRARY = "sx.kernels", "sx.temporaries", "sx.over", "sx.library"
_GRAPHS = {"attention": AttentionGraph}
"""The kinds of graphs of libraries, by what the attribute calls them."""


def write_launches(func: Any, launches: Launches) -> None:
    """Say on a group's function what runs in its stead."""
    mlir = func.context
    each = [_encode(launch, mlir) for launch in launches.kernels]
    func.attributes[KERNELS] = ir.ArrayAttr.get(each, context=mlir)
    if launches.temporaries:
        func.attributes[TEMPORARIES] = ir.DenseI64ArrayAttr.get(list(launches.temporaries), context=mlir)
    if launches.over >= 0:
        func.attributes[OVER] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context=mlir), launches.over)
    if launches.library is not None:
        func.attributes[LIBRARY] = _encode_library(launches.library, mlir)


def read_launches(func: Any) -> Launches | None:
    """What runs in a group's stead; None where its operations do."""
    if KERNELS not in func.attributes:
        return None
    kernels = tuple([_decode(ir.DictAttr(each)) for each in ir.ArrayAttr(func.attributes[KERNELS])])
    temporaries = tuple(ir.DenseI64ArrayAttr(func.attributes[TEMPORARIES])) if TEMPORARIES in func.attributes else ()
    over = ir.IntegerAttr(func.attributes[OVER]).value if OVER in func.attributes else -1
    library = _decode_library(ir.DictAttr(func.attributes[LIBRARY])) if LIBRARY in func.attributes else None
    return Launches(kernels, temporaries, over, library)


def _encode(launch: Launch, mlir: Any) -> Any:
    i64 = ir.IntegerType.get_signless(64, context=mlir)
    fields: dict[str, Any] = {
        "kernel": ir.FlatSymbolRefAttr.get(launch.kernel, context=mlir),
        "grid": ir.DenseI64ArrayAttr.get(list(launch.grid), context=mlir),
        "block": ir.DenseI64ArrayAttr.get(list(launch.block), context=mlir),
        "args": ir.DenseI64ArrayAttr.get(list(launch.args), context=mlir),
    }
    if launch.shared:
        fields["shared"] = ir.IntegerAttr.get(i64, launch.shared)
    if launch.how:
        fields["how"] = ir.StringAttr.get(launch.how, context=mlir)
    return ir.DictAttr.get(fields, context=mlir)


def _decode(fields: Any) -> Launch:
    grid, block, args = (tuple(ir.DenseI64ArrayAttr(fields[name])) for name in ("grid", "block", "args"))
    shared = ir.IntegerAttr(fields["shared"]).value if "shared" in fields else 0
    how = ir.StringAttr(fields["how"]).value if "how" in fields else ""
    return Launch(ir.FlatSymbolRefAttr(fields["kernel"]).value, grid, block, shared, args, how)


def _encode_library(library: Library, mlir: Any) -> Any:
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
        case _:
            raise TypeError(f"no attribute says {value!r}")


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


def _decode_library(fields: Any) -> Library:
    made = _GRAPHS[ir.StringAttr(fields["graph"]).value]
    tensors = tuple([_decode_tensor(ir.DictAttr(each)) for each in ir.ArrayAttr(fields["tensors"])])
    rest = [each.name for each in attrs.fields(made) if each.name != "tensors"]
    return made(tensors, **{name: _decode_field(fields[name]) for name in rest})


def _decode_field(attribute: Any) -> Any:
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
