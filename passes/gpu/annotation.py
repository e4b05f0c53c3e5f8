"""How a group's function says which kernels it became: attributes that plans are read from."""

from __future__ import annotations

from typing import Any

from mlir import ir

from sexpgpu.passes.gpu.library_annotation import decode_library, encode_library
from sexpgpu.plan.records import Launch, Launches
from sexpgpu.plan.tables import Row, Table
from sexpgpu.plan.tensor_maps import TensorMap

KERNELS, TEMPORARIES, OVER, LIBRARY = "sx.kernels", "sx.temporaries", "sx.over", "sx.library"


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
        func.attributes[LIBRARY] = encode_library(launches.library, mlir)


def read_launches(func: Any) -> Launches | None:
    """What runs in a group's stead; None where its operations do."""
    if KERNELS not in func.attributes:
        return None
    kernels = tuple([_decode(ir.DictAttr(each)) for each in ir.ArrayAttr(func.attributes[KERNELS])])
    temporaries = tuple(ir.DenseI64ArrayAttr(func.attributes[TEMPORARIES])) if TEMPORARIES in func.attributes else ()
    over = ir.IntegerAttr(func.attributes[OVER]).value if OVER in func.attributes else -1
    library = decode_library(ir.DictAttr(func.attributes[LIBRARY])) if LIBRARY in func.attributes else None
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
    if launch.table is not None:
        fields["table"] = _encode_table(launch.table, mlir)
    if launch.maps:
        fields["maps"] = ir.ArrayAttr.get([_encode_map(map, mlir) for map in launch.maps], context=mlir)
    return ir.DictAttr.get(fields, context=mlir)


def _decode(fields: Any) -> Launch:
    grid, block, args = (tuple(ir.DenseI64ArrayAttr(fields[name])) for name in ("grid", "block", "args"))
    shared = ir.IntegerAttr(fields["shared"]).value if "shared" in fields else 0
    how = ir.StringAttr(fields["how"]).value if "how" in fields else ""
    table = _decode_table(ir.DictAttr(fields["table"])) if "table" in fields else None
    maps = tuple(map(_decode_map, map(ir.DictAttr, ir.ArrayAttr(fields["maps"])))) if "maps" in fields else ()
    return Launch(ir.FlatSymbolRefAttr(fields["kernel"]).value, grid, block, shared, args, how, table, maps)


_AXES = ("shape", "strides", "box")


def _encode_map(map: TensorMap, mlir: Any) -> Any:
    fields = {name: _number(getattr(map, name), mlir) for name in ("argument", "offset", "swizzle")}
    fields |= {name: ir.DenseI64ArrayAttr.get(list(getattr(map, name)), context=mlir) for name in _AXES}
    return ir.DictAttr.get(fields, context=mlir)


def _decode_map(fields: Any) -> TensorMap:
    argument, offset, swizzle = (ir.IntegerAttr(fields[name]).value for name in ("argument", "offset", "swizzle"))
    shape, strides, box = (tuple(ir.DenseI64ArrayAttr(fields[name])) for name in _AXES)
    return TensorMap(argument, offset, shape, strides, box, swizzle)


def _encode_table(table: Table, mlir: Any) -> Any:
    rows = []
    for row in table.rows:
        args = ir.DenseI64ArrayAttr.get(list(row.args), context=mlir)
        rows.append(ir.DictAttr.get({"args": args, "elements": _number(row.elements, mlir)}, context=mlir))
    fields = {
        "rows": ir.ArrayAttr.get(rows, context=mlir),
        "capacity": _number(table.capacity, mlir),
        "chunk": _number(table.chunk, mlir),
    }
    return ir.DictAttr.get(fields, context=mlir)


def _decode_table(fields: Any) -> Table:
    rows = []
    for each in map(ir.DictAttr, ir.ArrayAttr(fields["rows"])):
        rows.append(Row(tuple(ir.DenseI64ArrayAttr(each["args"])), ir.IntegerAttr(each["elements"]).value))
    return Table(tuple(rows), ir.IntegerAttr(fields["capacity"]).value, ir.IntegerAttr(fields["chunk"]).value)


def _number(value: int, mlir: Any) -> Any:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context=mlir), value)
