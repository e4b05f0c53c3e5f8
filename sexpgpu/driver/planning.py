"""Programs of functions of a module that is still at hand."""

from __future__ import annotations

from typing import Any

from sexpgpu.dialects.signature import read_graph
from sexpgpu.interp import Program
from sexpgpu.passes.flow import read_flow
from sexpgpu.plan.build import allocation_of, build


def load(func: Any) -> Program:
    """The program of a `func.func`, in an arena laid out for it in the order in which it stands."""
    flow = read_flow(func)
    return Program(build(read_graph(func), flow, allocation_of(flow)))
