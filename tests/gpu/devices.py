"""A simulated device and graphs compiled for it, for tests of what runs plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import open_context
from sexpgpu.driver.pipeline import steps_of
from sexpgpu.gpu.driver import Driver
from sexpgpu.gpu.memory import Pool
from sexpgpu.gpu.program import DeviceArena, DeviceProgram
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.passes import PASSES
from sexpgpu.passes.base import parse_pass, run_pipeline
from sexpgpu.passes.gpu.plans import device_plans_of
from sexpgpu.plan.records import DevicePlans, GraphPlan
from sexpgpu.sim import Checks
from sexpgpu.tensortype import DType, TensorType
from tests.building import function

Build = Callable[[Builder, list[Val]], Sequence[Any]]


def type_of(shape: tuple[int, ...], dtype: DType = "f32") -> TensorType:
    return TensorType(shape, dtype)


def compiled(inputs: list[TensorType], build: Build, chip: str = "sm_80") -> DevicePlans:
    """The plans and kernels of one graph, named `f`."""
    with open_context() as context:
        module = function(context, inputs, build)
        run_pipeline(module, context, [parse_pass(step.spec, PASSES) for step in steps_of(f"cuda:{chip}")])
        return device_plans_of(module)


@define(eq=False)
class Simulated:
    """A pool over the simulator, every check on, with an arena."""

    driver: Driver = field(factory=lambda: SimDriver(Checks.every()))
    pool: Pool = field(init=False)
    arena: DeviceArena = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.pool = Pool(self.driver)
        self.arena = DeviceArena(self.pool)

    def functions(self, plans: DevicePlans) -> dict[str, Any]:
        return {name: f for module in plans.modules for name, f in self.driver.load(module).items()}

    def program(self, plans: DevicePlans, plan: GraphPlan | None = None) -> DeviceProgram:
        """The graph `f`, or a plan over its kernels."""
        return DeviceProgram(plan or plans.plans["f"], self.functions(plans), self.arena)
