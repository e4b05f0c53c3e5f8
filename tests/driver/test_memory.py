"""What the plan says of memory, and what a run really takes."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import pytest

from sexpgpu.driver.engine import CpuEngine
from sexpgpu.driver.planning import preparing
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.plan.records import GraphPlan, Plans
from sexpgpu.runtime.calls import Tensors
from sexpgpu.runtime.run import RunOptions, run
from sexpgpu.runtime.step import StepResult, TrainStep

MIB = 1 << 20


def plans(file: Path, variant: str | None = None, **sets: object) -> Plans:
    def compile_it() -> Plans:
        selection = Selection(variant, tuple(f"{name}={value}" for name, value in sets.items()))
        with preparing(file, selection) as done:
            assert done.plans is not None, done.diagnostics.errors
            return done.plans

    return run_deep(compile_it)


def product_work(plan: GraphPlan) -> int:
    """Multiplications and additions of the products, those of attention's forward and backward included."""
    work = 0
    for step in plan.steps:
        types = [plan.slots[number].type for number in step.ins]
        if step.op.startswith("matmul"):
            work += 2 * plan.slots[step.outs[0]].type.size * types[0].shape[-1]
        elif step.op.startswith("attention"):
            backward = step.op.endswith("grad")
            q, k = types[2:4] if backward else types[:2]
            work += (5 if backward else 2) * 2 * q.size * k.shape[2]
        work += sum(map(product_work, step.bodies))
    return work


EXAMPLES = sorted(Path(__file__).resolve().parents[2].glob("examples/*.sx"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_arena_is_within_five_percent_of_what_lives_in_it(file: Path) -> None:
    for plan in plans(file, "smoke").values():
        assert plan.memory is not None
        assert plan.memory.live <= plan.memory.arena <= 1.05 * plan.memory.live, plan.spec.name


def test_checkpoints_around_blocks_trade_memory_for_products(root: Path, tmp_path: Path) -> None:
    """The 12-layer model at its full size: parameters, states and gradients have no part in the arena."""
    text = (root / "examples/gpt2.sx").read_text("utf-8").replace("data/", f"{root / 'examples/data'}/")
    plain, checkpointed = tmp_path / "plain.sx", tmp_path / "checkpointed.sx"
    plain.write_text(text, "utf-8")
    block = "(setq x (funcall b x))"
    assert text.count(block) == 1
    checkpointed.write_text(text.replace(block, "(setq x (checkpoint (funcall b x)))"), "utf-8")
    before, after = plans(plain)["train"], plans(checkpointed)["train"]
    assert before.memory is not None
    assert after.memory is not None
    assert before.memory.live >= 2.5 * after.memory.live
    assert product_work(before) < product_work(after) <= 1.4 * product_work(before)


def resident() -> int:
    """Bytes of this process in memory."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to see what the process holds")
def test_steps_take_no_memory_beside_the_plan(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPT of four layers, twenty steps: at most 1 MiB a step beside the arena, and nothing that stays."""
    peaks: list[int] = []
    sizes: list[int] = []
    original = TrainStep.run

    def watched(self: TrainStep, step: int, tensors: Tensors) -> StepResult:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        result = original(self, step, tensors)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
        sizes.append(resident())
        return result

    def train() -> None:
        with preparing(root / "examples/shakespeare.sx", Selection(sets=("steps=20",))) as done:
            options = RunOptions(out=tmp_path / "run", quiet=True, stream=io.StringIO())
            assert run(CpuEngine(done), options).error is None

    monkeypatch.setattr(TrainStep, "run", watched)
    tracemalloc.start()
    try:
        run_deep(train)
    finally:
        tracemalloc.stop()
    assert len(peaks) == 20
    warm = 3  # by then the arena and both sets of parameters and states are there
    assert max(peaks[warm:]) <= MIB, peaks
    assert sizes[-1] - sizes[warm] <= 17 * MIB, sizes
