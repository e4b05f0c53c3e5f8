"""Products of f32 on tensor cores, where a run allows that their factors are rounded to tf32."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from bench.gpu.assemble import CHIPS, Assembling
from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import open_context
from sexpgpu.dialects.opdef import parse_type
from sexpgpu.driver.pipeline import steps_of, whole
from sexpgpu.interp.reference import evaluate
from sexpgpu.passes import PASSES
from sexpgpu.passes.base import graphs, parse_pass, run_pipeline
from sexpgpu.passes.gpu import product
from sexpgpu.passes.gpu.plans import device_plans_of
from sexpgpu.passes.gpu.product_tiling import TF32, Problem, Tiling, tiling_of
from sexpgpu.passes.to_gpu import ToGpu
from sexpgpu.runtime import machines
from sexpgpu.sim import Checks, Machine
from sexpgpu.sim.report import Report
from tests.building import function
from tests.gpu.agreement import Build, drawn
from tests.gpu.kernels import Device, require_nvjitlink
from tests.gpu.lt import to_tf32
from tests.gpu.test_engine import sexpgpu
from tests.gpu.test_product import factors, multiplied
from tests.trace.experiments import write

FUSED = ("sx-fuse=target=cuda", "sx-to-gpu=tf32=true", "sx-to-nvvm", "sx-to-ptx")
ALONE = FUSED[1:]
EVERY = Checks.every(race=5)
SMALL = next(t for t in TF32 if (t.rows, t.columns) == (32, 32))
BOUND = 1e-5
WIDE = """(defmodel net ()
  (defsub up (linear 3 96)) (defsub across (linear 96 96)) (defsub out (linear 96 2))
  (forward (x) (out (relu (across (up x))))))"""


def agrees(types: Sequence[str], build: Build, passes: Sequence[str], checks: Checks = EVERY, narrow: int = 2) -> None:
    """The kernels give what the interpreter gives of the first `narrow` operands rounded, and not what it gives of all
    as they are.
    """
    kinds = [parse_type(type) for type in types]
    inputs = drawn(kinds)
    near = [to_tf32(x) if place < narrow else x for place, x in enumerate(inputs)]
    with open_context() as context:
        module = function(context, kinds, build)
        wanted, exact = (list(map(np.array, evaluate(graphs(module)[0], given))) for given in (near, inputs))
        found = Device.of(context, module, passes, checks)(inputs)
    for got, want, other in zip(found, wanted, exact, strict=True):
        scale = np.abs(want).max()
        assert np.abs(got - want).max() <= BOUND * scale
        assert np.abs(got - other).max() > 4 * BOUND * scale, "as if nothing were rounded"


def cut(monkeypatch: pytest.MonkeyPatch, tiling: Tiling, parts: int = 1) -> None:
    monkeypatch.setattr(product, "tiling_of", lambda problem: evolve(tiling, parts=parts, type=problem.register))


@pytest.mark.parametrize("tiling", TF32, ids=str)
@pytest.mark.parametrize("swapped", ["", "xy"])
def test_every_cut_of_ragged_factors(monkeypatch: pytest.MonkeyPatch, tiling: Tiling, swapped: str) -> None:
    cut(monkeypatch, tiling)
    rows, columns, depth = tiling.rows + 4, tiling.columns + 12, 2 * tiling.depth + 4
    agrees(factors("f32", rows, columns, depth, swapped), multiplied(swapped), ALONE)


@pytest.mark.parametrize("swapped", ["", "x", "y", "xy"])
@pytest.mark.parametrize("odd", [0, 1, 2])
def test_lines_that_are_no_whole_vectors(monkeypatch: pytest.MonkeyPatch, odd: int, swapped: str) -> None:
    cut(monkeypatch, SMALL)
    agrees(factors("f32", 32 + odd, 16 + odd, 64 + odd, swapped, "2, "), multiplied(swapped), ALONE)


@pytest.mark.parametrize("tiling", [t for t in TF32 if t.rows >= 32], ids=str)
@pytest.mark.parametrize("swapped", ["", "xy"])
def test_threads_of_a_warp_find_shared_memory_on_banks_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tiling: Tiling, swapped: str
) -> None:
    cut(monkeypatch, tiling)
    reports: list[Report] = []
    launch = Machine.launch
    monkeypatch.setattr(Machine, "launch", lambda *given, **more: reports.append(launch(*given, **more)))
    types = factors("f32", tiling.rows, tiling.columns, 2 * tiling.depth, swapped)
    agrees(types, multiplied(swapped), ALONE, Checks(traffic=True))
    (report,) = reports
    assert report.banks
    assert report.bank_conflicts == 0


@pytest.mark.parametrize("parts", [2, 3])
def test_parts_of_the_sum_and_an_epilogue(monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    cut(monkeypatch, SMALL, parts)

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w, bias = values
        y = b("matmul", x, w)
        return [b("relu", b("add", y, b("broadcast", bias, shape=y.type.shape)))]

    agrees(["f32[40, 520]", "f32[520, 36]", "f32[36]"], build, FUSED)


def test_factors_that_are_computed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    cut(monkeypatch, SMALL)

    def build(b: Builder, values: Sequence[Val]) -> Sequence[Val]:
        x, w = values
        return [b("matmul", b("relu", x), w)]

    agrees(["f32[40, 64]", "f32[64, 36]"], build, FUSED)


@pytest.mark.parametrize("name", ["conv", "conv_input_grad", "conv_weight_grad"])
def test_convolutions(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    cut(monkeypatch, SMALL)
    form = {"stride": (2, 1), "low": (1, 0), "high": (1, 1), "dilation": (1, 1), "groups": 1}
    x, w, y = "f32[2, 8, 9, 8]", "f32[36, 8, 3, 2]", "f32[2, 36, 5, 8]"
    operands, more = {
        "conv": ([x, w], {}),
        "conv_input_grad": ([y, w], {"size": (9, 8)}),
        "conv_weight_grad": ([x, y], {"kernel": (3, 2)}),
    }[name]
    agrees(operands, lambda b, v: [b(name, *v, **form, **more)], ALONE)


def test_the_cost_model_takes_tensor_cores_where_it_may() -> None:
    problem = Problem(1, 1024, 1024, 1024, "f32")
    assert tiling_of(problem).instruction == "fma"
    assert tiling_of(evolve(problem, tf32=True)).instruction == "mma.m16n8k8"
    assert tiling_of(evolve(problem, dtype="f64", tf32=True)).instruction == "fma"
    assert tiling_of(evolve(problem, dtype="bf16", tf32=True)).instruction == "mma.m16n8k16"


def test_the_switch_is_part_of_the_pipeline_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def specs(pipeline: str) -> list[str]:
        return [step.spec for step in steps_of(pipeline)]

    off = specs(whole("cuda", "sm_90"))
    monkeypatch.setenv("SEXPGPU_TF32", "1")
    on = specs(whole("cuda", "sm_90"))
    (changed,) = [spec for spec in on if spec not in off]
    assert parse_pass(changed, PASSES) == ToGpu(chip="sm_90", tf32=True)
    assert "sx-to-nvvm=chip=sm_90" in on
    assert specs(whole("cpu")) == specs("shared+cpu")


def test_two_runs_that_differ_in_it_are_seen_to_differ(tmp_path: Path) -> None:
    """In what they compute, in what is kept of their compiling, and in what they say of themselves."""
    file = write(tmp_path, model=WIDE)
    told = {}
    for switch in ("0", "1"):
        out = tmp_path / switch
        flags = ("--device", "sim", "--out", out, "--steps", "1", "--json")
        done = sexpgpu("run", file, *flags, SEXPGPU_TF32=switch, SEXPGPU_CACHE=str(tmp_path / "cache"))
        assert done.returncode == 0, done.stdout + done.stderr
        manifest = json.loads((out / "manifest.json").read_text("utf-8"))
        told[switch] = manifest["device"], json.loads(done.stdout)["metrics"]["optim/grad_norm"]
    assert [("tf32" in device) for device, _ in told.values()] == [False, True]
    exact, rounded = (norm for _, norm in told.values())
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=1e-2)
    assert len(list((tmp_path / "cache").rglob("*.plan"))) >= 2


def test_machines_that_differ_in_it_are_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What machines hold against each other before a run begins: each difference is E-DP-006."""
    engine = SimpleNamespace(device="sim sm_80, PTX interpreter", experiment=SimpleNamespace(run=None))
    team: Any = SimpleNamespace(calls=[SimpleNamespace(engine=engine)])
    start: Any = SimpleNamespace(checkpoint=None, given=None)
    peers: Any = SimpleNamespace(count=2)
    plan: Any = SimpleNamespace(stop=1)
    monkeypatch.setattr(machines, "slug", lambda experiment: "experiment")
    monkeypatch.setattr(machines, "rounds", lambda run, peers: False)
    found = []
    for switch in ("0", "1"):
        monkeypatch.setenv("SEXPGPU_TF32", switch)
        found.append(machines.facts_of(team, peers, plan, start, {}))
    assert [name for name in found[0] if found[0][name] != found[1][name]] == ["products of f32"]


@pytest.mark.parametrize("swapped", ["", "xy"])
def test_no_product_spills(swapped: str) -> None:
    """For every chip, by nvJitLink: large, ragged, narrow and deep ones, as the model cuts them."""
    require_nvjitlink()
    to = Assembling()
    for rows, columns, depth in ((1024, 1024, 512), (513, 130, 1025), (2049, 36, 100), (64, 96, 8192)):
        types = [parse_type(type) for type in factors("f32", rows, columns, depth, swapped)]
        for chip in CHIPS:
            with open_context() as context:
                module = function(context, types, multiplied(swapped))
                specs = [step.spec for step in steps_of(f"cuda:{chip},tf32")]
                run_pipeline(module, context, [parse_pass(spec, PASSES) for spec in specs])
                to.add("tf32", chip, device_plans_of(module))
    assert to.refused == []
    assert len(to.kernels) >= 4 * len(CHIPS)
    assert [kernel.named for kernel in to.kernels if kernel.spilled or kernel.local] == []
