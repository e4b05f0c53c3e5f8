"""The random programs that kernels are tried on: numbered, so that one that fails can be named."""

from __future__ import annotations

import random
from typing import Any

from attrs import frozen

from sexpgpu.dialects.context import Context
from sexpgpu.tensortype import DType
from tests.passes.random_programs import NAMES, Draft, built, drafted

COUNT = 200
SPELLED = 0.4
"""The share of composites that are written as the operations they are made of."""
DTYPES: tuple[DType, ...] = ("f64", "f64", "f32")
"""Of every three programs two are of f64, whose bounds are tight."""


@frozen(eq=False)
class Member:
    """A program of the corpus, before any pass."""

    number: int
    draft: Draft
    region: tuple[int, int]

    @classmethod
    def of(cls, number: int) -> Member:
        rng = random.Random(number)
        steps = [(rng.choice(NAMES), rng.randrange(2**20)) for _ in range(rng.randint(4, 12))]
        region = (rng.randrange(8), rng.randrange(6))
        return cls(number, drafted(DTYPES[number % len(DTYPES)], steps, SPELLED), region)

    def module(self, context: Context) -> Any:
        """The module of its loss, some of its operations marked to be computed again."""
        return built(context, self.draft, self.region)
