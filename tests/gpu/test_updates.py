"""Updates of many parameters in one launch give, bit for bit, what kernels of one parameter give."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen

from bench.gpu.assemble import CHIPS, Assembling, lowered
from sexpgpu.data.arrays import NUMPY_DTYPE
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.opdef import Array
from sexpgpu.driver.arithmetic import Arithmetic, arithmetic_module, wanted_by
from sexpgpu.driver.compile import compile_in, finish
from sexpgpu.driver.kernels import kernels_of
from sexpgpu.driver.pipeline import EVERY, whole
from sexpgpu.experiment import Experiment, Graph
from sexpgpu.gpu.arrays import DeviceArrays
from sexpgpu.gpu.memory import DeviceArray
from sexpgpu.gpu.program import DeviceProgram
from sexpgpu.gpu.transfer import upload
from sexpgpu.gpu.updates import DeviceUpdates
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.passes import to_gpu
from sexpgpu.passes.gpu.multi_tensor import THREADS
from sexpgpu.passes.gpu.plans import device_plans_of
from sexpgpu.plan.records import SCALE, DevicePlans, GraphPlan, Launch, Launches
from sexpgpu.plan.together import Updating, together, updating
from sexpgpu.runtime.arrays import HostArrays
from sexpgpu.runtime.run import RunOptions, run
from sexpgpu.sim.machine import Kernel, Machine
from tests.gpu.devices import Simulated
from tests.gpu.kernels import require_nvjitlink
from tests.gpu.stacked import prepared
from tests.gpu.test_engine import both, tensors, trained
from tests.smoke import ROOT, link_data
from tests.trace.experiments import write

FORMS = {
    "sgd": "(sgd :lr 0.1)",
    "heavy": "(sgd :lr 0.1 :momentum 0.9 :dampening 0.3 :weight-decay 0.05)",
    "nesterov": "(sgd :lr (lambda (s) (* 0.1 (expt 0.9 s))) :momentum 0.9 :nesterov t)",
    "adam": "(adam :lr 0.05 :weight-decay 0.1)",
    "adamw": "(adamw :lr (cosine-schedule 0.05 :warmup 2))",
    "rmsprop": "(rmsprop :lr 0.02 :alpha 0.9 :momentum 0.8 :centered t)",
    "adagrad": "(adagrad :lr 0.1 :lr-decay 0.05 :initial 0.5)",
    "adadelta": "(adadelta)",
    "lion": "(lion :lr 0.02 :weight-decay 0.3)",
    "free": "(schedule-free-adamw :lr (lambda (s) (* 0.05 (min 1.0 (/ (+ s 1) 5)))))",
    "ema": "(ema 0.7 (adam :lr 0.05) :every 3)",
}
"""Optimizers that update elements by themselves."""
FOLDS = {"muon": "(muon)", "adafactor": "(adafactor)", "lamb": "(lamb :lr 0.02)"}
"""Those that fold the elements of a parameter."""
PART = """(defmodel part ()
  (defparam w (437 3) :init (normal 1.0)) (defparam v (1024) :init (normal 1.0)) (defparam s () :init (normal 1.0))
  (forward () (+ (+ (mean (square w)) (mean (square v))) (square s))))
(defmodel matrix () (defparam w (7 3) :init (normal 1.0)) (forward () (mean (square w))))"""


@frozen(eq=False)
class Compiled:
    experiment: Experiment
    plans: DevicePlans

    @property
    def updating(self) -> Updating:
        return updating(self.experiment, self.plans.plans)


def compiled(file: Path, selection: Selection | None = None) -> Compiled:
    with open_context() as context:
        done = run_deep(lambda: compile_in(context, file, selection or Selection(), pipeline=None))
        finish(done, whole("cuda", "sm_80"))
        assert not done.diagnostics.errors, done.diagnostics.errors
        assert done.experiment is not None
        return Compiled(done.experiment, device_plans_of(done.module))


def one_by_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> Compiled:
    """The experiment with kernels that take one parameter."""
    with monkeypatch.context() as patched:
        patched.setattr(to_gpu, "members_of", lambda call: None)
        return compiled(file)


def zoo(folder: Path, run: str) -> Path:
    """An experiment with an optimizer of every kind, each for parameters of its own."""
    subs = "".join(f"(defsub {name} ({'part' if name in FORMS else 'matrix'}))" for name in (*FORMS, *FOLDS))
    terms = " ".join(f"({name})" for name in (*FORMS, *FOLDS))
    model = f"{PART}\n(defmodel net () (defsub out (linear 3 2)) {subs} (forward (x) (+ (out x) (+ {terms}))))"
    groups = " ".join(f'(group "model.{name}.*" {form})' for name, form in (FORMS | FOLDS).items())
    return write(folder, model=model, optimizer=f"(def optimizer (optimizer-groups (sgd :lr 0.1) {groups}))", run=run)


def looped(device: Simulated, experiment: Experiment) -> DeviceArrays:
    """The loop's arithmetic on a device, for a run that clips."""
    wanted = wanted_by(evolve(experiment, run=evolve(experiment.run, clip_norm=1.0)))
    with open_context() as context:
        plans = kernels_of(arithmetic_module(context, wanted), context, "cuda", EVERY)
    functions = device.functions(plans)
    return DeviceArrays(
        device.pool, Arithmetic(wanted, plans, lambda plan: DeviceProgram(plan, functions, device.arena))
    )


def inputs_of(spec: Graph, rng: np.random.Generator) -> list[Array]:
    """What an update is given at step 3: numbers of either sign, squares where a state may be a mean of them."""
    found: list[Array] = []
    for slot in spec.inputs:
        if slot.role == "ctx":
            found.append(np.array(3, np.int32))
            continue
        array = rng.normal(size=slot.type.shape).astype(NUMPY_DTYPE[slot.type.dtype])
        found.append(np.square(array) if slot.role == "state" else array)
    return found


def placed(device: Simulated, spec: Graph, arrays: Sequence[Array]) -> list[DeviceArray]:
    return [upload(device.pool, array, slot.type) for slot, array in zip(spec.inputs, arrays, strict=True)]


def test_every_optimizer_of_the_library_is_tried() -> None:
    named = re.findall(r"^\(defoptimizer (\S+)", (ROOT / "sexpgpu/library/optim.sx").read_text("utf-8"), re.MULTILINE)
    tried = " ".join([*FORMS.values(), *FOLDS.values()])
    assert [name for name in named if f"({name}" not in tried] == []


@pytest.mark.parametrize("precision", ["f32", "bf16", "f64"])
def test_parameters_together_are_the_parameters_one_by_one(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = zoo(tmp_path, f"(defrun :steps 9 :precision :{precision} :seed 1)")
    many, single = compiled(file), one_by_one(file, monkeypatch)
    assert single.updating.together is None
    found = many.updating
    assert found.together is not None
    groups = {update.group for update in many.experiment.updates if update.graph in found.graphs}
    assert len(groups) == 1 + len(FORMS)
    clip = (float(np.float32(2.7)), 0.3 if precision == "f32" else 3.0)
    calls = [u.graph for u in many.experiment.updates if u.graph in found.graphs for _ in u.params]
    symbols = [many.experiment.graphs[graph].symbol for graph in calls]
    rng = np.random.default_rng(5)
    given = [inputs_of(single.plans.plans[symbol].spec, rng) for symbol in symbols]

    device = Simulated()
    alone = device.functions(single.plans)
    wanted = []
    for symbol, arrays in zip(symbols, given, strict=True):
        plan = single.plans.plans[symbol]
        clipped = [np.copy(array) for array in arrays]
        gradients = {
            str(n): x for n, (s, x) in enumerate(zip(plan.spec.inputs, clipped, strict=True)) if s.role == "grad"
        }
        HostArrays().clip(gradients, *clip)
        clipped = [gradients.get(str(n), array) for n, array in enumerate(clipped)]
        results = DeviceProgram(plan, alone, device.arena)(placed(device, plan.spec, clipped))
        wanted.append([result.numpy() for result in results])

    device = Simulated()
    program = DeviceProgram(found.together.plan, device.functions(many.plans), device.arena)
    loop = looped(device, many.experiment)
    updates = DeviceUpdates(found.graphs, found.together, program, loop)
    held = [placed(device, many.plans.plans[s].spec, each) for s, each in zip(symbols, given, strict=True)]
    made = updates(held, (loop.place({"norm": np.array(clip[0])}, {})["norm"], clip[1]))
    for graph, results, want, inputs in zip(calls, made, wanted, held, strict=True):
        spec = many.experiment.graphs[graph].offered
        for output, result, expected in zip(spec.outputs, results, want, strict=True):
            assert result.numpy().tobytes() == expected.tobytes(), f"{graph}: {output.role} {output.name}"
        (gradient,) = [a for slot, a in zip(spec.inputs, inputs, strict=True) if slot.role == "grad"]
        (parameter,) = [a for slot, a in zip(spec.outputs, results, strict=True) if slot.role == "param"]
        assert parameter.address == gradient.address
    for number, (symbol, inputs) in enumerate(zip(symbols, held, strict=True)):
        for slot, array, before in zip(many.plans.plans[symbol].spec.inputs, inputs, given[number], strict=True):
            if slot.role in ("param", "state"):
                assert array.numpy().tobytes() == before.tobytes(), "what was updated stays, so that it can be refused"


def test_no_kernel_of_an_optimizer_spills(tmp_path: Path) -> None:
    """By nvJitLink, where it is installed, for every chip: as many blocks fit as hide the latency of memory."""
    require_nvjitlink()
    to = Assembling()
    with open_context() as context:
        file = zoo(tmp_path, "(defrun :steps 9 :seed 1)")
        done = run_deep(lambda: compile_in(context, file, Selection(), pipeline=None))
        for chip, plans in lowered(done.module, context, CHIPS):
            to.add("zoo", chip, plans)
    assert to.refused == []
    each = [kernel for kernel in to.kernels if kernel.family == "update" and kernel.block == THREADS]
    assert len(each) >= len(CHIPS) * len(FORMS)
    assert [kernel.named for kernel in each if kernel.spilled or kernel.local] == []
    assert max(kernel.registers for kernel in each) <= 128


SMALL = "(defmodel net () (defsub out (linear 3 2)) (forward (x) (out x)))"


def test_more_parameters_than_one_table_holds(tmp_path: Path) -> None:
    """Tables of a launch are filled one after another; blocks find their tensors at the ends of each."""
    many = compiled(write(tmp_path, model=SMALL, optimizer="(def optimizer (adamw :lr 0.1))"))
    plans = [many.plans.plans[many.experiment.graphs[u.graph].symbol] for u in many.experiment.updates]
    (capacity,) = {k.table.capacity for p in plans for k in _kernels(p) if k.table is not None}
    several = [plans[number % 2] for number in range(2 * capacity + 3)]
    found = together(several, "updates")
    tables = [k.table for k in _kernels(found.plan) if k.table is not None]
    assert [len(table.rows) for table in tables] == [capacity, capacity, 3]
    rng = np.random.default_rng(7)
    given = [inputs_of(plan.spec, rng) for plan in several]
    device = Simulated()
    functions = device.functions(many.plans)
    program = DeviceProgram(found.plan, functions, device.arena)
    made = DeviceUpdates(frozenset(), found, program, looped(device, many.experiment))(
        [placed(device, p.spec, a) for p, a in zip(several, given, strict=True)]
    )
    alone = [DeviceProgram(plan, functions, device.arena) for plan in plans]
    for number, (plan, arrays, results) in enumerate(zip(several, given, made, strict=True)):
        for result, want in zip(results, alone[number % 2](placed(device, plan.spec, arrays)), strict=True):
            assert result.numpy().tobytes() == want.numpy().tobytes()


def test_one_element_that_is_not_finite_is_told_once(tmp_path: Path) -> None:
    """Wherever it is: in vectors, in the elements behind them, in a tensor of one element, in all of them."""
    model = """(defmodel net () (defparam w (1027) :init (normal 1.0)) (defparam s () :init (normal 1.0))
      (defsub out (linear 3 2)) (forward (x) (+ (out x) (* s (mean w)))))"""
    optimizer = "(def optimizer (schedule-free-adamw :lr 0.1))"
    many = compiled(write(tmp_path, model=model, optimizer=optimizer))
    found = many.updating
    assert found.together is not None
    plans = [many.plans.plans[many.experiment.graphs[u.graph].symbol] for u in many.experiment.updates]
    given = [inputs_of(plan.spec, np.random.default_rng(7)) for plan in plans]
    sizes = [u.params for u in many.experiment.updates]
    assert all(len(params) == 1 for params in sizes)
    device = Simulated()
    program = DeviceProgram(found.together.plan, device.functions(many.plans), device.arena)
    updates = DeviceUpdates(found.graphs, found.together, program, looped(device, many.experiment))

    def spoilt(number: int | None = None, element: int | slice = 0, role: str = "grad") -> bool:
        arrays = [[array.copy() for array in each] for each in given]
        for slot, array in zip(plans[number or 0].spec.inputs, arrays[number or 0], strict=True):
            if number is not None and slot.role == role:
                array.reshape(-1)[element] = np.inf
        updates([placed(device, plan.spec, each) for plan, each in zip(plans, arrays, strict=True)])
        assert updates.spoilt() != (number is None)
        return updates.spoilt()

    assert not spoilt()
    for number, plan in enumerate(plans):
        size = next(slot.type.size for slot in plan.spec.inputs if slot.role == "grad")
        for element in dict.fromkeys((0, size // 2, size - 1)):
            assert not spoilt(number, element)
    assert not spoilt(0, slice(None))
    assert not spoilt(0, 0, "state")


def test_a_spoilt_update_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """On the device as on the CPU: the parameter that an update wrote over its gradient is let go."""
    optimizer = "(def optimizer (adam :lr (lambda (step) (/ 0.1 (- step 1)))))"  # infinite in the second step

    def after(steps: int, device: str) -> dict[str, Array]:
        folder = tmp_path / f"{device}-{steps}"
        folder.mkdir()
        run = f"(defrun :steps {steps} :microbatches 2 :seed 1)"
        return tensors(trained(write(folder, optimizer=optimizer, run=run), device)[1])

    one, two, three, cpu = after(1, "sim"), after(2, "sim"), after(3, "sim"), after(3, "cpu")
    assert one.keys() == two.keys()
    assert all(np.array_equal(two[key], array) for key, array in one.items())
    assert any(not np.array_equal(three[key], array) for key, array in two.items())
    assert all(np.allclose(three[key], array, rtol=1e-5, atol=1e-5) for key, array in cpu.items())


def test_updates_alone_and_together_are_clipped_alike(tmp_path: Path) -> None:
    optimizer = '(def optimizer (optimizer-groups (adam :lr 0.05) (group "*.weight" (lamb :lr 0.02))))'
    both(write(tmp_path, optimizer=optimizer, run="(defrun :steps 3 :clip-norm 0.05 :seed 1)"))


ZEROED = """(defoptimizer zeroed (&key (lr 0.1)) "a state that each step sets to the same"
  (defstate m :like param)
  (optimizer-update (param grad ctx) (set-state m (zeros (shape param))) (- param (* lr grad))))"""


@pytest.mark.parametrize("form", ["(zeroed :lr 0.5)", "(zeroed :lr (linear-schedule 0.5 :warmup 2))"])
def test_an_update_that_gives_a_constant_runs_with_the_others(form: str, tmp_path: Path) -> None:
    """The zeros of a state are written by the kernels that write the parameters, which are clipped once."""
    optimizer = f'{ZEROED}\n(def optimizer (optimizer-groups (sgd :lr 0.5) (group "*.weight" {form})))'
    file = write(tmp_path, optimizer=optimizer, run="(defrun :steps 3 :clip-norm 0.05 :seed 1)")
    many = compiled(file)
    assert len(many.updating.graphs) == 2
    both(file)


KEPT = ZEROED.replace("(zeros (shape param))", "m").replace("zeroed", "kept")
"""As it, with a state that stays what it is, which a copy gives that is no part of the update's group."""


def test_no_graph_that_runs_alone_has_kernels_that_clip(tmp_path: Path) -> None:
    """Graphs of equal groups do not share kernels where one runs together with others and one does not."""
    model = """(defmodel net () (defparam w (3 2) :init (normal 1.0)) (defparam v (3 2) :init (normal 1.0))
      (forward (x) (+ (matmul x w) (matmul x v))))"""
    optimizer = f'{KEPT}\n(def optimizer (optimizer-groups (kept :lr 0.5) (group "*.w" (sgd :lr 0.5))))'
    file = write(tmp_path, model=model, optimizer=optimizer, run="(defrun :steps 3 :clip-norm 0.05 :seed 1)")
    many = compiled(file)
    assert len(many.updating.graphs) == 1
    for update in many.experiment.updates:
        plan = many.plans.plans[many.experiment.graphs[update.graph].symbol]
        kernels = [k for step in plan.steps if isinstance(step.how, Launches) for k in step.how.kernels]
        assert any(SCALE in k.args for k in kernels) == (update.graph in many.updating.graphs)
    both(file)


def test_constant_states_of_one_element_keep_their_shapes(tmp_path: Path) -> None:
    """Constants [1] and [] are the same bytes, and the kernels beside them are the same."""
    model = """(defmodel net () (defparam w (3 2) :init (normal 1.0)) (defparam v (1) :init (normal 1.0))
      (defparam s () :init (normal 1.0)) (forward (x) (* (+ (matmul x w) v) s)))"""
    many = compiled(write(tmp_path, model=model, optimizer=f"{ZEROED}\n(def optimizer (zeroed))"))
    found = many.updating
    assert found.together is not None
    calls = [u.graph for u in many.experiment.updates if u.graph in found.graphs for _ in u.params]
    assert len(calls) == 3
    for graph, places in zip(calls, found.together.results, strict=True):
        types = [found.together.plan.spec.outputs[place].type for place in places]
        assert types == [output.type for output in many.experiment.graphs[graph].offered.outputs]


def test_a_step_of_a_model_launches_a_kernel_for_many_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GPT of two layers with 28 parameters in two groups, of which each is what is common, and one table."""
    launched: Counter[str] = Counter()
    launch = Machine.launch

    def counted(self: Machine, kernel: Kernel, *rest: Any, **named: Any) -> Any:
        launched[kernel.name.partition("_")[0]] += 1
        return launch(self, kernel, *rest, **named)

    monkeypatch.setattr(Machine, "launch", counted)
    link_data(tmp_path)
    file = tmp_path / "gpt2.sx"
    file.write_text((ROOT / "examples" / "gpt2.sx").read_text("utf-8"), "utf-8")
    selection = Selection("smoke", ("width=12", "seq=5", "vocab=70"))

    def work() -> None:
        with prepared(file, selection) as (done, _, team):
            assert done.experiment is not None
            assert sum(len(u.params) for u in done.experiment.updates) == 28
            options = RunOptions(out=tmp_path / "run", steps=2, quiet=True, stream=io.StringIO())
            assert run(team.calls[0].engine, options, team=team).error is None

    run_deep(work)
    assert launched["update"] == 2 * 2 * 2


def _kernels(plan: GraphPlan) -> Sequence[Launch]:
    (step,) = plan.steps
    assert isinstance(step.how, Launches)
    return step.how.kernels
