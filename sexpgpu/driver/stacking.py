"""How many microbatches a call of the train graph runs on a GPU: which degrees there are, which fit, which is chosen.

Chosen are, in this order: the only degree that fits; the one that is predicted to be fastest; where predictions are
within 5 percent, the one that an earlier run of the same graph measured to be fastest on the same device; the one that
the first step measures to be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from attrs import evolve, field, frozen
from mlir import ir

from sexpgpu.driver.degrees import degrees_of
from sexpgpu.driver.traffic import Chip, copied, total, traffic_of
from sexpgpu.experiment import Experiment
from sexpgpu.passes.base import graphs
from sexpgpu.plan.allocation import device_bytes
from sexpgpu.plan.records import DevicePlans, GraphPlan, Launches, Stacked
from sexpgpu.runtime.stacking import MEASURED, milliseconds

NEAR = 0.05
"""What predictions differ by at least where they are believed."""
CALL = 2e-5
"""Seconds between a call of a graph and the next: the host finds the arrays, and the device starts a captured graph."""


@frozen
class Chosen:
    """Degrees that a run may use: one, or several to be measured. `why` are the words of the lowering report.

    `predicted` are the seconds of a step by each degree that fits, `generating` of them those of its generators, and
    `key` names what is measured of the rest.
    """

    degrees: tuple[int, ...]
    why: str
    predicted: Mapping[int, float] = field(factory=dict)
    generating: float = 0.0
    key: str = ""

    @property
    def likely(self) -> int:
        """The degree, as predicted where it is to be measured."""
        return min(self.degrees, key=lambda degree: (self.predicted.get(degree, 0.0), degree))


@frozen
class Choosing:
    """What decides beside the plans: the ranks that share the microbatches, what fits, whether the device has a clock,
    and what was measured on it, by degree, for just these degrees.
    """

    ranks: int
    fits: Callable[[int], bool]
    timed: bool
    measured: Callable[[Collection[int]], Mapping[int, float] | None]


def choose(experiment: Experiment, plans: DevicePlans, by: Choosing) -> Chosen:
    """The degree of a run, or those that its first step is to measure."""
    run = experiment.run
    share = run.microbatches // by.ranks
    each = " on each device" if by.ranks > 1 else ""
    if share < 2:  # less than one is refused elsewhere
        return Chosen((1,), f"1: a step has one microbatch{each}")
    if run.deterministic:
        return Chosen((1,), "1: the run is deterministic")
    known = {way.degree: way for way in plans.stacked}
    degrees = degrees_of(run, share)
    if len(degrees) == 1:
        return Chosen((1,), f"1: {share} microbatches{each} have no divisor that is tried")
    degrees = tuple([degree for degree in degrees if degree in known])
    if len(degrees) < 2:
        return Chosen((1,), "1: the pass stack was skipped")
    fitting = [degree for degree in degrees if by.fits(degree)]
    if len(fitting) < 2:
        only = fitting[0] if fitting else 1  # what does not fit either way is refused elsewhere
        return Chosen((only,), f"{only}: the only one of {_listed(degrees)} that fits")
    predicted = {degree: predict(plans, known[degree], share) for degree in fitting}
    best = min(fitting, key=lambda degree: (predicted[degree], degree))
    near = [degree for degree in fitting if predicted[degree] <= predicted[best] * (1 + NEAR)]
    if len(near) == 1 or not by.timed:
        return Chosen((best,), f"{best}: predicted ({_seconds(predicted)})", predicted)
    measured = by.measured(near)
    if measured is None:
        return Chosen(tuple(near), MEASURED, predicted)
    fastest = min(near, key=lambda degree: (measured[degree], degree))
    return Chosen((fastest,), f"{fastest}: measured by an earlier run ({_seconds(measured)})", predicted)


def predict(plans: DevicePlans, way: Stacked, share: int) -> float:
    """Seconds of the calls that run `share` microbatches of a step, and of the step's generators."""
    calls = share // way.degree
    return calls * (way.seconds + CALL) + (calls - 1) * plans.folding + plans.generating


def _listed(degrees: Iterable[int]) -> str:
    *most, last = map(str, degrees)
    return f"{', '.join(most)} and {last}"


def _seconds(by_degree: Mapping[int, float]) -> str:
    """`4 128.9 ms, 2 131.5 ms, 1 133.6 ms`."""
    return ", ".join(f"{degree} {milliseconds(by_degree[degree])}" for degree in sorted(by_degree, reverse=True))


def with_predictions(experiment: Experiment, plans: DevicePlans, module: Any, chip: Chip) -> DevicePlans:
    """Plans of graphs for which a device may choose, with what a model says of each; others as they are."""
    symbols = {ir.StringAttr(func.attributes["sym_name"]).value: func for func in graphs(module)}
    train = experiment.graphs[experiment.train_graph].symbol
    ways = [plan.spec for plan in plans.plans.values() if plan.spec.stacked > 1]
    if not ways:
        return plans

    def seconds(symbol: str) -> float:
        return total(traffic_of(symbols[symbol], chip)).seconds

    stacked = [Stacked(1, train, seconds(train))]
    stacked += [Stacked(spec.stacked, spec.symbol, seconds(spec.symbol)) for spec in ways]
    folding = copied("loop", 3 * sum(gradient_bytes(experiment)), chip)  # one launch, or few
    generating = 0.0
    for generator in experiment.generators:
        if generator.at == "step":
            calls = {generator.init: 1, generator.trip: generator.trips, generator.emit: 1}
            each = [(seconds(experiment.graphs[name].symbol) + CALL) * count for name, count in calls.items()]
            generating += math.fsum(each) / generator.every
    return evolve(plans, stacked=tuple(stacked), folding=folding.seconds, generating=generating)


def gradient_bytes(experiment: Experiment) -> list[int]:
    """Bytes of the gradient of each trained parameter."""
    types = {p.path: p.type for p in experiment.parameters}
    return [device_bytes(types[path]) for update in experiment.updates for path in update.params]


def drop(plans: DevicePlans, module: Any, degrees: Collection[int]) -> None:
    """Take graphs of some degrees, and the kernels that only they launch, out of a module before these become PTX."""
    symbols = {way.symbol for way in plans.stacked if way.degree in degrees}
    used = {name for symbol, plan in plans.plans.items() if symbol not in symbols for name in _kernels(plan)}
    unused = {name for symbol in symbols for name in _kernels(plans.plans[symbol])} - used
    for op in [op.operation for op in module.body.operations]:
        if op.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value in symbols:
            op.erase()
        elif op.name == "gpu.module":
            for kernel in [each.operation for each in op.regions[0].blocks[0].operations]:
                if "sym_name" in kernel.attributes and ir.StringAttr(kernel.attributes["sym_name"]).value in unused:
                    kernel.erase()


def _kernels(plan: GraphPlan) -> set[str]:
    """The kernels that a graph launches."""
    found = {name for step in plan.steps for body in step.bodies for name in _kernels(body)}
    for step in plan.steps:
        if isinstance(step.how, Launches):
            found |= {launch.kernel for launch in step.how.kernels}
    return found


def graph_of(experiment: Experiment, degree: int) -> str:
    """The graph that runs so many microbatches a call."""
    stacked = {graph.stacked: name for name, graph in experiment.graphs.items() if graph.stacked > 1}
    return stacked.get(degree, experiment.train_graph)
