"""Parameters in the narrower dtype in which graphs read them: kept with the arrays that they were made of.

An update gives them with the parameters that it gives. Those of other arrays (drawn, restored, seen through an
optimizer's view, or of a type of which updates give none) are made when a graph first asks for them, by a graph that
only casts. So they are there as long as the array is, and those of a step that is refused go with what it made.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, evolve, field

from sexpgpu.gpu.driver import Function
from sexpgpu.gpu.memory import DeviceArray
from sexpgpu.gpu.program import DeviceArena, DeviceProgram
from sexpgpu.plan.records import GraphPlan
from sexpgpu.tensortype import TensorType


@define(eq=False)
class Narrowing:
    """Makes narrow parameters by the graphs among `plans` that only cast."""

    plans: Mapping[str, GraphPlan]
    functions: Mapping[str, Function]
    arena: DeviceArena
    _programs: dict[TensorType, DeviceProgram] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._programs = {}
        for plan in self.plans.values():
            if plan.spec.narrows:
                (given,), (made,) = plan.spec.inputs, plan.spec.outputs
                plan = evolve(plan, spec=evolve(plan.spec, outputs=(evolve(made, role="value"),)))
                self._programs[given.type] = DeviceProgram(plan, self.functions, self.arena)

    def __call__(self, array: DeviceArray, type: TensorType) -> DeviceArray:
        """The narrow parameter of an array; `NoMemory` where there is none for it.

        One is kept. A graph that was compiled again for another batch may read another type, which is made each time.
        """
        if array.narrow is not None and array.narrow.type == type:
            return array.narrow
        (made,) = self._programs[array.type]([array])
        if array.narrow is None:
            array.narrow = made
        return made
