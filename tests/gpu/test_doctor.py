"""What doctor says of CUDA: absent where nobody asks for it, missing where the environment does, variables checked."""

from __future__ import annotations

import json
from importlib import util
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace
from typing import Any

import pytest

from sexpgpu.driver.doctor import _libdevice
from sexpgpu.gpu import probe
from sexpgpu.passes.gpu import plans
from tests.gpu.test_engine import sexpgpu

PARTS = ("cuda driver", "nvJitLink", "cuDNN", "cublasLt", "nvmath", "NCCL", "libdevice")


def has_driver() -> bool:
    if util.find_spec("cuda") is None or util.find_spec("cuda.pathfinder") is None:
        return False
    return probe.probe()[0].present


without_gpu = pytest.mark.skipif(has_driver(), reason="this machine has a driver")


def findings(code: int, **environment: str) -> dict[str, dict[str, Any]]:
    done = sexpgpu("doctor", "--json", **environment)
    assert done.returncode == code, done.stdout + done.stderr
    return {each["what"]: each for each in json.loads(done.stdout)["findings"]}


def test_each_part_says_what_its_absence_means() -> None:
    found = findings(0, SEXPGPU_DEVICE="cpu")
    for part in PARTS:
        assert found[part]["state"] in ("ok", "absent")
        assert found[part]["mend"] or found[part]["state"] == "ok"
    assert [what for what in found if what in PARTS] == list(PARTS), "in an order that cannot hang"


def test_libdevice_is_looked_for_in_the_text_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _libdevice().state == "ok"
    monkeypatch.setenv("SEXPGPU_DEVICE", "cuda")
    unlinked = SimpleNamespace(modules=(SimpleNamespace(text=".extern .func (.param .b32 r) __nv_erff"),))
    monkeypatch.setattr(plans, "device_plans_of", lambda module: unlinked)
    assert _libdevice().state == "missing"


def test_the_bindings_of_cublaslt_are_told_by_their_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "version", lambda package: f"{package} 1.0.0")
    assert probe._nvmath().detail == "nvmath-python 1.0.0"

    def lacking(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr(probe, "version", lacking)
    found = probe._nvmath()
    assert not found.present
    assert probe.INSTALL in found.without


@pytest.mark.parametrize(("version", "present"), [(91300, True), (91299, False), (92801, True)])
def test_cudnn_has_a_least_version(version: int, present: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_library", lambda name, shown, without: probe.Probe(shown, True, "libcudnn.so.9"))
    frontend = SimpleNamespace(backend_version=lambda: version)
    monkeypatch.setattr(probe, "import_module", lambda name: frontend)
    found = probe._cudnn()
    assert found.present == present
    assert found.detail.startswith(f"9.{version // 100 % 100}.")


@without_gpu
def test_a_driver_that_is_asked_for_is_missing() -> None:
    found = findings(3, SEXPGPU_DEVICE="cuda")
    assert found["cuda driver"]["state"] == "missing"
    assert found["NCCL"]["state"] in ("ok", "absent")


@without_gpu
def test_a_run_on_a_gpu_that_is_not_there_is_refused() -> None:
    done = sexpgpu("run", "anything.sx", "--device", "cuda", "--json")
    code = json.loads(done.stdout)["diagnostics"][0]["code"]
    assert (done.returncode, code) in ((3, "E-DEV-002"), (3, "E-DEV-010"))


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({"SEXPGPU_NODES": "2"}, "E-DP-005"),
        ({"SEXPGPU_NODE_GRADIENTS": "f16"}, "E-DP-005"),
        ({"SEXPGPU_NODE_RANK": "1"}, "E-DP-005: SEXPGPU_NODE_RANK is set and SEXPGPU_NODES is not"),
        ({"SEXPGPU_NODES": "2", "SEXPGPU_NODE_RANK": "1", "SEXPGPU_RENDEZVOUS": "a:1"}, "E-DP-005: several machines"),
        ({"SEXPGPU_DEVICES": "0,8", "SEXPGPU_DEVICE": "sim"}, "E-DP-001"),
    ],
)
def test_variables_that_make_no_run(environment: dict[str, str], code: str) -> None:
    found = findings(3, **environment)["device"]
    assert found["state"] == "missing"
    assert found["detail"].startswith(code)


@pytest.mark.parametrize(
    ("name", "value"), [("SEXPGPU_TF32", "yes"), ("SEXPGPU_DEVICE", "gpu"), ("SEXPGPU_NODE_WAIT", "x")]
)
def test_a_value_that_means_nothing_is_a_row(name: str, value: str) -> None:
    found = findings(3, **{name: value})["environment"]
    assert found["state"] == "missing"
    assert found["detail"].startswith(f"E-DEV-001: the environment variable {name} has a value")
