"""A loop over an axis: the body's program run turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from sexpgpu.dialects.loops import Loop
from sexpgpu.dialects.opdef import Array, numpy_dtype
from sexpgpu.tensortype import TensorType

if TYPE_CHECKING:
    from sexpgpu.interp.program import Program


@frozen(eq=False)
class Iteration:
    """`iteration(*operands)` gives the results of a loop, in order, as arrays of their own; a single one alone."""

    loop: Loop
    body: Program
    results: tuple[TensorType, ...]
    turns: int

    def __call__(self, *operands: Array) -> Array | tuple[Array, ...]:
        count = self.loop.states
        states: Sequence[Array] = operands[:count]
        last = count + len(self.loop.items)
        # One turn reads a slice whose iterated axis comes first: a view, taken once.
        items = [np.moveaxis(x, axis, 0) for x, axis in zip(operands[count:last], self.loop.items, strict=True)]
        shared = operands[last:]
        outs = [np.empty(t.shape, numpy_dtype(t.dtype)) for t in self.results[count:]]
        rows = [np.moveaxis(out, axis, 0) for out, axis in zip(outs, self.loop.outs, strict=True)]
        order = range(self.turns)
        for turn in reversed(order) if self.loop.reverse else order:
            given = self.body([*states, *[item[turn] for item in items], *shared])
            states = given[:count]
            for row, value in zip(rows, given[count:], strict=True):
                row[turn] = value
        last_states = states if self.turns else [np.array(state) for state in states]
        results = (*last_states, *outs)
        return results[0] if len(results) == 1 else results

    def peak_bytes(self) -> int:
        """The most memory that one turn takes beside the loop's operands and results."""
        return self.body.peak_bytes()
