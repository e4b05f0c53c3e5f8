"""What people are told of libraries: which calls they could compute, which is not there, and what one refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sexpgpu.cli import cli
from sexpgpu.driver import lowered_libraries
from sexpgpu.driver.compile import compiling
from sexpgpu.driver.lowered_device import lowering_for
from sexpgpu.gpu.choices import Choices
from sexpgpu.gpu.library.choice import Libraries, Source
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.lang.selection import Selection
from sexpgpu.plan.library import AttentionGraph, ProductGraph
from sexpgpu.sim import Checks
from tests.trace.experiments import write

GPT = Path(__file__).resolve().parents[2] / "bench" / "gpu" / "gpt.sx"


def test_the_report_says_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def notes() -> list[tuple[str, str]]:
        with compiling(GPT, Selection("toy"), pipeline="shared") as done:
            return list(lowering_for(done, "cuda", "sm_90").notes)

    calls = ("attention", "2 calls by cuDNN or own kernels, as a GPU measures them")
    monkeypatch.setattr(lowered_libraries, "find_spec", lambda name: object())
    found = notes()
    assert calls in found
    assert "library" not in dict(found)
    monkeypatch.setattr(lowered_libraries, "find_spec", lambda name: None)
    found = notes()
    assert calls in found
    assert [text for name, text in found if name == "library"] == [
        "cuDNN is not installed: own kernels",
        "nvmath-python is not installed: own kernels",
    ]


def test_a_run_tells_what_is_lacking_and_what_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexpgpu.passes.gpu.library_product.LAUNCH", 0)
    monkeypatch.setenv("SEXPGPU_CACHE", "off")

    def driver(checks: Checks) -> SimDriver:
        refusing = Source("cublasLt 13.1.0", lambda graph: "no algorithm computes it")
        libraries = Libraries({ProductGraph: refusing, AttentionGraph: "cuDNN is not installed"}, Choices())
        return SimDriver(checks, libraries=libraries)

    monkeypatch.setattr("sexpgpu.gpu.sim.SimDriver", driver)
    out = tmp_path / "out"
    command = ["run", str(write(tmp_path)), "--device", "sim", "--out", str(out), "--steps", "2"]
    done = CliRunner().invoke(cli, command, standalone_mode=False)
    assert done.exception is None, done.output
    events = [json.loads(line) for line in (out / "events.jsonl").read_text("utf-8").splitlines()]
    told = {each["name"]: each for each in reversed(events) if each["event"] == "annotation"}
    assert told["lowering"]["data"]["text"].splitlines()[-1].split(maxsplit=1) == [
        "library",
        "cuDNN is not installed: own kernels",
    ]
    refused = [each for each in events if each["event"] == "annotation" and each["name"] == "library"]
    lines = [each["data"]["text"] for each in refused]
    what = "a product of f32[1, 4, 3] and f32[1, 3, 2]"
    forward = f"cublasLt 13.1.0 does not compute {what}: no algorithm computes it; own kernels"
    assert forward in lines
    assert len(set(lines)) == len(lines), "each once"
    assert {each["step"] for each in refused} == {0}, "at the step that first asked"
    assert f"library: {forward}" in done.output
