"""By how many microbatches a call a device may run the train graph, and how passes are told what a step asks of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mlir import ir

from sexpgpu.dialects.signature import SQUARES
from sexpgpu.experiment import RunConfig
from sexpgpu.passes.base import graphs
from sexpgpu.passes.stack import write_degrees
from sexpgpu.trace.assemble import TRAIN, Traced


def degrees_of(run: RunConfig, share: int) -> tuple[int, ...]:
    """The degrees by which a device may run `share` microbatches of a step: 1, 2 and 4 where they divide it, or 3.

    A higher one would save little more: what is shared is paid for once a call, while what is compiled grows.
    """
    if run.deterministic:
        return (1,)
    return tuple([d for d in (1, 2, 3, 4) if share % d == 0 and (d != 3 or share % 2)])


def ask_for_stacks(traced: Traced, module: Any, degrees: Collection[int] | None = None) -> None:
    """Tell the pass `stack` by which degrees a GPU may want the train graph of `module`: by all of them by default."""
    wanted = degrees_of(traced.run, traced.run.microbatches) if degrees is None else degrees
    own = [buffer.path for buffer in traced.buffers if buffer.per_microbatch]
    for func in _train_graphs(module):
        write_degrees(func, wanted, own)


def ask_for_squares(module: Any) -> None:
    """Tell the pass `to-gpu` that the gradients of the train graph are those of a step, which takes their norm."""
    for func in _train_graphs(module):
        func.attributes[SQUARES] = ir.UnitAttr.get(context=func.context)


def _train_graphs(module: Any) -> list[Any]:
    named = [func for func in graphs(module) if "sx.graph" in func.attributes]
    return [func for func in named if ir.StringAttr(func.attributes["sx.graph"]).value == TRAIN]
