"""What doctor says of CUDA: absent where nobody asks for it, missing where the environment does, variables checked."""

from __future__ import annotations

import json
from importlib import util
from typing import Any

import pytest

from tests.gpu.test_engine import sexpgpu

PARTS = ("cuda driver", "nvJitLink", "cuDNN", "NCCL")


def has_driver() -> bool:
    if util.find_spec("cuda") is None or util.find_spec("cuda.pathfinder") is None:
        return False
    from sexpgpu.gpu.probe import probe

    return probe()[0].present


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
        ({"SEXPGPU_DEVICES": "0,8", "SEXPGPU_DEVICE": "sim"}, "E-DP-001"),
    ],
)
def test_variables_that_make_no_run(environment: dict[str, str], code: str) -> None:
    found = findings(3, **environment)["device"]
    assert found["state"] == "missing"
    assert found["detail"].startswith(code)
