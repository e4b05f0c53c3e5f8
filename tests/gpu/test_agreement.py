"""Ranks and machines that do not hold the same: a number changed in one device's memory is found at a checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sexpgpu.diag import SxError
from sexpgpu.gpu.choices import Choices
from sexpgpu.gpu.library.choice import Libraries
from sexpgpu.gpu.sim import SimDriver
from sexpgpu.plan.library import ProductGraph
from sexpgpu.runtime.agree import differing, require_agreement, shown
from sexpgpu.runtime.calls import contexts_of
from sexpgpu.runtime.weights import initial_tensors
from tests.gpu.machines import Machines, ended
from tests.gpu.planted import ELEMENT, NUMBER, PARAMETER
from tests.gpu.stacked import prepared
from tests.gpu.test_engine import sexpgpu, tensors
from tests.trace.experiments import write

RUN = "(defrun :steps 4 :microbatches 2 :seed 1 :checkpoint '(:every 1))"
STILL = "(def optimizer (sgd :lr 0.0))"
"""Leaves parameters as they are, so that what was planted is what is found."""


def test_ranks_of_one_machine(tmp_path: Path) -> None:
    file, out = write(tmp_path, run=RUN, optimizer=STILL), tmp_path / "out"
    command = [sys.executable, "-m", "tests.gpu.planted", str(file), str(out), "bit"]
    done = subprocess.run(command, env=environment(SEXPGPU_DEVICES="0,1"), text=True, capture_output=True)
    assert done.returncode == 1, done.stderr
    code, message, expected, actual, help = done.stdout.splitlines()
    first = tensors(out)[f"param/{PARAMETER}"].reshape(-1)[ELEMENT]
    assert code == "E-DP-004"
    assert message == (f"at the checkpoint of step 2 rank 1 has another parameter than rank 0: param/{PARAMETER}")
    assert expected == f"rank 0: element {ELEMENT} is {first.item()!r} (0x{first.view(np.uint32):08x})"
    assert actual == f"rank 1: element {ELEMENT} is {NUMBER} (0x3f000000)"
    assert "not written" in help
    assert [path.name for path in sorted((out / "checkpoints").iterdir())] == ["step-00000001"]
    again = sexpgpu(
        "run", file, "--device", "sim", "--out", out, "--resume", "latest", "--quiet", SEXPGPU_DEVICES="0,1"
    )
    assert again.returncode == 0, again.stderr


def test_machines(tmp_path: Path) -> None:
    machines = Machines(write(tmp_path, run=RUN, optimizer=STILL), tmp_path / "out")
    try:
        first = machines.start(0, "--quiet")
        machines.program = ("tests.gpu.planted", machines.file, machines.out, "bit")
        (code, text), (other_code, other_text) = ended([first, machines.start(1)])
    finally:
        machines.close()
    assert (code, other_code) == (1, 1)
    assert "error[E-DP-004]: at the checkpoint of step 2 machine 1 has other tensors than machine 0" in text
    assert "expected: SHA-256 " in text
    assert other_text.startswith("E-DP-004\n")
    assert [path.name for path in sorted((machines.out / "checkpoints").iterdir())] == ["step-00000001"]


def test_ranks_that_chose_other_ways_to_compute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXPGPU_DEVICES", "0,1")
    product = ProductGraph((), 1.0, "none")
    with prepared(write(tmp_path, run=RUN)) as (done, device, team):
        assert done.experiment is not None
        tensors = team.replicate(initial_tensors(team.calls[0], contexts_of(done.experiment), {}), done.experiment)
        pools = [pool for pool in (device.pool, *device.others) if pool is not None]
        for pool, way in zip(pools, ("cublasLt algorithm 1", "kernels"), strict=True):
            assert isinstance(pool.driver, SimDriver)
            pool.driver.libraries = Libraries({}, Choices())
            pool.driver.libraries.chosen[product] = way
        with pytest.raises(SxError) as raised:
            require_agreement(4, team, tensors, done.experiment)
        said = raised.value.diagnostic
        assert said.code == "E-DP-004"
        assert said.message.startswith("at the checkpoint of step 4 rank 1 computes ProductGraph(")
        assert (said.expected, said.actual) == ("rank 0: cublasLt algorithm 1", "rank 1: kernels")
        pools[1].driver.libraries.chosen[product] = "cublasLt algorithm 1"  # type: ignore[union-attr]
        require_agreement(4, team, tensors, done.experiment)


@pytest.mark.parametrize(
    ("expected", "actual", "wanted"),
    [
        (np.zeros(3, np.float32), np.array([0, -0.0, 0], np.float32), ("0.0 (0x00000000)", "-0.0 (0x80000000)")),
        (
            np.array([0x7FC00000, 1, 1], np.uint32).view(np.float32),
            np.array([0x7FC00000, 0x7FC00001, 1], np.uint32).view(np.float32),
            ("1.401298464324817e-45 (0x00000001)", "nan (0x7fc00001)"),
        ),
        (np.arange(3), np.array([0, 7, 2]), ("1", "7")),
        (np.zeros(3), np.array([0, 1.5, 0]), ("0.0 (0x0000000000000000)", "1.5 (0x3ff8000000000000)")),
    ],
)
def test_the_first_element_that_differs(expected: np.ndarray, actual: np.ndarray, wanted: tuple[str, str]) -> None:
    dtype = {"f4": "f32", "f8": "f64", "i8": "i64"}[expected.dtype.str[1:]]
    assert differing(expected, actual, dtype) == tuple(f"element 1 is {each}" for each in wanted)  # type: ignore[arg-type]
    assert differing(actual, actual, dtype) is None  # type: ignore[arg-type]


def test_tensors_of_other_types() -> None:
    one = np.zeros((2, 3), np.float32)
    assert differing(one, np.zeros((3, 2), np.float32), "f32") == ("f32[2, 3]", "f32[3, 2]")
    assert differing(one, None, "f32") == ("f32[2, 3]", "nothing")


def test_bits_of_bf16_are_its_own() -> None:
    assert shown(np.array([1.0], np.float32), "bf16") == "1.0 (0x3f80)"


def environment(**settings: str) -> dict[str, str]:

    return {**os.environ, **settings}
