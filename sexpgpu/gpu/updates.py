"""The updates of all parameters as one call of a device: kernels of many tensors, each parameter over its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from sexpgpu.gpu.arrays import DeviceArrays
from sexpgpu.gpu.memory import DeviceArray
from sexpgpu.gpu.program import DeviceProgram
from sexpgpu.plan.build import VECTOR
from sexpgpu.plan.together import Together
from sexpgpu.runtime.engine import Clip


@frozen(eq=False)
class DeviceUpdates:
    """Update graphs that run `together`, by the program of that plan. All calls clip, or none does."""

    graphs: frozenset[str]
    together: Together
    program: DeviceProgram
    arrays: DeviceArrays

    def __call__(self, calls: Sequence[Sequence[Any]], clip: Clip | None = None) -> list[list[DeviceArray]]:
        """The results for each parameter. Its new value lies where its gradient was, of which every element is read
        before one made of it is written: what it was before stays, so that a step may be refused.
        """
        spec = self.program.spec
        inputs: list[Any] = [None] * len(spec.inputs)
        into: list[DeviceArray | None] = [None] * len(spec.outputs)
        for given, read, made in zip(calls, self.together.inputs, self.together.results, strict=True):
            for place, array in zip(read, given, strict=True):
                inputs[place] = array
            gradient = next(
                array for place, array in zip(read, given, strict=True) if spec.inputs[place].role == "grad"
            )
            for place in made:
                output = spec.outputs[place]
                if output.role == "param" and output.type == gradient.type and gradient.address % VECTOR == 0:
                    into[place] = gradient
        if clip is not None:
            self.arrays.factors(*clip, [*self.arrays.pool.scales, None])
        results = self.program(inputs, into)
        return [[results[place] for place in made] for made in self.together.results]

    def spoilt(self) -> bool:
        """Whether a parameter or state of the last call is not finite, as its kernels have seen."""
        return self.arrays.pool.faults.met_not_finite()
