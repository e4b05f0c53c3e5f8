"""`:recompute :auto`: a run keeps to the memory that it is given, and computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from sexpgpu import knobs
from sexpgpu.dialects.opdef import numpy_dtype
from sexpgpu.driver.memory import Held, Limit, Needs, admission, held_by, not_admitted
from sexpgpu.driver.planning import preparing
from sexpgpu.experiment import RunConfig
from sexpgpu.interp import Program
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.plan.records import GraphPlan, Memory
from tests.smoke import link_data, smoke_text, with_run
from tests.trace.experiments import codes, write

ROOT = Path(__file__).resolve().parents[2]
TWELVE_LAYERS = ("heads=4", "width=64", "vocab=256", "seq=64", "batch=2", "steps=3")


def planned(file: Path, text: str, selection: Selection) -> tuple[GraphPlan, Held, str | None]:
    """The plan of the train graph, what the run holds beside it, and the message of its refusal."""

    def compile_it() -> tuple[GraphPlan, Held, str | None]:
        with preparing(file, selection) as done:
            assert done.plans is not None, done.diagnostics.errors
            assert done.traced is not None
            refused = admission(done.traced, done.plans)
            return done.plans["train"], held_by(done.traced), refused.message if refused else None

    file.write_text(text, "utf-8")
    return run_deep(compile_it)


def memory_of(plan: GraphPlan) -> Memory:
    assert plan.memory is not None
    return plan.memory


def results(plan: GraphPlan) -> list[Any]:
    """Loss and gradients at parameters and a batch that are drawn."""
    generator = np.random.default_rng(0)
    given = [
        (generator.normal(0, 0.1, i.type.shape) if i.type.is_float else generator.integers(0, 10, i.type.shape)).astype(
            numpy_dtype(i.type.dtype)
        )
        for i in plan.spec.inputs
    ]
    return [np.array(result) for result in Program(plan)(given)]


def with_limit(text: str, limit: int) -> str:
    return with_run(text, recompute=":auto", memory=str(limit))


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_twelve_layers_in_half_the_memory(precision: str, tmp_path: Path) -> None:
    link_data(tmp_path)
    text = with_run(smoke_text(ROOT / "examples/gpt2.sx"), precision=f":{precision}")
    selection = Selection(None, TWELVE_LAYERS)
    kept, held, _ = planned(tmp_path / "kept.sx", text, selection)
    half = memory_of(kept).live // 2
    again, _, _ = planned(tmp_path / "again.sx", with_limit(text, held.total + half), selection)
    assert 0.8 * half < memory_of(again).live <= memory_of(again).arena <= half
    assert len(again.steps) > len(kept.steps)
    for left, right in zip(results(kept), results(again), strict=True):
        assert left.tobytes() == right.tobytes()


@pytest.mark.parametrize("name", ["vit-digits", "mnist-conv", "moe-gpt", "char-lstm", "wgan-gp"])
def test_a_run_computes_the_same_in_any_memory(name: str, tmp_path: Path) -> None:
    """Groups, tiles and sums of the smaller plan are others; the bits are not."""
    link_data(tmp_path)
    text = smoke_text(ROOT / f"examples/{name}.sx")
    kept, held, _ = planned(tmp_path / "kept.sx", text, Selection("smoke"))
    wanted = results(kept)
    for part in (0.9, 0.3):
        limit = held.total + int(part * memory_of(kept).arena)
        again, _, _ = planned(tmp_path / f"again{part}.sx", with_limit(text, limit), Selection("smoke"))
        assert memory_of(again).arena < memory_of(kept).arena
        for left, right in zip(wanted, results(again), strict=True):
            assert left.tobytes() == right.tobytes()


def test_a_limit_that_no_plan_keeps_says_by_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link_data(tmp_path)
    text = smoke_text(ROOT / "examples/shakespeare.sx")
    kept, _, refused = planned(tmp_path / "kept.sx", text, Selection("smoke"))
    assert refused is None
    monkeypatch.setenv("SEXPGPU_MEMORY", "64KiB")
    unasked, _, refused = planned(tmp_path / "unasked.sx", text, Selection("smoke"))
    assert memory_of(unasked) == memory_of(kept), "a limit alone changes no plan"
    assert refused is not None
    again, _, refused = planned(tmp_path / "again.sx", with_run(text, recompute=":auto"), Selection("smoke"))
    assert memory_of(again).arena < 0.6 * memory_of(kept).arena, "it comes as near as it can"
    assert refused is not None
    assert "more than it may hold" in refused


@pytest.mark.parametrize(
    ("limit", "recompute", "advice"),
    [
        (99, None, "whatever the batch, a run of this model needs more than 100 B"),
        (99, "auto", "whatever the batch, a run of this model needs more than 100 B"),
        (100, None, "(defrun ... :recompute :auto), or a smaller batch with more :microbatches"),
        (100, "auto", "a smaller batch with more :microbatches"),
    ],
)
def test_what_would_make_a_run_fit(limit: int, recompute: Literal["auto"] | None, advice: str) -> None:
    found = Needs({"parameters": 80, "gradients": 20, "batch": 30, "arena": 50}, None)
    run = RunConfig(steps=1, epochs=None, recompute=recompute)
    refused = not_admitted(run, found, Limit(limit, "SEXPGPU_MEMORY"))
    assert refused.help == advice


@pytest.mark.parametrize(
    ("run", "code"),
    [
        ("(defrun :steps 2 :recompute :auto)", "E-RUN-013"),
        ("(defrun :steps 2 :recompute :always :memory 10)", "E-ARG-011"),
        ('(defrun :steps 2 :memory "much")', "E-ARG-010"),
        ('(defrun :steps 2 :memory "0 GiB")', "E-ARG-010"),
        ('(defrun :steps 2 :memory "1e400")', "E-ARG-010"),
        (f"(defrun :steps 2 :memory {10**30})", "E-ARG-010"),
        ("(defrun :steps 2 :memory 0)", "E-RUN-012"),
        ("(defrun :steps 2 :memory 1.5)", "E-ARG-010"),
    ],
)
def test_what_is_no_limit(run: str, code: str, tmp_path: Path) -> None:
    assert [found for found, _ in codes(write(tmp_path, run=run))] == [code]


def test_the_variable_is_limit_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXPGPU_MEMORY", "1GiB")
    assert codes(write(tmp_path, run="(defrun :steps 2 :recompute :auto)")) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("8GiB", 8 << 30),
        ("512 MiB", 512 << 20),
        ("1.5kB", 1500),
        ("2e9", 2 * 10**9),
        ("64000", 64000),
        ("7 B", 7),
        ("1TiB", 1 << 40),
    ],
)
def test_sizes(text: str, count: int) -> None:
    assert knobs.size(text) == count
