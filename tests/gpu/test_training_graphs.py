"""Random training graphs as a device gets them: rounded by a policy, one microbatch and two in a call, parameters that
are read narrow, gradients with sums of their squares. They give what the graph means before it is made for a device.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence

import numpy as np
import pytest
from attrs import frozen
from mlir import ir

from sexpgpu.dialects.bf16 import round_bf16
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.opdef import Array, numpy_dtype
from sexpgpu.dialects.signature import SQUARES, read_inputs, read_outputs
from sexpgpu.driver.pipeline import Passes, run_named, steps_of, whole
from sexpgpu.experiment import Input, Output
from sexpgpu.interp.reference import evaluate
from sexpgpu.passes.base import graphs
from sexpgpu.passes.gpu.plans import device_plans_of
from sexpgpu.passes.stack import write_degrees
from sexpgpu.plan.records import GraphPlan
from sexpgpu.sim import Checks
from sexpgpu.tensortype import DType
from tests.gpu.kernels import Device
from tests.passes.random_programs import NAMES, built, drafted, shaken
from tests.passes.test_random_programs import BOUNDS, COARSE, apart, magnitude

SHARED = "shared"
COUNT, SHORT = 400, 6
"""How many graphs there are, and how many every run of the tests tries."""
LAYERS = (
    *("matmul", "matmul", "matmul", "conv", "attention", "attention", "gather", "scatter_add", "take_along_axis"),
    *("layer_norm", "rms_norm", "softmax", "logsumexp", "cross_entropy", "gelu", "relu", "tanh", "scan", "scan"),
    *(
        "add",
        "mul",
        "where",
        "sum",
        "cumsum",
        "sort",
        "top_k",
        "transpose",
        "reshape",
        "slice",
        "concat",
        "pad",
        "flip",
    ),
)
"""What models are made of; three of four operations are drawn from here, the others from the whole table."""
POLICIES: tuple[tuple[DType, str], ...] = (("f32", "bf16"), ("f32", "bf16"), ("f32", "f32"), ("f64", "f32"))
"""The dtype that a graph is written in, and the policy that rounds it."""
COARSELY = {"f32": 1e-5, "f64": 1e-13}
"""What results may be off by whatever their size, by the graph's dtype."""


@frozen(eq=False)
class Wanted:
    """What a graph gives for the batch of each microbatch, and how far each result may be off."""

    inputs: Sequence[Input]
    outputs: Sequence[Output]
    batches: Sequence[Sequence[Array]]
    results: Sequence[Sequence[Array]]
    bounds: Sequence[Sequence[float]]

    def given(self, slot: Input) -> Array:
        """What a device is given at a place."""
        role = "param" if slot.role == "narrow" else slot.role
        place = next(i for i, own in enumerate(self.inputs) if (own.role, own.name) == (role, slot.name))
        array = self.batches[slot.part or 0][place]
        if slot.role != "narrow":
            return array
        return round_bf16(array.astype(np.float32)) if slot.type.dtype == "bf16" else array.astype(np.float32)

    def result(self, slot: Output, stacked: bool) -> tuple[Array, float]:
        """What is wanted at a place, and how far it may be off. Gradients are summed over microbatches."""
        place = next(i for i, own in enumerate(self.outputs) if (own.role, own.name) == (slot.role, slot.name))
        if slot.role == "grad" and stacked:
            first, second = (results[place] for results in self.results)
            return np.asarray(first + second), sum(bounds[place] for bounds in self.bounds)
        return self.results[slot.part or 0][place], self.bounds[slot.part or 0][place]


def check(number: int) -> bool:
    """Compiles a graph and compares what it gives; False where a few roundings decide what that is."""
    rng = random.Random(f"graph {number}")
    dtype, policy = rng.choice(POLICIES)
    table = [LAYERS if rng.random() < 0.75 else NAMES for _ in range(rng.randint(3, 14))]
    draft = drafted(dtype, [(rng.choice(names), rng.randrange(2**20)) for names in table], rng.choice((0.0, 0.4, 1.0)))
    region = rng.randrange(8), rng.randrange(6)
    chip = rng.choice(("sm_80", "sm_90a"))
    with open_context() as context:
        module = built(context, draft, region)
        module.operation.attributes["sx.precision"] = ir.StringAttr.get(policy, context.mlir)
        run_named(module, context, SHARED, Passes(part=None))
        (func,) = graphs(module)
        coarse = policy == "bf16" or any(value.coarse for value in draft.values)
        wanted = wanted_of(func, draft.inputs, dtype, coarse=coarse)
        if wanted is None:
            return False
        func.attributes["sx.graph"] = ir.StringAttr.get("train", context.mlir)
        write_degrees(func, (1, 2), ())
        if rng.random() < 0.5:
            func.attributes[SQUARES] = ir.UnitAttr.get(context=context.mlir)
        run_named(module, context, whole("cuda", chip), Passes(part=None), after=len(steps_of(SHARED)))
        made = device_plans_of(module)
    texts = [each.text for each in made.modules]
    for plan in made.plans.values():
        if not plan.spec.narrows:
            compare(plan, Device.over(plan, texts, Checks.every(race=number)), wanted)
    return True


def wanted_of(func: ir.Operation, inputs: Sequence[Array], dtype: DType, *, coarse: bool) -> Wanted | None:
    """What two microbatches are to give; None where a change of some roundings' size changes that too much."""
    slots, outputs = read_inputs(func), read_outputs(func)
    batches = [list(inputs), [_other(slot, array) for slot, array in zip(slots, inputs, strict=True)]]
    size = 2.0**-10 if coarse else 8 * float(np.finfo(numpy_dtype(dtype)).eps)
    noise = np.random.default_rng(1)
    results, bounds = [], []
    for batch in batches:
        with np.errstate(all="ignore"):
            found = [np.array(value) for value in evaluate(func, batch)]
            moved = [s.type.dtype != "bf16" for s in slots]
            near = [shaken(noise, x, size) if moves else x for x, moves in zip(batch, moved, strict=True)]
            others = evaluate(func, near)
        largest = max((magnitude(x) for x, out in zip(found, outputs, strict=True) if out.role == "grad"), default=0.0)
        sizes = [largest if out.role == "grad" else magnitude(x) for x, out in zip(found, outputs, strict=True)]
        allowed = [max((COARSE if coarse else BOUNDS[dtype]) * n, COARSELY[dtype]) for n in sizes]
        if any(apart(x, y) > bound / 2 for x, y, bound in zip(found, others, allowed, strict=True)):
            return None
        results.append(found)
        bounds.append(allowed)
    return Wanted(slots, outputs, batches, results, bounds)


def _other(slot: Input, array: Array) -> Array:
    """Of another microbatch: fields differ, parameters are the same."""
    if slot.role == "param" or not slot.type.is_float:
        return array
    moved = np.asarray(array * 0.9, array.dtype)
    return round_bf16(moved) if slot.type.dtype == "bf16" else moved


def compare(plan: GraphPlan, device: Device, wanted: Wanted) -> None:
    stacked = plan.spec.name != "train"
    found = device([wanted.given(slot) for slot in plan.spec.inputs])
    gradients: dict[str, Array] = {}
    for slot, got in zip(plan.spec.outputs, found, strict=True):
        if slot.role == "squares":
            total = np.square(gradients[slot.name].astype(np.float64)).sum()
            np.testing.assert_allclose(got.sum(), total, rtol=1e-5, atol=1e-30)
            continue
        want, bound = wanted.result(slot, stacked)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        off = apart(want, got)
        assert off <= bound, f"{plan.spec.name}: {slot.role} {slot.name} is {off:.2g} off, {bound:.2g} allowed"
        if slot.role == "grad":
            gradients[slot.name] = got


def tried(numbers: range) -> None:
    """Tries graphs; the first that fails is named. Most of them can be compared."""
    compared = 0
    for number in numbers:
        try:
            compared += check(number)
        except Exception as fault:
            raise AssertionError(f"graph {number}") from fault
        gc.collect()  # each device reserves addresses
    assert compared > 0.6 * len(numbers)


def test_some_graphs() -> None:
    tried(range(SHORT))


@pytest.mark.slow
def test_many_graphs() -> None:
    tried(range(SHORT, COUNT))
