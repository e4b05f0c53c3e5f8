"""The parameters as evaluation, generators and export see them: through an optimizer's view, where it has one."""

from __future__ import annotations

from attrs import define, field

from sexpgpu.experiment import Experiment
from sexpgpu.runtime.calls import Calls, Contexts, Tensors, state_name
from sexpgpu.runtime.engine import Tensor
from sexpgpu.runtime.plan import Plan


@define
class Views:
    """Computed when first asked for after a step, and kept for whoever asks again, until the next step forgets them."""

    experiment: Experiment
    calls: Calls
    plan: Plan
    contexts: Contexts
    _seen: dict[str, Tensor] | None = field(default=None, init=False)

    def parameters(self, step: int, tensors: Tensors) -> dict[str, Tensor]:
        """All parameters by path after `step` steps; those without a view are the trained arrays themselves."""
        if self._seen is None:
            self._seen = dict(tensors.params)
            scalars = self.contexts.make(
                step=step,
                steps=self.plan.steps,
                epoch=self.plan.epochs_before(step),
                progress=step / self.plan.steps,
                stage=0,
            )
            placed = self.calls.arrays.place(scalars, {}) if self.experiment.views else {}
            for path, graph in self.experiment.views.items():
                self._seen[path] = self._one(path, graph, tensors, placed)
        return self._seen

    def forget(self) -> None:
        """The parameters or states have changed."""
        self._seen = None

    def _one(self, path: str, graph: str, tensors: Tensors, scalars: dict[str, Tensor]) -> Tensor:
        call = self.calls.get(graph)
        inputs = []
        for slot in call.executable.spec.inputs:
            match slot.role:
                case "param":
                    inputs.append(tensors.params[path])
                case "state":
                    inputs.append(tensors.states[f"{path}/{state_name(slot)}"])
                case _:
                    inputs.append(scalars[slot.name])
        (seen,) = call.executable(inputs)
        return seen
