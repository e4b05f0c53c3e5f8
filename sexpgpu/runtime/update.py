"""The updates of a step: every update graph on every parameter that it serves."""

from __future__ import annotations

from attrs import define, field, frozen

from sexpgpu.experiment import Experiment, InputRole, OutputRole
from sexpgpu.runtime.calls import Call, Calls, Tensors, state_name
from sexpgpu.runtime.engine import Array, Tensor

_UPDATED: frozenset[OutputRole] = frozenset({"param", "state"})


@frozen
class _Update:
    """One update graph with the places of its inputs and outputs; they are the same for each of its
    parameters.
    """

    call: Call
    params: tuple[str, ...]
    group: str
    slots: tuple[tuple[InputRole, str], ...]

    @classmethod
    def of(cls, call: Call, params: tuple[str, ...], group: str) -> _Update:
        inputs = call.executable.spec.inputs
        named = ((slot.role, state_name(slot) if slot.role == "state" else slot.name) for slot in inputs)
        return cls(call, params, group, tuple(named))


@frozen
class Updated:
    """What the update graphs gave: parameters by path, states by `path/state`, the series that they report."""

    params: dict[str, Tensor] = field(factory=dict)
    states: dict[str, Tensor] = field(factory=dict)
    reported: dict[str, Tensor] = field(factory=dict)


@define
class Updates:
    """The update graphs of an experiment on one rank."""

    experiment: Experiment
    calls: Calls
    _updates: list[_Update] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._updates = [_Update.of(self.calls.get(u.graph), u.params, u.group) for u in self.experiment.updates]

    def run(self, tensors: Tensors, gradients: dict[str, Tensor], scalars: dict[str, Array]) -> Updated:
        """Runs every update graph on every parameter it serves; changes nothing but `gradients`, which it spends."""
        arrays = self.calls.arrays
        context = arrays.place(scalars, {})
        several = len(self.experiment.groups) > 1
        updated = Updated()
        for update in self._updates:
            outputs = update.call.executable.spec.outputs
            for path in update.params:
                gradient = gradients.pop(path)
                inputs = []
                for role, name in update.slots:
                    match role:
                        case "param":
                            inputs.append(tensors.params[path])
                        case "grad":
                            inputs.append(gradient)
                        case "state":
                            inputs.append(tensors.states[f"{path}/{name}"])
                        case _:
                            inputs.append(context[name])
                results = update.call.executable(inputs, arrays.take(outputs, _UPDATED))
                arrays.give(gradient)
                for output, result in zip(outputs, results, strict=True):
                    match output.role:
                        case "param":
                            updated.params[path] = result
                        case "state":
                            updated.states[f"{path}/{output.name.rpartition('/')[2]}"] = result
                        case _:
                            series = f"optim/{output.name}"
                            series = f"{series}.{update.group}" if several else series
                            updated.reported.setdefault(series, result)
        return updated

    def commit(self, tensors: Tensors, updated: Updated) -> None:
        """Put what the updates gave in the place of what it was made from, whose memory serves the next step."""
        for held, fresh in ((tensors.params, updated.params), (tensors.states, updated.states)):
            for name, array in fresh.items():
                self.calls.arrays.give(held[name])
                held[name] = array
