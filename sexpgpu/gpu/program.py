"""A graph that a device runs: its plan bound to memory once, then called with arrays on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from sexpgpu.diag import Span
from sexpgpu.experiment import Graph, Input, InputRole, Output, OutputRole
from sexpgpu.gpu.bind import Bound, bind
from sexpgpu.gpu.driver import Function
from sexpgpu.gpu.faults import Site
from sexpgpu.gpu.memory import ALIGNMENT, Block, DeviceArray, Pool
from sexpgpu.gpu.transfer import copy_array, upload, upload_all
from sexpgpu.plan.build import VECTOR
from sexpgpu.plan.records import FAULTS, Fixed, GraphPlan, Step
from sexpgpu.tensortype import TensorType

Origin = tuple[str, Span | None]
Explain = Callable[[Sequence[NDArray[Any]]], Origin | None]
Narrowed = Callable[[DeviceArray, TensorType], DeviceArray]
"""Gives a parameter in the narrower type in which a graph reads it."""


@define(eq=False)
class DeviceArena:
    """The block of memory that all programs of a device share: one runs at a time, in the order of the stream."""

    pool: Pool
    _block: Block | None = field(default=None, init=False)

    def at_least(self, size: int) -> int:
        """Its address. What it held is lost when it grows."""
        if self._block is None or self._block.size < size:
            self._block = None  # the old block goes before the new one comes
            self._block = self.pool.block(max(size, ALIGNMENT))
        return self._block.address

    @property
    def size(self) -> int:
        return 0 if self._block is None else self._block.size


class DeviceProgram:
    """A callable graph: `program(arrays)` takes the inputs of `spec` in order and gives its outputs in order.

    Inputs are arrays on the device, or host arrays, which are uploaded. Results are new arrays on the device, or those
    of `into`. Where the same addresses come again the launches are captured and replayed as one.
    """

    def __init__(
        self,
        plan: GraphPlan,
        functions: Mapping[str, Function],
        arena: DeviceArena,
        explain: Explain | None = None,
        narrowed: Narrowed | None = None,
    ) -> None:
        """`explain` runs the same graph on the host, to find what first is not finite; `narrowed` makes what the graph
        reads of parameters beside them.
        """
        self.plan = plan
        self.spec: Graph = plan.spec.offered
        self._narrowed = narrowed
        self._explain = explain
        self._functions = functions
        self._arena = arena
        self._pool = arena.pool
        self._constants: dict[int, list[DeviceArray]] = {}
        self._bound: Bound | None = None
        self._base = -1

    def __call__(
        self, inputs: Sequence[DeviceArray | NDArray[Any]], into: Sequence[DeviceArray | None] = ()
    ) -> list[DeviceArray]:
        """Queue the graph. `NoMemory` where there is none for what it needs."""
        given = self._on_device(inputs)
        given += self._narrow(given)
        bound = self._ready()
        outputs = self.spec.outputs
        targets = list(into) if into else [None] * len(outputs)
        results = [
            self._pool.array(output.type) if target is None else target
            for output, target in zip(outputs, targets, strict=True)
        ]
        beside = self._give_beside(results, bound)
        self._pool.stream.call(bound, [array.address for array in (*given, *results, *beside)])
        self._pool.writes += 1
        return results

    def origin_not_finite(self, inputs: Sequence[DeviceArray | NDArray[Any]]) -> Origin | None:
        """What first is not finite in a call with these inputs, in words, and its place, as the host computes it."""
        return None if self._explain is None else self._explain([on_host(array) for array in inputs])

    @property
    def captured(self) -> int:
        """How much is launched as one that has calls of this program in it."""
        return 0 if self._bound is None else self._pool.stream.captures.count(self._bound)

    def _ready(self) -> Bound:
        size = self.plan.memory.arena if self.plan.memory is not None else 0
        base = self._arena.at_least(size)
        if self._bound is None or base != self._base:
            if self._bound is not None:
                self._pool.stream.captures.forget(self._bound)
            if not self._constants:
                self._upload_constants(self.plan)
            self._bound = bind(self.plan, self._pool.driver, self._functions, base, self._constants_of, self._mark)
            self._base = base
        return self._bound

    def _mark(self, mark: int, step: Step) -> int:
        if mark == FAULTS:
            return self._pool.faults.address(Site(self.spec.name, step.span))
        return self._pool.scales[0].address

    def _on_device(self, inputs: Sequence[DeviceArray | NDArray[Any]]) -> list[DeviceArray]:
        """The inputs where kernels can read them: host arrays uploaded, parts of arrays that lie askew copied."""
        slots = self.spec.inputs
        places = [number for number, array in enumerate(inputs) if not isinstance(array, DeviceArray)]
        host = [(np.asarray(inputs[number]), slots[number].type) for number in places]
        fresh = dict(zip(places, upload_all(self._pool, host), strict=True))
        given = []
        for number, array in enumerate(inputs):
            placed = array if isinstance(array, DeviceArray) else fresh[number]
            if placed.type != slots[number].type:
                raise ValueError(f"{placed.type} given for {slots[number].name}, which is {slots[number].type}")
            given.append(placed if placed.address % VECTOR == 0 else self._straight(placed))
        return given

    def _narrow(self, given: Sequence[DeviceArray]) -> list[DeviceArray]:
        """The narrow parameters that the graph reads, of those it is given."""
        wanted = self.plan.spec.inputs[len(given) :]
        if not wanted:
            return []
        assert self._narrowed is not None, "a graph that reads narrow parameters is given what makes them"
        params = _named(self.spec.inputs, given, "param")
        return [self._narrowed(params[slot.name], slot.type) for slot in wanted]

    def _give_beside(self, results: Sequence[DeviceArray], bound: Bound) -> list[DeviceArray]:
        """Memory for the narrow parameters that the graph gives, which go with the parameters, and for sums of squares,
        which go with the gradients unless a library makes these, which gives none.
        """
        for result in results:
            result.narrow = result.squares = None
        params, gradients = (_named(self.spec.outputs, results, role) for role in ("param", "grad"))
        made = []
        for place, slot in enumerate(self.plan.spec.outputs[len(results) :], len(results)):
            array = self._pool.array(slot.type)
            if slot.role == "narrow":
                params[slot.name].narrow = array
            elif place not in bound.lacking:
                gradients[slot.name].squares = array
            made.append(array)
        return made

    def _straight(self, array: DeviceArray) -> DeviceArray:
        copy = DeviceArray(array.type, self._pool.block(array.type.nbytes), 0)
        copy_array(self._pool, copy, array)
        return copy

    def _upload_constants(self, plan: GraphPlan) -> None:
        """Constants of the graph and of its bodies, each with one place along the axes on which it repeats."""
        types = {slot.home: slot.type for slot in plan.slots}
        placed = []
        for number, array in enumerate(plan.constants):
            dtype = types[Fixed(number)].dtype
            placed.append(upload(self._pool, array, TensorType(array.shape, dtype)))
        self._constants[id(plan)] = placed
        for step in plan.steps:
            for body in step.bodies:
                self._upload_constants(body)

    def _constants_of(self, plan: GraphPlan) -> Sequence[int]:
        return [array.address for array in self._constants[id(plan)]]


def _named(
    slots: Sequence[Input | Output], arrays: Sequence[DeviceArray], role: InputRole | OutputRole
) -> dict[str, DeviceArray]:
    """Those of one role, by name."""
    return {slot.name: array for slot, array in zip(slots, arrays, strict=True) if slot.role == role}


def on_host(array: DeviceArray | NDArray[Any]) -> NDArray[Any]:
    return array.numpy() if isinstance(array, DeviceArray) else np.asarray(array)
