"""Running a generator: its state from `:init` through the trips to what it emits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field

from sexpgpu.data.codec import Codec, codec_of
from sexpgpu.data.loader import OpenLoader
from sexpgpu.experiment import Experiment, Generator, InputRole
from sexpgpu.runtime.batches import during
from sexpgpu.runtime.calls import Calls, Contexts, Tensors
from sexpgpu.runtime.engine import Tensor
from sexpgpu.runtime.plan import Plan
from sexpgpu.runtime.samples import Sample, make_sample
from sexpgpu.runtime.views import Views


@define
class Generation:
    """The generators of an experiment, ready to run on the tensors of a moment. `prompt` is a text, or None."""

    experiment: Experiment
    calls: Calls
    contexts: Contexts
    plan: Plan
    views: Views
    loader: OpenLoader | None
    prompt: str | None = None
    stage: int = 0  # of the loader
    _codecs: dict[str, Codec | None] = field(factory=dict, init=False)

    def due(self, at: str, step: int) -> list[Generator]:
        """Those whose turn it is after `step` steps: `at` says whether passes have been evaluated or a step made."""
        return [g for g in self.experiment.generators if g.at == at and (at == "eval" or step % g.every == 0)]

    def run(
        self,
        generator: Generator,
        step: int,
        tensors: Tensors,
        stopped: Callable[[], bool],
        told: Callable[[int], None],
    ) -> list[Sample] | None:
        """What it emits; None if it was stopped on the way. `told` hears of each trip that is done."""
        with during(f"in generator {generator.name}, after step {step}", generator.span):
            params = self.views.parameters(step, tensors) if generator.weights == "view" else tensors.params
            kept = {b.path: tensors.buffers[b.path][0] for b in self.experiment.buffers if b.per_microbatch}
            codec = self.codec(generator)
            tables: dict[InputRole, Mapping[str, Tensor]] = {"param": params, "buffer": tensors.buffers | kept}
            if self.prompt is not None and codec is not None:
                tables["prompt"] = {"prompt": codec.encode(self.prompt)}
            rows = None  # of a batch that is shorter than others, for which the graphs are traced once more
            if generator.at == "step" and self.loader is not None:
                next_step = min(step, self.plan.steps - 1)
                numbers = self.loader.indices(self.plan.batches_of(next_step)[0])
                tables["field"] = self.loader.read(numbers, next_step)
                rows = len(numbers) if len(numbers) != self.experiment.train_loader.batch else None

            def call(graph: str, trip: int, state: dict[str, Tensor]) -> tuple[list[Tensor], dict[str, Tensor]]:
                made = self.calls.get(graph, rows)
                results = made({**tables, "carry": state, "ctx": self._scalars(step, trip)})
                return results, made.named(results, "carry")

            _, state = call(generator.init, 0, {})
            for trip in range(generator.trips):
                if stopped():
                    return None
                _, state = call(generator.trip, trip, state)
                told(trip + 1)
            emitted = self.calls.get(generator.emit, rows)
            results, _ = call(generator.emit, generator.trips, state)
            host = self.calls.arrays.host
            outputs = zip(emitted.executable.spec.outputs, results, strict=True)
            return [
                make_sample(o.name, o.form or "array", host(value), codec) for o, value in outputs if o.role == "sample"
            ]

    def codec(self, generator: Generator) -> Codec | None:
        """What the ids of its prompt and its texts mean."""
        if generator.name not in self._codecs:
            self._codecs[generator.name] = None if generator.text is None else codec_of(generator.text)
        return self._codecs[generator.name]

    def _scalars(self, step: int, trip: int) -> dict[str, Tensor]:
        return self.contexts.make(
            step=step,
            steps=self.plan.steps,
            epoch=self.plan.epochs_before(min(step, self.plan.steps)),
            progress=step / self.plan.steps,
            trip=trip,
            microbatch=0,
            stage=self.stage,
            share=1.0,
        )
