"""The updates of a step: every update graph on every parameter that it serves."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field, frozen

from sexpgpu.experiment import Experiment, InputRole, OutputRole
from sexpgpu.runtime.calls import Call, Calls, Tensors, state_name
from sexpgpu.runtime.engine import Array, Clip, Tensor, Updater

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

    def inputs(self, path: str, tensors: Tensors, gradient: Tensor, context: Mapping[str, Tensor]) -> list[Tensor]:
        """What the graph reads to update one parameter."""
        found = []
        for role, name in self.slots:
            match role:
                case "param":
                    found.append(tensors.params[path])
                case "grad":
                    found.append(gradient)
                case "state":
                    found.append(tensors.states[f"{path}/{name}"])
                case _:
                    found.append(context[name])
        return found


@frozen
class Updated:
    """What the update graphs gave: parameters by path, states by `path/state`, the series that they report.

    `finite` says of those parameters and states whose kernels do not look themselves whether they are.
    """

    params: dict[str, Tensor] = field(factory=dict)
    states: dict[str, Tensor] = field(factory=dict)
    reported: dict[str, Tensor] = field(factory=dict)
    finite: dict[str, Tensor] = field(factory=dict)


@define
class Updates:
    """The update graphs of an experiment on one rank."""

    experiment: Experiment
    calls: Calls
    _updater: Updater | None = field(init=False)
    _together: list[_Update] = field(factory=list, init=False)
    _alone: list[_Update] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._updater = self.calls.engine.updater()
        together = self._updater.graphs if self._updater is not None else frozenset()
        for u in self.experiment.updates:
            update = _Update.of(self.calls.get(u.graph), u.params, u.group)
            (self._together if u.graph in together else self._alone).append(update)

    def run(
        self, tensors: Tensors, gradients: dict[str, Tensor], scalars: dict[str, Array], clip: Clip | None = None
    ) -> Updated:
        """Runs every update graph on every parameter it serves; changes nothing but `gradients`, which it spends.

        Graphs that have no kernels for many parameters go first, since the memory of their gradients is free then.
        """
        arrays = self.calls.arrays
        context = arrays.place(scalars, {})
        if clip is not None:
            alone = {path: gradients.pop(path) for update in self._alone for path in update.params}
            arrays.clip(alone, *clip)
            gradients |= alone
            del alone
        found: dict[str, tuple[_Update, list[Tensor]]] = {}
        for update in self._alone:
            outputs = update.call.executable.spec.outputs
            for path in update.params:
                gradient = gradients.pop(path)
                inputs = update.inputs(path, tensors, gradient, context)
                found[path] = update, update.call.executable(inputs, arrays.take(outputs, _UPDATED))
                del inputs
                arrays.give(gradient)
        if self._updater is not None:
            every = [(path, update) for update in self._together for path in update.params]
            given = [update.inputs(path, tensors, gradients.pop(path), context) for path, update in every]
            for (path, update), results in zip(every, self._updater(given, clip), strict=True):
                found[path] = update, results
        updated = self._named(found)
        looked = {path for update in self._together for path in update.params}
        made = (updated.params | updated.states).items()
        unknown = {name: array for name, array in made if name.partition("/")[0] not in looked}
        updated.finite.update(arrays.finite(unknown))
        return updated

    def _named(self, found: Mapping[str, tuple[_Update, list[Tensor]]]) -> Updated:
        """What each parameter's update gave, in the order of the experiment's updates."""
        several = len(self.experiment.groups) > 1
        updated = Updated()
        for path in [path for u in self.experiment.updates for path in u.params]:
            update, results = found[path]
            for output, result in zip(update.call.executable.spec.outputs, results, strict=True):
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

    def first_not_finite(self, updated: Updated) -> str | None:
        """The name of the first new parameter or state that holds a NaN or an infinity."""
        if self._updater is not None and self._updater.spoilt():
            return self.calls.arrays.first_not_finite(updated.params | updated.states)
        host = self.calls.arrays.host
        return next((name for name, finite in updated.finite.items() if not host(finite)), None)

    def drop(self) -> None:
        """What was made last is not kept, whatever it was."""
        if self._updater is not None:
            self._updater.spoilt()

    def commit(self, tensors: Tensors, updated: Updated) -> None:
        """Put what the updates gave in the place of what it was made from, whose memory serves the next step."""
        for held, fresh in ((tensors.params, updated.params), (tensors.states, updated.states)):
            for name, array in fresh.items():
                self.calls.arrays.give(held[name])
                held[name] = array
