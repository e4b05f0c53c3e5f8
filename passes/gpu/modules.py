"""The modules of kernels inside a module, and what upstream's passes make of them."""

from __future__ import annotations

import re
from typing import Any

from mlir import ir
from mlir.dialects import gpu

from sexpgpu.diag import error
from sexpgpu.dialects.context import Context

TABLE = "sx.table"
"""On a kernel with a table behind its pointers, which is passed by value: how many 64-bit words it has."""
MAPS = "sx.maps"
"""On a kernel whose last parameters are tensor maps, passed by value: how many."""


CHIPS = {"sm_80": "+ptx80", "sm_90": "+ptx80", "sm_90a": "+ptx80", "sm_100": "+ptx86"}
"""The chips that kernels are made for, and the version of PTX that each is given.

Kernels for `sm_90a` may have instructions of compute capability 9.0 alone; those for the others run on newer ones too.
"""


def require_chip(name: str, chip: str) -> None:
    """E-IR-011 where kernels are not made for what the pass `name` is given."""
    if chip not in CHIPS:
        raise error("E-IR-011", f"`sx-{name}`: `{chip}` is no value for `chip`", expected=" or ".join(CHIPS))


def gpu_modules(module: Any) -> list[Any]:
    """The operations `gpu.module` of a module."""
    return [op.operation for op in module.body.operations if op.operation.name == "gpu.module"]


def binaries(module: Any) -> list[Any]:
    """The operations `gpu.binary` of a module."""
    return [op.operation for op in module.body.operations if op.operation.name == "gpu.binary"]


def chip_of(binary: Any) -> str:
    """The chip that a `gpu.binary` was made for: `sm_80`."""
    target = str(gpu.ObjectAttr(ir.ArrayAttr(binary.attributes["objects"])[0]).target)
    found = re.search(r'chip = "(\w+)"', target)
    return found[1] if found is not None else "sm_75"  # which the target leaves out: it is upstream's default


def replaced(op: Any, context: Context, pipeline: str) -> list[Any]:
    """Put what an upstream pipeline makes of a `gpu.module`, alone in a module of its own, in its place."""
    alone = ir.Module.create(loc=op.location)
    alone.operation.attributes["gpu.container_module"] = ir.UnitAttr.get(context=context.mlir)
    op.clone(ir.InsertionPoint(alone.body))
    context.lower(alone, pipeline)
    made = [each.operation for each in alone.body.operations]
    for each in made:
        each.move_before(op)
    context.erase(op)
    return made


def drop_timings(binary: Any) -> None:
    """Take out of a `gpu.binary` how long upstream took for it: the same module is the same text each time."""
    context = binary.context
    plain = []
    for each in map(gpu.ObjectAttr, ir.ArrayAttr(binary.attributes["objects"])):
        lasting = {p.name: p.attr for p in each.properties or () if not p.name.endswith("TimeInMs")}
        properties = ir.DictAttr.get(lasting, context=context)
        plain.append(gpu.ObjectAttr.get(each.target, each.format, each.object, properties, each.kernels, context))
    binary.attributes["objects"] = ir.ArrayAttr.get(plain, context=context)


def ptx_of(binary: Any) -> str:
    """The text of PTX in a `gpu.binary`."""
    objects = ir.ArrayAttr(binary.attributes["objects"])
    return bytes(gpu.ObjectAttr(objects[0]).object).rstrip(b"\0").decode()
