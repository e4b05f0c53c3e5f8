"""Every graph of every example by its kernels, at small and ragged sizes, beside the CPU's plan on the same inputs.

A run of one step on the CPU, its evaluations and generators included, says what each graph is given first. The graph
is then compiled for a device and run on the simulator with every check on and warps in a random order, each value in
memory of its own. Batches are cut to a few records, an odd number of them.
"""

from __future__ import annotations

import gc
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from attrs import define, evolve, field, frozen

from sexpgpu.diag import Span, SxError
from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.opdef import Array
from sexpgpu.driver.compile import Compilation, compile_in
from sexpgpu.driver.engine import CpuEngine
from sexpgpu.driver.kernels import prepare_kernels
from sexpgpu.driver.pipeline import whole
from sexpgpu.driver.planning import prepare
from sexpgpu.driver.retrace import traced_again
from sexpgpu.driver.stacking import Chosen
from sexpgpu.experiment import Experiment, Graph, Output
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.passes.gpu.plans import device_plans_of
from sexpgpu.plan.records import DevicePlans
from sexpgpu.runtime.engine import Executable
from sexpgpu.runtime.run import RunOptions, run
from sexpgpu.sim import Checks
from tests.gpu.kernels import Device
from tests.smoke import ROOT, link_data, with_run

RAGGED: dict[str, tuple[str, ...]] = {
    "char-lstm": ("width=13", "seq=5", "batch=7"),
    "ddpm": ("batch=3", "levels=7"),
    "digits": ("hidden=9", "batch=37"),
    "gpt2": ("width=36", "seq=21", "vocab=70"),
    "llama": ("width=20", "heads=2", "kv-heads=1", "seq=13", "batch=5"),
    "min-gru": ("width=12", "inner=10", "seq=11", "batch=3"),
    "mnist-bn": ("width=5", "batch=3"),
    "mnist-conv": ("width=3", "hidden=9", "batch=5"),
    "mnist": ("hidden=9", "batch=33"),
    "moe-gpt": ("width=20", "seq=11", "batch=3"),
    "moons": ("width=5",),
    "names": ("width=10",),
    "shakespeare": ("width=36", "seq=13", "batch=5"),
    "vae": ("hidden=9", "code=3", "batch=13"),
    "vit-digits": ("width=12", "heads=3", "batch=7"),
    "wgan-gp": ("hidden=9", "code=3", "batch=11"),
}
NARROW = ("shakespeare", "llama", "moe-gpt", "vit-digits", "mnist-conv")
"""Examples that are also tried in bf16: their products go to tensor cores."""
CASES = [(name, "") for name in RAGGED] + [(name, "bf16") for name in NARROW]
ROWS = 27
"""Records of a batch, where an example has more; some samples are of the first 25."""
BOUNDS = {"f64": 1e-11, "f32": 1e-5, "bf16": 2.0**-6}
"""Of a difference, relative to the largest number of the tensor."""
NOISE = 1e-2
"""How much of the largest number of all results of a role counts as a tensor's own: what is 0 but for rounding."""


@frozen(eq=False)
class Given:
    """What a graph was given first."""

    graph: str
    inputs: list[Array]


@define(eq=False)
class Recording:
    """An engine that keeps the first inputs of each graph, and computes each graph of an evaluation once."""

    inner: CpuEngine
    kept: dict[str, Given] = field(factory=dict)
    device: str = "cpu"

    @property
    def experiment(self) -> Experiment:
        return self.inner.experiment

    def executable(self, graph: str, rows: int | None = None) -> Executable:
        evaluations = {e.name for e in self.experiment.evaluations}
        return _Recorded(self, graph, self.inner.executable(graph, rows), graph in evaluations)

    def index_fields(self, graph: str, span: Span) -> tuple[str, ...]:
        return self.inner.index_fields(graph, span)

    def updater(self) -> None:
        """Each update is a call, which is recorded."""


@define(eq=False)
class _Recorded:
    to: Recording
    graph: str
    inner: Executable
    once: bool
    made: list[Array] | None = None

    @property
    def spec(self) -> Graph:
        return self.inner.spec

    def __call__(self, inputs: Sequence[Array], into: Sequence[Array | None] = ()) -> list[Array]:
        if self.graph not in self.to.kept:
            self.to.kept[self.graph] = Given(self.graph, [np.array(x) for x in inputs])
        if not self.once:
            return self.inner(inputs, into)
        if self.made is None:
            self.made = self.inner(inputs)
        return [array.copy() for array in self.made]

    def origin_not_finite(self, inputs: Sequence[Array]) -> tuple[str, Span | None] | None:
        return self.inner.origin_not_finite(inputs)


@frozen(eq=False)
class Pair:
    """A graph with its inputs, what the CPU makes of them, and the kernels that make the same."""

    name: str
    inputs: list[Array]
    wanted: list[Array]
    outputs: tuple[Output, ...]
    kernels: DevicePlans
    symbol: str

    def device(self, checks: Checks) -> Device:
        return Device.over(self.kernels.plans[self.symbol], [m.text for m in self.kernels.modules], checks)

    def found(self, checks: Checks) -> list[Array]:
        """What the kernels make of the inputs. Narrow parameters are given, and found to be, the rounded ones, and
        sums of gradients' squares what these are.
        """
        spec = self.kernels.plans[self.symbol].spec
        offered = spec.offered
        params = {slot.name: x for slot, x in zip(offered.inputs, self.inputs, strict=True) if slot.role == "param"}
        narrow = [round_bf16(params[slot.name]) for slot in spec.inputs[len(self.inputs) :]]
        results = self.device(checks)([*self.inputs, *narrow])
        made = results[len(offered.outputs) :]
        fresh = {(slot.role, slot.name): x for slot, x in zip(offered.outputs, results, strict=False)}
        for slot, array in zip(spec.outputs[len(offered.outputs) :], made, strict=True):
            if slot.role == "squares":
                wanted = np.square(fresh["grad", slot.name].astype(np.float64)).sum()
                assert array.sum() == pytest.approx(wanted, rel=1e-6)
            else:
                assert np.array_equal(array, round_bf16(fresh["param", slot.name]))
        return results[: len(offered.outputs)]


def compiled(file: Path, sets: tuple[str, ...]) -> Iterator[Compilation]:
    with open_context() as context:
        done = run_deep(lambda: compile_in(context, file, Selection("smoke", sets), pipeline=None))
        yield done


def pairs(file: Path, sets: tuple[str, ...]) -> Iterator[Pair]:
    """Every graph that takes something, on a CPU and for a device; one step of training runs for it."""
    for cpu, gpu in zip(compiled(file, sets), compiled(file, sets), strict=True):
        prepare(cpu)
        plans = prepare_kernels(gpu, "sm_80", lambda plans, identity: Chosen((1,), "1"))
        assert not cpu.diagnostics.errors, cpu.diagnostics.errors
        assert plans is not None
        engine = Recording(CpuEngine(cpu))
        options = RunOptions(out=Path(mkdtemp(dir=file.parent)) / "run", steps=1, quiet=True, stream=io.StringIO())
        assert run(engine, options).code == 0
        for given in engine.kept.values():
            spec = cpu.experiment.graphs[given.graph] if cpu.experiment else None
            if spec is None or not spec.inputs:
                continue
            rows = spec.rows if spec.rows is None else min(spec.rows, ROWS)
            made = plans if rows == spec.rows else _resized(gpu, given.graph, rows)
            program = engine.inner.executable(given.graph, rows)
            cut = [
                array[tuple(map(slice, slot.type.shape))]
                for array, slot in zip(given.inputs, program.spec.inputs, strict=True)
            ]
            inputs = [np.array(array, order="C") for array in cut]
            yield Pair(given.graph, inputs, program(inputs), program.spec.outputs, made, spec.symbol)


def _resized(done: Compilation, graph: str, rows: int | None) -> DevicePlans:
    assert rows is not None
    return device_plans_of(traced_again(done, graph, rows, whole("cuda", "sm_80")))


def differences(pair: Pair, found: Sequence[Array]) -> Iterator[tuple[str, float]]:
    """For each result its largest difference from the CPU's, relative to the largest number of the tensor."""
    largest: dict[str, float] = {}
    for output, want in zip(pair.outputs, pair.wanted, strict=True):
        largest[output.role] = max(largest.get(output.role, 0.0), magnitude(want))
    for output, got, want in zip(pair.outputs, found, pair.wanted, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.dtype.kind != "f":
            yield f"{output.role} {output.name}", 0.0 if np.array_equal(got, want) else np.inf
            continue
        with np.errstate(all="ignore"):
            apart = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, np.abs(got - want))
        scale = max(magnitude(want), NOISE * largest[output.role], np.finfo(want.dtype).tiny)
        yield f"{output.role} {output.name}", float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0)) / scale


def magnitude(array: Array) -> float:
    return float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array))) if array.dtype.kind == "f" else 0.0


def worst_of(pair: Pair, seed: int = 3) -> tuple[float, str]:
    """Run a graph on the simulator with every check on: its worst difference, and of which result."""
    found = pair.found(Checks.every(race=seed))
    gc.collect()  # each device reserves addresses
    return max(((apart, name) for name, apart in differences(pair, found)), default=(0.0, ""))


def written(folder: Path, name: str, precision: str) -> Path:
    """An example beside its data, in a precision other than its own where one is named."""
    text = (ROOT / "examples" / f"{name}.sx").read_text("utf-8")
    file = folder / f"{name}.sx"
    file.write_text(with_run(text, precision=f":{precision}") if precision else text, "utf-8")
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("examples")
    link_data(made)
    return made


def test_every_example_has_its_sizes() -> None:
    assert sorted(RAGGED) == sorted(path.stem for path in (ROOT / "examples").glob("*.sx"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision"), CASES, ids=lambda part: part or "own")
def test_every_graph_gives_what_the_cpu_gives(folder: Path, name: str, precision: str) -> None:
    seen = set()
    for pair in pairs(written(folder, name, precision), RAGGED[name]):
        apart, where = worst_of(pair)
        bound = BOUNDS[precision or ("f64" if name in ("names", "moons") else "f32")]
        assert apart <= bound, f"{pair.name}: {where} is {apart:.2g} off"
        seen.add(pair.name.partition(" ")[0])
    assert {"train", "update"} <= seen


BARRIER = re.compile(r"\n\s*(bar\.sync|barrier\.sync)[^;]*;")


def test_a_barrier_that_is_lacking_is_found(folder: Path) -> None:
    """Without the first barrier of a kernel threads read what others have not written."""
    train = next(p for p in pairs(written(folder, "moons", ""), RAGGED["moons"]) if p.name == "train")
    assert worst_of(train)[0] <= BOUNDS["f64"]
    (module,) = train.kernels.modules
    launched = dict.fromkeys(launch.kernel for launch in train.device(Checks()).launches())
    broken = [text for name in launched if (text := without_barrier(module.text, name)) is not None]
    assert broken, "no kernel of the example has a barrier"
    for text in broken[:3]:
        planted = evolve(train, kernels=evolve(train.kernels, modules=(evolve(module, text=text),)))
        with pytest.raises(SxError, match="E-SIM"):
            worst_of(planted)


def without_barrier(text: str, name: str) -> str | None:
    """PTX without the first barrier of that kernel, if it has any."""
    start = text.index(f".visible .entry {name}(")
    end = text.find(".visible .entry", start + 1)
    body = text[start:] if end < 0 else text[start:end]
    return text.replace(body, BARRIER.sub("", body, count=1)) if BARRIER.search(body) is not None else None
