"""Compiling a function to kernels and running them on the simulator, for comparison with what its operations mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import define, field

from sexpgpu.dialects.context import Context
from sexpgpu.dialects.opdef import Array, numpy_dtype
from sexpgpu.passes import PASSES
from sexpgpu.passes.base import graphs, parse_pass, run_pipeline
from sexpgpu.passes.gpu.modules import ptx_of
from sexpgpu.passes.gpu.task import device_itemsize
from sexpgpu.passes.planned import plan_of
from sexpgpu.plan.build import temporary_offsets
from sexpgpu.plan.records import FAULTS, Fixed, GraphPlan, Launches, View
from sexpgpu.sim import Checks, Machine
from sexpgpu.tensortype import DType, TensorType

FUSED = ("sx-fuse=target=cuda", "sx-to-gpu", "sx-to-nvvm", "sx-to-ptx")
ALONE = FUSED[1:]
"""Each operation a kernel of its own."""


@define(eq=False)
class Device:
    """A simulated device with the kernels of a compiled module."""

    plan: GraphPlan
    machine: Machine
    kernels: dict[str, Any] = field(factory=dict)

    @classmethod
    def of(cls, context: Context, module: Any, passes: Sequence[str] = FUSED, checks: Checks | None = None) -> Device:
        """Compile a module of one graph, in place."""
        run_pipeline(module, context, [parse_pass(spec, PASSES) for spec in passes])
        machine = Machine(checks=checks if checks is not None else Checks())
        device = cls(plan_of(graphs(module)[0]), machine)
        for op in module.body.operations:
            if op.operation.name == "gpu.binary":
                loaded = machine.load(ptx_of(op.operation), name="kernels")
                device.kernels = {launch.kernel: loaded.kernel(launch.kernel) for launch in device.launches()}
        return device

    def launches(self) -> list[Any]:
        steps = (step.how for step in self.plan.steps)
        return [launch for how in steps if isinstance(how, Launches) for launch in how.kernels]

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """The results of the graph, each value in memory of its own, filled with NaN before."""
        plan, machine = self.plan, self.machine
        addresses: dict[int, int] = {}
        for number, slot in enumerate(plan.slots):
            if not isinstance(slot.home, View | Fixed):
                addresses[number] = self._new(slot.type, f"slot {number}")
            elif isinstance(slot.home, Fixed):
                array = plan.constants[slot.home.place]
                addresses[number] = self._put(array, slot.type.dtype, f"constant {slot.home.place}")
        for number, array in enumerate(inputs):
            machine.write(addresses[number], encoded(array, plan.slots[number].type.dtype))
        for number, slot in enumerate(plan.slots):
            if isinstance(slot.home, View):
                addresses[number] = addresses[slot.home.of]
        faults = machine.allocate(16, name="faults")
        machine.write(faults, np.zeros(4, np.int32))
        for step in plan.steps:
            if isinstance(step.how, Launches):
                self._step(step, addresses, faults)
        found = np.frombuffer(bytes(machine.read(faults, 16)), np.int32)
        assert not found[0], f"index {found[1]} outside range({found[2]})"
        types = [plan.slots[number].type for number in plan.results]
        return [self._get(addresses[number], type) for number, type in zip(plan.results, types, strict=True)]

    def _step(self, step: Any, addresses: dict[int, int], faults: int) -> None:
        offsets = temporary_offsets(step.how.temporaries)
        space = self.machine.allocate(max(offsets[-1], 1), name="workspace")
        if step.how.over >= 0:
            given, made = addresses[step.ins[step.how.over]], addresses[step.outs[0]]
            type = self.plan.slots[step.outs[0]].type
            self.machine.write(made, self.machine.read(given, type.size * device_itemsize(type)))
        known = [addresses[number] for number in (*step.ins, *step.outs)]
        known += [space + offset for offset in offsets[:-1]]
        for launch in step.how.kernels:
            args = tuple([faults if a == FAULTS else known[a] for a in launch.args])
            self.machine.launch(
                self.kernels[launch.kernel], grid=launch.grid, block=launch.block, args=args, shared=launch.shared
            )
        self.machine.free(space)

    def _new(self, type: TensorType, name: str) -> int:
        return self.machine.allocate(max(type.size * device_itemsize(type), 1), name=name)

    def _put(self, array: Array, dtype: DType, name: str) -> int:
        data = encoded(array, dtype)
        address: int = self.machine.allocate(max(data.nbytes, 1), name=name)
        if data.nbytes:
            self.machine.write(address, data)
        return address

    def _get(self, address: int, type: TensorType) -> Array:
        size = type.size * device_itemsize(type)
        data = bytes(self.machine.read(address, size)) if size else b""
        return decoded(data, type)


def encoded(array: Array, dtype: DType) -> Array:
    """An array of the interpreter as the device's memory has it."""
    if dtype == "bf16":
        return (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(array)


def decoded(data: bytes, type: TensorType) -> Array:
    if type.dtype == "bf16":
        halves = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
        return halves.view(np.float32).reshape(type.shape)
    return np.frombuffer(data, numpy_dtype(type.dtype)).reshape(type.shape)
