"""What the loop's own kernels of a step move on a GPU: sums of gradients, their norm, looks for what is not finite.

None of it is part of the least: what makes a gradient could add it up, square it and look at it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from sexpgpu.driver.stacking import gradient_bytes
from sexpgpu.driver.traffic import Chip, Traffic, copied
from sexpgpu.experiment import Experiment
from sexpgpu.passes.gpu.lookup import Lookup
from sexpgpu.plan.allocation import device_bytes
from sexpgpu.tensortype import TensorType

_SUM = 16
"""Bytes of the place of a sum of squares."""
_TABLE = Lookup((0, 1), 0)
"""What a kernel of many tensors has of each: the tensor, and where what it makes of that goes."""


def loop_traffic(
    experiment: Experiment, chip: Chip, calls: int, together: frozenset[str], squares: Mapping[str, TensorType]
) -> Iterator[Traffic]:
    """Of a step with so many calls of the train graph; the updates `together` look themselves whether what they make
    is finite, `squares` are what comes of gradients' squares with these. Clipping is not counted: only the updates that
    are not together scale gradients by kernels of their own.
    """
    graphs = experiment.graphs
    if (sizes := gradient_bytes(experiment)) and experiment.run.microbatches > 1:
        launches = -(-len(sizes) // _TABLE.capacity)
        yield copied("loop", 3 * sum(sizes), chip).launched(launches).times(calls - 1)  # sum after sum
        yield copied("loop", 2 * sum(sizes), chip).launched(launches)  # the mean
    gradients = [o for o in graphs[experiment.train_graph].outputs if o.role == "grad"]
    yield from _folded([squares.get(gradient.name, gradient.type) for gradient in gradients], chip)
    if gradients:  # the norm of all from those sums, and what clipping by it multiplies by
        clipping = experiment.run.clip_norm is not None
        yield copied("loop", len(gradients) * _SUM, chip).launched(1 + clipping)
    made = [
        output.type
        for update in experiment.updates
        if update.graph not in together
        for output in graphs[update.graph].outputs
        if output.role in ("param", "state") and output.type.is_float
        for _ in update.params
    ]
    yield from _folded(made, chip)


def _folded(types: Iterable[TensorType], chip: Chip) -> Iterator[Traffic]:
    """Many tensors folded to a number each: two kernels for as many of a dtype as their tables hold."""
    every = list(types)
    for dtype, number in Counter(type.dtype for type in every).items():
        read = sum(device_bytes(type) for type in every if type.dtype == dtype)
        yield copied("loop", read, chip).launched(2 * -(-number // _TABLE.capacity))
