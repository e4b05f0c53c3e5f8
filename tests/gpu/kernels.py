"""Compiling a function to kernels and running them on the simulator, for comparison with what its operations mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from attrs import define, field

from sexpgpu.dialects.context import Context
from sexpgpu.dialects.opdef import Array, numpy_dtype
from sexpgpu.gpu.sim import encoded as encoded_map
from sexpgpu.passes import PASSES
from sexpgpu.passes.base import graphs, parse_pass, run_pipeline
from sexpgpu.passes.gpu.modules import ptx_of
from sexpgpu.passes.gpu.task import device_itemsize
from sexpgpu.passes.planned import plan_of
from sexpgpu.plan.build import askew_bytes, temporary_offsets
from sexpgpu.plan.records import FAULTS, SCALE, Fixed, GraphPlan, Launch, Launches, Step, Turns, View
from sexpgpu.sim import Checks, Machine
from sexpgpu.tensortype import DType, TensorType


def require_nvjitlink() -> None:
    """Skip a test where nvJitLink, which assembles kernels without a GPU, is not installed."""
    pathfinder = pytest.importorskip("cuda.pathfinder")
    try:
        pathfinder.load_nvidia_dynamic_lib("nvJitLink")
    except pathfinder.DynamicLibNotFoundError:
        pytest.skip("nvJitLink is not installed")


FUSED = ("sx-fuse=target=cuda", "sx-to-gpu", "sx-to-nvvm", "sx-to-ptx")
ALONE = FUSED[1:]
"""Each operation a kernel of its own."""


@define(eq=False)
class Device:
    """A simulated device with the kernels of a compiled module."""

    plan: GraphPlan
    machine: Machine
    kernels: dict[str, Any] = field(factory=dict)
    _faults: int = field(default=0, init=False)
    _scale: int = field(default=0, init=False)

    @classmethod
    def of(cls, context: Context, module: Any, passes: Sequence[str] = FUSED, checks: Checks | None = None) -> Device:
        """Compile a module of one graph, in place."""
        run_pipeline(module, context, [parse_pass(spec, PASSES) for spec in passes])
        texts = [ptx_of(op.operation) for op in module.body.operations if op.operation.name == "gpu.binary"]
        return cls.over(plan_of(graphs(module)[0]), texts, checks)

    @classmethod
    def over(cls, plan: GraphPlan, texts: Sequence[str], checks: Checks | None = None) -> Device:
        """A device with the kernels that a plan launches, from texts of PTX."""
        machine = Machine(checks=checks if checks is not None else Checks())
        device = cls(plan, machine)
        named = {launch.kernel for launch in device.launches()}
        for text in texts:
            loaded = machine.load(text, name="kernels")
            device.kernels |= {name: loaded.kernel(name) for name in loaded.entries if name in named}
        return device

    def launches(self) -> list[Launch]:
        """Those of the graph and of the bodies of its loops."""
        return launches_of(self.plan)

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """The results of the graph, each value in memory of its own, which nobody has written before."""
        plan, machine = self.plan, self.machine
        self._faults = machine.allocate(16, name="faults")
        machine.write(self._faults, np.zeros(4, np.int32))
        self._scale = machine.allocate(16, name="scale")
        machine.write(self._scale, np.ones(1, np.float64).tobytes() + np.ones(2, np.float32).tobytes())
        types = [slot.type for slot in plan.slots]
        given = [self._put(x, types[number].dtype, f"slot {number}") for number, x in enumerate(inputs)]
        results = self._graph(plan, given)
        found = np.frombuffer(bytes(machine.read(self._faults, 16)), np.int32)
        assert not found[0], f"index {found[1]} outside range({found[2]})"
        return [self._get(address, types[number]) for number, address in zip(plan.results, results, strict=True)]

    def _graph(self, plan: GraphPlan, given: Sequence[int]) -> list[int]:
        """Where the results of a graph lie, whose arguments lie at `given`."""
        addresses = dict(enumerate(given))
        for number, slot in enumerate(plan.slots):
            if isinstance(slot.home, Fixed):
                array = plan.constants[slot.home.place]
                addresses[number] = self._put(array, slot.type.dtype, f"constant {slot.home.place}")
            elif isinstance(slot.home, View):
                addresses[number] = addresses[slot.home.of]
            elif number not in addresses:
                addresses[number] = self._new(slot.type, f"slot {number}")
        for step in plan.steps:
            if isinstance(step.how, Launches):
                self._step(plan, step, step.how, addresses)
            elif isinstance(step.how, Turns):
                self._loop(plan, step, step.how, addresses)
        return [addresses[number] for number in plan.results]

    def _step(self, plan: GraphPlan, step: Step, how: Launches, addresses: dict[int, int]) -> None:
        offsets = temporary_offsets(how.temporaries)
        space = self.machine.allocate(max(offsets[-1], 1), name="workspace")
        if how.over >= 0:
            self._copy(addresses[step.outs[0]], addresses[step.ins[how.over]], plan.slots[step.outs[0]].type)
        known = [addresses[number] for number in (*step.ins, *step.outs)]
        known += [space + offset for offset in offsets[:-1]]
        for launch in how.kernels:
            marks = {FAULTS: self._faults, SCALE: self._scale}
            args: list[int | bytes] = [known[a] if a >= 0 else marks[a] for a in launch.args]
            if launch.table is not None:
                args.append(np.array(launch.table.words(known, int), np.uint64).tobytes())
            args += [encoded_map(map, known[map.argument]) for map in launch.maps]
            if min(launch.grid) > 0:
                self.machine.launch(
                    self.kernels[launch.kernel], grid=launch.grid, block=launch.block, args=args, shared=launch.shared
                )
        self.machine.free(space)

    def _loop(self, plan: GraphPlan, step: Step, turns: Turns, addresses: dict[int, int]) -> None:
        """Every turn of a loop, whose items and rows lie one behind another."""
        (body,) = step.bodies
        count, last = turns.states, turns.states + len(turns.items)
        given = [addresses[number] for number in step.ins]
        outs = [addresses[number] for number in step.outs]
        types = [body.slots[number].type for number in body.results]
        sizes = [_nbytes(plan.slots[number].type) // max(turns.count, 1) for number in step.ins[count:last]]
        states = given[:count]
        for number in range(turns.count):
            turn = turns.count - 1 - number if turns.reverse else number
            items = [
                self._row(address + turn * size, body.slots[count + place].type)
                for place, (address, size) in enumerate(zip(given[count:last], sizes, strict=True))
            ]
            made = self._graph(body, [*states, *items, *given[last:]])
            states = made[:count]
            for row, out, type in zip(made[count:], outs[count:], types[count:], strict=True):
                self._copy(out + turn * _nbytes(type), row, type)
        for out, state, type in zip(outs, states, types, strict=False):
            self._copy(out, state, type)

    def _row(self, address: int, type: TensorType) -> int:
        """A row of a loop's items, in memory of its own where it lies askew."""
        if not askew_bytes(type):
            return address
        copied = self._new(type, "a row")
        self._copy(copied, address, type)
        return copied

    def _copy(self, target: int, source: int, type: TensorType) -> None:
        if _nbytes(type):
            self.machine.write(target, self.machine.read(source, _nbytes(type)))

    def _new(self, type: TensorType, name: str) -> int:
        return self.machine.allocate(max(_nbytes(type), 1), name=name)

    def _put(self, array: Array, dtype: DType, name: str) -> int:
        data = encoded(array, dtype)
        address: int = self.machine.allocate(max(data.nbytes, 1), name=name)
        if data.nbytes:
            self.machine.write(address, data)
        return address

    def _get(self, address: int, type: TensorType) -> Array:
        size = _nbytes(type)
        data = bytes(self.machine.read(address, size)) if size else b""
        return decoded(data, type)


def launches_of(plan: GraphPlan) -> list[Launch]:
    found: list[Launch] = []
    for step in plan.steps:
        found += step.how.kernels if isinstance(step.how, Launches) else ()
        found += [launch for body in step.bodies if isinstance(step.how, Turns) for launch in launches_of(body)]
    return found


def _nbytes(type: TensorType) -> int:
    return type.size * device_itemsize(type)


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
