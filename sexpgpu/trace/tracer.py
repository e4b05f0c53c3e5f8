"""The module of one compilation, into which its graphs are traced, and what all of these share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from mlir import ir

from sexpgpu.diag import Span
from sexpgpu.dialects.context import Context
from sexpgpu.experiment import RunConfig
from sexpgpu.lang.active import spend_steps
from sexpgpu.tensortype import DType

OPERATION_WORK: Final = 100
"""Steps that an operation takes, so that a loop over tensors ends as any other."""
COUNTED: Final = 16
"""Operations whose work is counted at once."""


class Tracer:
    """The module that graphs are traced into, and the facts of the run that all of them share.

    `sizes` says which knobs hold a size: errors about shapes name them.
    """

    def __init__(self, context: Context, run: RunConfig, sizes: Mapping[int, str]) -> None:
        self.context = context
        self.sizes = sizes
        self.module = ir.Module.create(loc=context.location(None))
        policy = ir.StringAttr.get(run.precision, context=context.mlir)
        self.module.operation.attributes["sx.precision"] = policy
        self.float_type: DType = "f64" if run.precision == "f64" else "f32"
        self.seed = run.seed
        self.steps = run.steps
        self.microbatches = run.microbatches
        self._symbols: Counter[str] = Counter()
        self._checkpoints = 0
        self._uncounted = 0
        self.locations: dict[tuple[Span | None, Span | None, str], ir.Location] = {}

    def next_checkpoint(self) -> int:
        """A number for the next region that the backward pass computes again."""
        self._checkpoints += 1
        return self._checkpoints

    def spend(self) -> None:
        """Take the steps of an operation."""
        self._uncounted += 1
        if self._uncounted == COUNTED:
            self._uncounted = 0
            spend_steps(COUNTED * OPERATION_WORK)

    def symbol(self, name: str) -> str:
        """A function symbol for a graph's name that no other function of the module has."""
        plain = re.sub(r"[^A-Za-z0-9_.$-]+", "_", name)
        self._symbols[plain] += 1
        return plain if self._symbols[plain] == 1 else f"{plain}_{self._symbols[plain]}"
