"""The variables that choose GPUs and machines: what is taken and what is refused."""

from __future__ import annotations

import pytest

from sexpgpu.diag import SxError
from sexpgpu.experiment import RunConfig
from sexpgpu.gpu.ranks import Nodes, Settings, having_ranks, nodes, only_first, ordinals, reachable, require_sense
from sexpgpu.runtime.ranks import not_divided

TWO = Settings(nodes="2", node_rank="1", rendezvous="10.0.0.1:29500")


@pytest.mark.parametrize(
    ("text", "visible", "wanted"), [(None, 3, (0, 1, 2)), ("0", 1, (0,)), ("2,0", 3, (2, 0)), (" 1 , 0 ", 2, (1, 0))]
)
def test_gpus_by_their_numbers(text: str | None, visible: int, wanted: tuple[int, ...]) -> None:
    assert ordinals(Settings(text), visible) == wanted


@pytest.mark.parametrize(
    ("text", "visible"), [(None, 0), ("0", 0), ("x", 2), ("0,", 2), ("-1", 2), ("0,0", 2), ("2", 2), ("0;1", 2)]
)
def test_gpus_that_are_refused(text: str | None, visible: int) -> None:
    with pytest.raises(SxError) as raised:
        ordinals(Settings(text), visible)
    assert raised.value.diagnostic.code == "E-DP-001"


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        (Settings("nan"), "E-DP-001"),
        (Settings("0,0"), "E-DP-001"),
        (Settings(nodes="nan"), "E-DP-005"),
        (Settings(node_rank="1"), "E-DP-005"),
    ],
)
def test_what_means_nothing_wherever_it_is_said(settings: Settings, code: str) -> None:
    require_sense(Settings("7", "2", "1", "a:1"))
    with pytest.raises(SxError) as raised:
        require_sense(settings)
    assert raised.value.diagnostic.code == code


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (TWO, (2, 1)),
        (Settings(nodes="many", node_rank="1", rendezvous="a:1", gradients="f16"), (None, 1)),
        (Settings(node_rank="0", rendezvous="a:1"), (None, 0)),
        (Settings(nodes="10", node_rank="10", rendezvous="a:1"), (10, 10)),
    ],
)
def test_whom_a_machine_with_wrong_variables_can_tell(settings: Settings, wanted: tuple[int | None, int]) -> None:
    found = reachable(settings)
    assert found is not None
    assert found.rank == wanted[1]
    assert found.count == wanted[0] or wanted[0] is None
    for alone in (Settings(), Settings(nodes="1", node_rank="0", rendezvous="a:1"), Settings(nodes="2", node_rank="0")):
        assert reachable(alone) is None


def test_a_device_that_is_one() -> None:
    only_first(Settings(), "sim")
    only_first(Settings("0"), "sim")
    with pytest.raises(SxError) as raised:
        only_first(Settings("0,1"), "sim")
    assert raised.value.diagnostic.code == "E-DP-001"


def test_one_machine_needs_no_other_variable() -> None:
    assert nodes(Settings()) is None
    assert nodes(Settings(nodes="1", node_rank="0", rendezvous="a:1", wait="60")) is None


def test_several_machines() -> None:
    assert nodes(TWO) == Nodes(2, 1, "10.0.0.1", 29500, "bf16")
    six = Settings(nodes="3", node_rank="0", rendezvous="[fe80::1]:80", gradients="f32")
    assert nodes(six) == Nodes(3, 0, "fe80::1", 80, "f32")
    having_ranks("cuda")
    having_ranks("sim")


def test_several_machines_have_gpus() -> None:
    with pytest.raises(SxError) as raised:
        having_ranks("cpu")
    assert raised.value.diagnostic.code == "E-DP-005"


@pytest.mark.parametrize(
    "settings",
    [
        Settings(nodes="0"),
        Settings(nodes="1", node_rank="1"),
        Settings(nodes="1", rendezvous="foo"),
        Settings(nodes="two"),
        Settings(nodes="2", rendezvous="a:1"),
        Settings(nodes="2", node_rank="2", rendezvous="a:1"),
        Settings(nodes="2", node_rank="-1", rendezvous="a:1"),
        Settings(nodes="2", node_rank="0"),
        Settings(nodes="2", node_rank="0", rendezvous="host"),
        Settings(nodes="2", node_rank="0", rendezvous="host:0"),
        Settings(nodes="2", node_rank="0", rendezvous="host:99999"),
        Settings(gradients="f16"),
    ],
)
def test_machines_that_are_refused(settings: Settings) -> None:
    with pytest.raises(SxError) as raised:
        nodes(settings)
    assert raised.value.diagnostic.code == "E-DP-005"


@pytest.mark.parametrize(
    ("ranks", "machines", "devices", "nodes"), [(2, 1, True, False), (2, 2, False, True), (4, 2, True, True)]
)
def test_what_helps_where_microbatches_do_not_divide(ranks: int, machines: int, devices: bool, nodes: bool) -> None:
    """Machines of one GPU each have no fewer devices to name."""
    said = not_divided(RunConfig(1, None, microbatches=3), ranks, machines)
    assert said is not None
    assert said.help is not None
    assert ("SEXPGPU_DEVICES" in said.help, "SEXPGPU_NODES" in said.help) == (devices, nodes)
    assert f":microbatches a multiple of {ranks}" in said.help


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (Settings(node_rank="1"), "SEXPGPU_NODE_RANK"),
        (Settings(rendezvous="a:1"), "SEXPGPU_RENDEZVOUS"),
        (Settings(gradients="f32"), "SEXPGPU_NODE_GRADIENTS"),
        (Settings(wait="60"), "SEXPGPU_NODE_WAIT"),
    ],
)
def test_a_machine_whose_count_was_forgotten_does_not_train_alone(settings: Settings, name: str) -> None:
    with pytest.raises(SxError) as raised:
        nodes(settings)
    said = raised.value.diagnostic
    assert (said.code, said.message) == ("E-DP-005", f"{name} is set and SEXPGPU_NODES is not")
