"""Stacking: how many microbatches one call of the train graph runs, and calls that run several."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import define, field, frozen

from sexpgpu.experiment import Graph
from sexpgpu.runtime.calls import Call, Calls, Tables
from sexpgpu.runtime.engine import Executable, Tensor
from sexpgpu.runtime.standing import LOOP

WARM, TIMED = 2, 3
"""Runs of a step's calls before they are timed, in which they are loaded and captured, and timed ones: the median
counts.
"""
MEASURED = "measured at the first step"
Clock = Callable[[Callable[[], object]], float]
"""Runs something and says how many seconds of the device that took."""


@frozen
class StackedCall:
    """A graph of several microbatches, whose parts are called and give results as `one`, the graph of one, does."""

    one: Call
    executable: Executable
    _orders: list[list[int | None]] = field(init=False)

    @_orders.default
    def _find_orders(self) -> list[list[int | None]]:
        spec = self.executable.spec
        places = {(output.role, output.name, output.part): place for place, output in enumerate(spec.outputs)}
        outputs = self.one.executable.spec.outputs
        return [[places.get((o.role, o.name, part)) for o in outputs] for part in range(spec.stacked)]

    @property
    def degree(self) -> int:
        return self.executable.spec.stacked

    def __call__(self, tables: Sequence[Tables], into: Sequence[Tensor | None] = ()) -> list[Tensor]:
        """Results in the order of the stacked graph's outputs; `tables` has those of each microbatch."""
        LOOP.began(f"graph {self.executable.spec.name}")
        slots = self.executable.spec.inputs
        return self.executable([tables[slot.part or 0][slot.role][slot.name] for slot in slots], into)

    def parts(self, results: Sequence[Tensor]) -> list[list[Tensor]]:
        """What each microbatch gave, in the order of the outputs of `one`: None in the place of what is summed."""
        return [[None if place is None else results[place] for place in order] for order in self._orders]

    def sums(self, results: Sequence[Tensor]) -> dict[str, Tensor]:
        """The sums of the microbatches' gradients, by path."""
        outputs = self.executable.spec.outputs
        return {o.name: value for o, value in zip(outputs, results, strict=True) if o.role == "grad"}


@define
class Stacking:
    """The degree of a run: how many microbatches a call runs.

    `graphs` are the stacked graphs by their degrees. `why` is what the lowering report says; without it nothing is
    said. With several `models`, seconds that a step's calls are predicted to take by degree, the first step measures
    them on the `clock`, and whoever keeps measurements is to `remember` them.
    """

    graphs: Mapping[int, str] = field(factory=dict)
    degree: int = 1
    why: str = ""
    models: Mapping[int, float] = field(factory=dict)
    clock: Clock | None = None
    remember: Callable[[Mapping[int, float]], None] = lambda measured: None
    measured: dict[int, float] = field(factory=dict, init=False)
    _told: bool = field(default=False, init=False)
    calls: dict[tuple[int, int], StackedCall] = field(factory=dict, init=False)  # by rank and degree, as needed

    @property
    def open(self) -> bool:
        """Whether the degree is still to be measured."""
        return self.clock is not None and not self.measured

    @property
    def known(self) -> int | None:
        """The degree, where a device chose it and it is no longer to be measured."""
        return self.degree if self.why and not self.open else None

    def go_on(self, degree: int | None) -> None:
        """Stay with what a checkpoint says was chosen, in the stead of measuring: the run goes on to the same bits."""
        if self.open and degree is not None and degree in self.models:
            self.degree, self.clock, self.why = degree, None, f"{degree}: as the run began"

    def call(self, calls: Calls, train: str, degree: int) -> StackedCall:
        """The call of `degree` microbatches on one rank, made when first needed."""
        key = (id(calls), degree)
        if key not in self.calls:
            self.calls[key] = StackedCall(calls.get(train), calls.get(self.graphs[degree]).executable)
        return self.calls[key]

    def measure(self, run: Callable[[int], object]) -> None:
        """Time the calls of a step by each degree, and stay with the fastest; `run` makes them and keeps nothing."""
        assert self.clock is not None
        for degree in sorted(self.models, reverse=True):
            times = [self.clock(partial(run, degree)) for _ in range(WARM + TIMED)]
            self.measured[degree] = statistics.median(times[WARM:])
        self.degree = min(self.measured, key=lambda degree: (self.measured[degree], degree))
        self.remember(self.measured)

    def facts(self) -> dict[str, Any]:
        """The data of the annotation: the degree, None until it is measured, and seconds by degree."""
        told: dict[str, Any] = {"degree": None if self.open else self.degree, "why": self.why}
        for name, seconds in (("predicted", self.models), ("measured", self.measured)):
            if seconds:
                told[name] = {str(degree): each for degree, each in seconds.items()}
        return told

    def row(self) -> str:
        """`  stacking   measured at the first step`, a row of the lowering report."""
        return f"  {'stacking':25} {self.why}"

    def news(self) -> str | None:
        """What is said once, when the degree was measured."""
        if self._told or not self.measured:
            return None
        self._told = True
        each = "; ".join(
            f"{degree} {milliseconds(seconds)}, model {milliseconds(self.models[degree])}"
            for degree, seconds in self.measured.items()
        )
        return f"stacking {self.degree}: {MEASURED}, the model within 5% could not separate them ({each})"


def milliseconds(seconds: float) -> str:
    """`130.2 ms`; more decimals of what is shorter than a millisecond."""
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e3:.3f} ms"


def is_whole(train: Graph, rows: Sequence[int], microbatches: int) -> bool:
    """Whether the microbatches of a step are as many as they are meant to be, each as long as the graph's batch.

    Others are weighed by their records, which stacked graphs do not do.
    """
    return len(rows) == microbatches and set(rows) == {train.rows}
