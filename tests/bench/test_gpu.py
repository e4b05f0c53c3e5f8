"""The bench of GPUs runs to its end on the simulator, and what it checks can fail."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from bench.curves.product import Events
from bench.gpu import convolutions, kernels, products, ranks
from bench.gpu.cases import HERE, PARTS, TOY_CONVOLUTIONS, TOY_TRAIN, Checked, Setting, Stepped, Trained
from bench.gpu.reference import asked
from bench.gpu.rows import Row, append, read, table
from bench.gpu.run import _run_case, main, run_part
from bench.gpu.train import compared
from sexpgpu.dialects.opdef import Array
from sexpgpu.driver.compile import compiling
from sexpgpu.gpu.choices import Choices
from sexpgpu.gpu.library.choice import Source
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.interp.reference import results_of
from sexpgpu.lang.selection import Selection
from sexpgpu.sim import Checks
from tests.gpu import libraries

OPTIONS = ["--device", "sim", "--sizes", "toy", "--torch", sys.executable]


def test_it_runs_on_the_simulator(tmp_path: Path) -> None:
    out = tmp_path / "record.json"
    names = ["kernels", "step-mlp", "products", "convolutions", "attention"]
    done = CliRunner().invoke(main, [*names, *OPTIONS, "--out", str(out)])
    assert done.exit_code == 0, done.output
    record = json.loads(out.read_text("utf-8"))
    assert [name for name in names if any(row["part"] == name for row in record["rows"])] == names
    assert {row["name"].split()[1] for row in record["rows"] if row["name"].startswith("gpt ")} >= {
        "pointwise", "row", "product", "attention", "index", "update"
    }  # fmt: skip
    assert all(row["theirs"] is None for row in record["rows"])
    assert record["machine"]["device"] == "sim"


def test_several_gpus_beside_one() -> None:
    losses, step = ranks.rows(Setting("sim", "toy", "", 60), PARTS["ranks"].toy[0])
    assert losses.ok
    assert losses.note.startswith("against one GPU: first 2 within ")
    assert step.ours is not None
    assert step.note.startswith("one GPU ")


def test_a_wrong_kernel_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the interpreter gives is changed, which is as if the kernels were wrong."""

    def wrong(op: Any, operands: list[Array]) -> Sequence[Array]:
        return [x + 1 if x.dtype.kind == "f" else x for x in results_of(op, operands)]

    monkeypatch.setattr(kernels, "results_of", wrong)
    moons = PARTS["kernels"].toy[0]
    found = list(kernels.rows(Setting("sim", "toy", "", 60), moons))
    assert {row.name for row in found} >= {"moons product", "moons update"}
    assert all(row.ok is False for row in found)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_library_is_checked_beside_the_kernels(wrong: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator has none, so one stands in: NumPy by the records of what it is to compute."""
    monkeypatch.setattr("sexpgpu.passes.gpu.library_product.LAUNCH", 0)
    plain = libraries.computed
    if wrong:
        monkeypatch.setattr(libraries, "computed", lambda *given: {role: x + 1 for role, x in plain(*given).items()})

    def driver(checks: Checks) -> SimDriver:
        made = SimDriver(checks)
        made.libraries = libraries.everything(Source("stand-in 1", libraries.StandIn(made).ways), Choices())
        return made

    monkeypatch.setattr("sexpgpu.gpu.sim.SimDriver", driver)
    setting = Setting("sim", "toy", "", 60)
    found = [*products.rows(setting, PARTS["products"].toy[0]), *convolutions.rows(setting, TOY_CONVOLUTIONS)]
    by_library = [row for row in found if row.name.endswith(", stand-in 1")]
    assert len(by_library) == len(found) / 2
    assert all(row.ok is not wrong for row in by_library)
    assert all(row.ok for row in found if row not in by_library)


def test_what_a_library_refuses_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexpgpu.passes.gpu.library_product.LAUNCH", 0)

    def driver(checks: Checks) -> SimDriver:
        return SimDriver(checks, libraries=libraries.everything(Source("none", lambda graph: "no engine"), Choices()))

    monkeypatch.setattr("sexpgpu.gpu.sim.SimDriver", driver)
    found = list(products.rows(Setting("sim", "toy", "", 60), PARTS["products"].toy[0][:1]))
    assert [(row.ok, row.note) for row in found if row.name.endswith(", none")] == [(None, "no engine")]


def test_errors_by_what_is_tolerated() -> None:
    x = np.array([1.0, -4.0], np.float32)
    assert kernels.error_of(x, x, "f32") == 0
    assert kernels.error_of(x + np.float32(4e-3), x, "f32") == pytest.approx(10, rel=1e-3)
    assert kernels.error_of(np.array([1.0, np.nan], np.float32), x, "f32") == float("inf")
    assert kernels.error_of(np.array([1, 2]), np.array([1, 3]), "i32") > 1


def test_losses_that_part_fail() -> None:
    def events(*losses: float) -> Events:
        return Events(tuple([{"event": "step", "step": n, "metrics": {"train/loss": x}} for n, x in enumerate(losses)]))

    case = TOY_TRAIN[0]
    assert compared(case, events(2.0, 1.0), events(2.0, 1.0), "cpu").ok
    assert compared(case, events(2.1, 1.0), events(2.0, 1.0), "cpu").ok is False
    assert compared(case, events(2.0, float("nan")), events(2.0, 1.0), "cpu").ok is False
    assert compared(case, events(2.0), events(2.0, 1.0), "cpu").ok is False


def test_a_case_that_fails_or_takes_too_long_is_a_row(tmp_path: Path) -> None:
    (row,) = _run_case("kernels", 99, "none", 60, OPTIONS, tmp_path)
    assert row.ok is False
    assert "IndexError" in row.note
    (row,) = _run_case("kernels", 0, "moons", 0.05, OPTIONS, tmp_path)
    assert row.note.startswith("stopped after")
    *left, took = run_part("kernels", "toy", 0.0, OPTIONS)
    assert [row.note for row in left] == ["not begun: no time was left"] * 2
    assert took.name == "took"


def test_without_pytorch_or_a_gpu_there_is_a_reason() -> None:
    assert asked(Setting("sim", "toy", "", 60), [{}]).lacking == "PyTorch is timed on a GPU only"
    there = asked(Setting("cuda", "toy", sys.executable, 60), [{"kind": "product"}])
    assert there.seconds == (None,)
    assert there.lacking in ("PyTorch is not installed", "PyTorch sees no GPU")
    assert asked(Setting("cuda", "toy", "/nowhere/python", 60), [{}]).lacking.startswith("/nowhere/python")


def test_rows_are_read_as_far_as_they_are_whole(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    rows = [Row("p", "a", 2.0, 3.0, "ms", True), Row("p", "b", ok=False, note="why")]
    for row in rows:
        append(file, row)
    with file.open("a", encoding="utf-8") as stream:
        stream.write('{"part": "p", "na')
    assert read(file) == rows
    assert "1.50x" in table(rows)
    assert "FAIL why" in table(rows)


def full_cases() -> Iterator[tuple[Path, Selection]]:
    for part in PARTS.values():
        for case in part.full:
            if isinstance(case, Checked):
                yield case.file, Selection(case.variant, case.sets)
            elif isinstance(case, Trained):
                yield case.file, Selection(None, tuple([flag for flag in case.flags if "=" in flag]))
            elif isinstance(case, Stepped):
                yield HERE / f"{case.file}.sx", Selection(None, tuple([f"{k}={v}" for k, v in case.knobs.items()]))


def test_the_full_cases_trace() -> None:
    """A knob that a file does not have would be noticed on a GPU's time else."""
    wrong = {}
    for file, selection in full_cases():
        with compiling(file, selection, pipeline=None) as done:
            if done.diagnostics.errors:
                wrong[file.name, selection] = [each.message for each in done.diagnostics.errors]
    assert wrong == {}
