"""Metrics and counters: collected from each call of a graph, reduced over a step or an evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field

from sexpgpu.data.arrays import NUMPY_DTYPE
from sexpgpu.experiment import Output
from sexpgpu.runtime.calls import Call, Calls
from sexpgpu.runtime.engine import Tensor
from sexpgpu.runtime.fold import exact_sum, weighted_mean


@define
class Collected:
    """What the calls of one step or evaluation reported so far, a value a call, under `prefix`."""

    prefix: str
    _outputs: dict[str, Output] = field(factory=dict, init=False)
    _values: dict[str, list[Tensor]] = field(factory=dict, init=False)
    _weights: dict[str, list[Tensor]] = field(factory=dict, init=False)
    _counted: dict[str, int] = field(factory=dict, init=False)
    _counts: dict[str, list[Tensor]] = field(factory=dict, init=False)

    def add(self, call: Call, results: Sequence[Tensor], rows: int) -> None:
        """Takes metrics, their weights and the counters from one call over `rows` records.

        Numbers are kept as the call gave them: to look at one would wait for the device.
        """
        spec = call.executable.spec
        weights = {name: results[i] for name, i in call.places.get("weight", ())}
        for name, i in call.places.get("metric", ()):
            self._outputs[name] = spec.outputs[i]
            self._values.setdefault(name, []).append(results[i])
            self._weights.setdefault(name, []).append(weights.get(name, float(rows)))
        for name, count in spec.counters:
            self._counted[name] = self._counted.get(name, 0) + count
        for name, i in call.places.get("counter", ()):
            self._counts.setdefault(name, []).append(results[i])

    def metrics(self, calls: Calls) -> dict[str, float]:
        """Every metric reduced and mapped, under its full name, in the order the graph reports them."""
        found = {}
        for name, output in self._outputs.items():
            values, weights = (list(map(float, kept[name])) for kept in (self._values, self._weights))
            value = reduced(output, values, weights)
            if output.then is not None:
                value = _mapped(calls.get(output.then), value)
            found[name if "/" in name else f"{self.prefix}/{name}"] = value
        return found

    @classmethod
    def joined(cls, several: Sequence[Collected]) -> Collected:
        """What several ranks collected of one step, in their order."""
        first = several[0]
        found = cls(first.prefix)
        for each in several:
            found._outputs |= each._outputs
            for mine, other in ((found._values, each._values), (found._weights, each._weights)):
                for name, values in other.items():
                    mine.setdefault(name, []).extend(values)
            for name, count in each._counted.items():
                found._counted[name] = found._counted.get(name, 0) + count
            for name, values in each._counts.items():
                found._counts.setdefault(name, []).extend(values)
        return found

    def told(self) -> dict[str, Any]:
        """All of it as plain numbers, for another machine."""
        return {
            "values": {name: list(map(float, values)) for name, values in self._values.items()},
            "weights": {name: list(map(float, values)) for name, values in self._weights.items()},
            "counted": self._counted,
            "counts": {name: list(map(int, values)) for name, values in self._counts.items()},
        }

    @classmethod
    def of(cls, several: Sequence[Mapping[str, Any]], prefix: str, outputs: Sequence[Output]) -> Collected:
        """What machines told, in their order, of the metrics among a graph's outputs."""
        by_name = {output.name: output for output in outputs if output.role == "metric"}
        found = []
        for told in several:
            each = cls(prefix)
            each._outputs |= {name: by_name[name] for name in told["values"]}
            each._values |= told["values"]
            each._weights |= told["weights"]
            each._counted |= told["counted"]
            each._counts |= told["counts"]
            found.append(each)
        return cls.joined(found)

    @property
    def counters(self) -> dict[str, int]:
        """Sums over the calls; those that graphs are known to count come first."""
        counts = dict(self._counted)
        for name, values in self._counts.items():
            counts[name] = counts.get(name, 0) + sum(map(int, values))
        return counts


def reduced(output: Output, values: Sequence[float], weights: Sequence[float]) -> float:
    """One number from a value a call, as the metric says; NaN wins a maximum."""
    match output.reduce:
        case "mean":
            return weighted_mean(values, weights)
        case "sum":
            return exact_sum(values)
        case "max":
            return math.nan if any(map(math.isnan, values)) else max(values)
        case "last":
            return values[-1]


def _mapped(call: Call, value: float) -> float:
    (slot,) = call.executable.spec.inputs
    (result,) = call.executable([np.array(value, NUMPY_DTYPE[slot.type.dtype])])
    return float(result)
