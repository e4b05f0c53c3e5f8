"""The plans of a module whose graphs were lowered to kernels, with the kernels' text."""

from __future__ import annotations

import re
from typing import Any

from mlir import ir

from sexpgpu.passes.base import graphs
from sexpgpu.passes.gpu.modules import binaries, chip_of, ptx_of
from sexpgpu.passes.planned import plan_of
from sexpgpu.plan.records import DevicePlans, PtxModule


def device_plans_of(module: Any) -> DevicePlans:
    """The plans of every graph that takes something, by symbol, and the compiled kernels that they launch."""
    plans = [plan_of(func) for func in graphs(module) if len(func.regions[0].blocks[0].arguments)]
    modules = []
    chip = ""
    for binary in binaries(module):
        text = ptx_of(binary)
        chip = chip_of(binary)
        names = tuple(re.findall(r"^\.visible \.entry (\w+)", text, re.MULTILINE))
        modules.append(PtxModule(ir.StringAttr(binary.attributes["sym_name"]).value, text, names))
    return DevicePlans({plan.spec.symbol: plan for plan in plans}, tuple(modules), chip)
