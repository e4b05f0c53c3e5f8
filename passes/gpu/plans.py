"""The plans of a module whose graphs were lowered to kernels, with the kernels' text."""

from __future__ import annotations

import re
from typing import Any

from mlir import ir

from sexpgpu.dialects.context import Context
from sexpgpu.passes.base import graphs
from sexpgpu.passes.gpu.modules import binaries, chip_of, ptx_of
from sexpgpu.passes.planned import plan_of
from sexpgpu.plan.records import DevicePlans, PtxModule


def device_plans_of(module: Any, context: Context | None = None) -> DevicePlans:
    """The plans of every graph that takes something, by symbol, and the compiled kernels that they launch, where
    there are any. Right behind `plan-memory` the `context` has what that found.
    """
    found = context.found if context is not None else {}
    taking = [func for func in graphs(module) if len(func.regions[0].blocks[0].arguments)]
    plans = [plan_of(func, found.get((module, ir.StringAttr(func.attributes["sym_name"]).value))) for func in taking]
    return DevicePlans({plan.spec.symbol: plan for plan in plans}, *modules_of(module))


def modules_of(module: Any) -> tuple[tuple[PtxModule, ...], str]:
    """The kernels of a module that became PTX, and their chip; none of one that did not yet."""
    modules = []
    chip = ""
    for binary in binaries(module):
        text = ptx_of(binary)
        chip = chip_of(binary)
        names = tuple(re.findall(r"^\.visible \.entry (\w+)", text, re.MULTILINE))
        modules.append(PtxModule(ir.StringAttr(binary.attributes["sym_name"]).value, text, names))
    return tuple(modules), chip
