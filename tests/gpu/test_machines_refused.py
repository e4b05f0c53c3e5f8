"""Machines of a run that do not begin: one differs, one does not come, one is refused by its own checks or before."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpu.machines import Machines, ended
from tests.gpu.test_machines import trained
from tests.trace.experiments import write


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """Two, of an experiment that a test writes to this place."""
    found = Machines(tmp_path / "experiment.sx", tmp_path / "machines")
    yield found
    found.close()


@pytest.mark.parametrize(
    ("flags", "environment", "what", "expected", "actual"),
    [
        (("--set", "width=3"), {}, "experiment", "experiment-", "experiment-width=3-"),
        (("--steps", 1), {}, "last step", "2", "1"),
        ((), {"SEXPGPU_NODE_GRADIENTS": "f32"}, "dtype of gradients", "bf16", "f32"),
        ((), {"SEXPGPU_DEVICES": "0,1"}, "number of GPUs", "1", "2"),
        ((), {"SEXPGPU_NODES": "4"}, "number of machines", "2", "4"),
    ],
)
def test_a_machine_that_is_about_to_run_something_else(
    machines: Machines,
    tmp_path: Path,
    flags: tuple[object, ...],
    environment: dict[str, str],
    what: str,
    expected: str,
    actual: str,
) -> None:
    write(tmp_path, run="(defrun :steps 2 :microbatches 4 :seed 1)")
    both = [machines.start(0, "--quiet"), machines.start(1, "--quiet", *flags, **environment)]
    for code, text in ended(both):
        assert code == 1
        assert f"error[E-DP-006]: machine 1 differs from machine 0: {what}" in text
        assert f"  expected: {expected}" in text
        assert f"  actual:   {actual}" in text
    assert not machines.out.exists()


def test_machines_that_go_on_from_other_checkpoints(machines: Machines, tmp_path: Path) -> None:
    write(tmp_path, run="(defrun :steps 3 :microbatches 2 :seed 1 :checkpoint '(:every 1))")
    trained(machines, "--steps", 2)
    newest, older = (machines.out / "checkpoints" / f"step-0000000{step}" for step in (2, 1))
    both = [machines.start(0, "--resume", newest), machines.start(1, "--resume", older)]
    for code, text in ended(both):
        assert code == 1
        assert "error[E-DP-006]: machine 1 differs from machine 0: checkpoint" in text
        assert "  expected: step 2, " in text
        assert "  actual:   step 1, " in text


def test_a_machine_that_does_not_come(machines: Machines, tmp_path: Path) -> None:
    write(tmp_path, run="(defrun :steps 2 :microbatches 2 :seed 1)")
    machines.wait = 1
    for rank, wanted in ((0, "machine 1 did not arrive"), (1, "machine 0 did not begin")):
        ((code, text),) = ended([machines.start(rank, "--quiet")])
        assert code == 1
        assert f"error[E-DP-007]: {wanted} at 127.0.0.1:{machines.port} within 1 s" in text
    assert not machines.out.exists()


@pytest.mark.parametrize("machine", [0, 1])
@pytest.mark.parametrize(
    ("flags", "environment", "code"),
    [
        pytest.param(("--device", "cpu"), {}, "E-DP-005", id="device"),
        pytest.param((), {"SEXPGPU_DEVICES": "0,1,2"}, "E-DP-003", id="microbatches"),
        pytest.param((), {"SEXPGPU_MEMORY": "1KiB"}, "E-MEM-001", id="memory"),
        pytest.param(("--set", "depth=3"), {}, "E-KNOB-001", id="file"),
        pytest.param(("--resume", "elsewhere"), {}, "E-CKPT-008", id="checkpoint"),
    ],
)
def test_a_machine_that_its_own_checks_stop_ends_the_others_at_once(
    machines: Machines, tmp_path: Path, machine: int, flags: tuple[object, ...], environment: dict[str, str], code: str
) -> None:
    write(tmp_path, run="(defrun :steps 2 :microbatches 2 :seed 1)")
    both = [
        machines.start(n, *(flags if n == machine else ()), **(environment if n == machine else {})) for n in (0, 1)
    ]
    results = ended(both)
    status, text = results[machine]
    assert status == 1
    assert f"error[{code}]" in text
    status, text = results[1 - machine]
    assert status == 1
    assert f"error[E-DP-007]: machine {machine} ended before the run began\n  actual:   {code}: " in text
    assert not machines.out.exists()


@pytest.mark.parametrize("machine", [0, 1])
@pytest.mark.parametrize(
    ("flags", "environment", "status", "code"),
    [
        pytest.param((), {"SEXPGPU_TF32": "maybe"}, 3, "E-DEV-001", id="environment"),
        pytest.param((), {"SEXPGPU_NODE_GRADIENTS": "f16"}, 1, "E-DP-005", id="machines"),
        pytest.param(("--steps", 0), {}, 2, "E-USE-001", id="usage"),
        pytest.param((), {"SEXPGPU_NODES": ""}, 1, "E-DP-005", id="a count that was forgotten"),
    ],
)
def test_a_machine_that_is_refused_before_it_opens_anything(
    machines: Machines,
    tmp_path: Path,
    machine: int,
    flags: tuple[object, ...],
    environment: dict[str, str],
    status: int,
    code: str,
) -> None:
    write(tmp_path, run="(defrun :steps 2 :microbatches 2 :seed 1)")
    refused = machines.start(machine, *flags, **environment)
    other = machines.start(1 - machine)
    (found, _), (other_found, text) = ended([refused, other])
    assert (found, other_found) == (status, 1)
    assert f"error[E-DP-007]: machine {machine} ended before the run began\n  actual:   {code}: " in text


def test_a_second_machine_0_ends_all(machines: Machines, tmp_path: Path) -> None:
    write(tmp_path, run="(defrun :steps 2 :microbatches 3 :seed 1)")
    machines.count = 3
    for code, text in ended([machines.start(0), machines.start(0), machines.start(1)]):
        assert code == 1
        assert (
            "error[E-DP-006]: two machines are number 0" in text or "error[E-DP-005]: machine 0 cannot listen" in text
        )
    assert not machines.out.exists()


def test_a_port_that_is_taken_is_told_before_anything_is_compiled(machines: Machines) -> None:
    with socket.create_server(("127.0.0.1", machines.port)):
        ((code, text),) = ended([machines.start(0)])
    assert code == 1
    assert f"error[E-DP-005]: machine 0 cannot listen at 127.0.0.1:{machines.port}" in text
    assert "Address already in use" in text
