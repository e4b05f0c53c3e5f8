"""What the loop asks of a device: to run the graphs of an experiment, one call at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from sexpgpu.diag import Span
from sexpgpu.experiment import Experiment, Graph

Array = NDArray[Any]
Tensor = Any
"""An array of the engine's own kind, on its device; `runtime.arrays` says what may be done with one."""
Clip = tuple[Tensor, float]
"""The norm of all gradients, f64[], and what it is to be at most."""


class Executable(Protocol):
    """One graph, ready to run. Inputs and results are in the order of `spec`.

    Inputs are the engine's tensors or host arrays. The caller keeps them; the results are tensors that the caller may
    change.
    """

    @property
    def spec(self) -> Graph: ...
    def __call__(self, inputs: Sequence[Tensor], into: Sequence[Tensor | None] = ()) -> list[Tensor]:
        """Run the graph; the results lie in `into` where that has an array, which overlaps no input."""
        ...

    def origin_not_finite(self, inputs: Sequence[Tensor]) -> tuple[str, Span | None] | None:
        """What first is not finite in a call with these inputs, in words, and its place; None when nothing is."""
        ...


class Updater(Protocol):
    """Update graphs that run for all of their parameters in one call."""

    @property
    def graphs(self) -> frozenset[str]:
        """The update graphs that it runs; others are called for each parameter."""
        ...

    def __call__(self, calls: Sequence[Sequence[Tensor]], clip: Clip | None) -> list[list[Tensor]]:
        """The results for each parameter of each of these graphs, in the order of the experiment's updates.

        A parameter's inputs are those of its graph, of which the gradient belongs to the callee: results may lie there.
        What is updated by is the gradient clipped.
        """
        ...

    def spoilt(self) -> bool:
        """Whether a parameter or state of the last call is not finite; asked once."""
        ...


class Engine(Protocol):
    """A device holding one experiment. `device` is its name in words, for the record of the run."""

    @property
    def experiment(self) -> Experiment: ...
    @property
    def device(self) -> str: ...

    def executable(self, graph: str, rows: int | None = None) -> Executable:
        """The graph of that name; with `rows` other than its own, traced again for a batch of so many
        records.
        """
        ...

    def updater(self) -> Updater | None:
        """What runs updates of many parameters in one call; None where each is a call."""
        ...

    def index_fields(self, graph: str, span: Span) -> tuple[str, ...]:
        """The fields of the graph's batch whose numbers the form at `span` takes as indices."""
        ...
