"""Which GPUs of a machine a run takes, and which machine of several it is: what the environment says, checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from attrs import frozen

from sexpgpu.diag import SxError, error

Gradients = Literal["bf16", "f32"]


@frozen
class Settings:
    """The variables as they stand: SEXPGPU_DEVICES, and those of several machines."""

    devices: str | None = None
    nodes: str | None = None
    node_rank: str | None = None
    rendezvous: str | None = None
    gradients: str | None = None
    wait: str | None = None

    @property
    def of_machines(self) -> dict[str, str]:
        """What is set of several machines beside their count, by the variables' names."""
        several = {
            "SEXPGPU_NODE_RANK": self.node_rank,
            "SEXPGPU_RENDEZVOUS": self.rendezvous,
            "SEXPGPU_NODE_GRADIENTS": self.gradients,
            "SEXPGPU_NODE_WAIT": self.wait,
        }
        return {name: value for name, value in several.items() if value is not None}


@frozen
class Nodes:
    """Machine `rank` of `count`; `host` and `port` are where machine 0 listens. `gradients` is what they exchange."""

    count: int
    rank: int
    host: str
    port: int
    gradients: Gradients


def ordinals(settings: Settings, visible: int) -> tuple[int, ...]:
    """The GPUs of a run in the order of their ranks, all that are visible where nothing is said.

    `E-DP-001` where the text is no list of ordinals, names one twice or one that is not visible, or none is visible.
    """
    if visible == 0:
        raise _wrong_devices("no GPU is visible", "at least one", "none; CUDA_VISIBLE_DEVICES may hide them")
    if settings.devices is None:
        return tuple(range(visible))
    parts = [part.strip() for part in settings.devices.split(",")]
    if not all(re.fullmatch(r"[0-9]+", part) for part in parts):
        raise _wrong_devices("SEXPGPU_DEVICES is no list of GPUs", "ordinals, `0,1`", settings.devices)
    found = [int(part) for part in parts]
    for number in found:
        if found.count(number) > 1:
            raise _wrong_devices(f"SEXPGPU_DEVICES names GPU {number} twice", "each once", settings.devices)
        if number >= visible:
            raise _wrong_devices(
                f"SEXPGPU_DEVICES names GPU {number}, which is not visible",
                f"0 to {visible - 1}" if visible > 1 else "0",
                settings.devices,
            )
    return tuple(found)


def one_kind(chosen: Sequence[int], capabilities: Sequence[tuple[int, int]]) -> None:
    """`E-DP-001` where the GPUs of a run have not all the same compute capability: they would need other kernels."""
    for number, (major, minor) in zip(chosen, capabilities, strict=True):
        if (major, minor) != capabilities[0]:
            first, second = ".".join(map(str, capabilities[0])), f"{major}.{minor}"
            raise _wrong_devices(
                "the GPUs of a run are of one kind",
                f"compute capability {first}, which GPU {chosen[0]} has, in SEXPGPU_DEVICES",
                f"{second} for GPU {number}",
            )


SIMULATED = 8
"""The GPUs of a simulated machine."""


def simulated(settings: Settings) -> tuple[int, ...]:
    """The simulated GPUs of a run in the order of their ranks, one without a word.

    `E-DP-001` as for real ones.
    """
    return (0,) if settings.devices is None else ordinals(settings, SIMULATED)


def only_first(settings: Settings, device: str) -> None:
    """`E-DP-001` where a device that is one names another than number 0."""
    if settings.devices not in (None, "0"):
        raise _wrong_devices(f"{device} is one device", "0, or SEXPGPU_DEVICES unset", settings.devices)


def nodes(settings: Settings) -> Nodes | None:
    """The machines of a run; None for one alone.

    `E-DP-005` where a variable is wrong, or says something of several machines and none says how many: a machine whose
    count was forgotten would train alone.
    """
    if settings.gradients not in (None, "bf16", "f32"):
        raise _wrong_nodes("SEXPGPU_NODE_GRADIENTS is no dtype of gradients", "bf16 or f32", settings.gradients)
    if settings.nodes is None and settings.of_machines:
        name, value = next(iter(settings.of_machines.items()))
        expected = "the number of machines in SEXPGPU_NODES, 1 for one alone"
        raise _wrong_nodes(f"{name} is set and SEXPGPU_NODES is not", expected, f"{name}={value}")
    count = _count(settings.nodes)
    if count == 1:
        return None
    rank = settings.node_rank
    if rank is None or not re.fullmatch(r"[0-9]+", rank) or int(rank) >= count:
        raise _wrong_nodes("SEXPGPU_NODE_RANK is no machine of the run", f"0 to {count - 1}", rank)
    place = re.fullmatch(r"(\[[0-9A-Fa-f:]+\]|[^\s:\[\]]+):([0-9]{1,5})", settings.rendezvous or "")
    if place is None or not 0 < int(place[2]) < 65536:
        raise _wrong_nodes("SEXPGPU_RENDEZVOUS is no place to meet", "host:port of machine 0", settings.rendezvous)
    return Nodes(
        count, int(rank), place[1].strip("[]"), int(place[2]), "f32" if settings.gradients == "f32" else "bf16"
    )


def having_ranks(device: str) -> None:
    """`E-DP-005` where several machines cannot train on a device of this kind."""
    if device not in ("cuda", "sim"):
        raise _wrong_nodes("several machines train on GPUs", "the device cuda, or sim in its place", device)


def _count(text: str | None) -> int:
    if text is None:
        return 1
    if not re.fullmatch(r"[0-9]+", text) or int(text) == 0:
        raise _wrong_nodes("SEXPGPU_NODES is no count of machines", "a count from 1", text)
    return int(text)


def _wrong_devices(message: str, expected: str, actual: str | None) -> SxError:
    return error("E-DP-001", message, expected=expected, actual=actual)


def _wrong_nodes(message: str, expected: str, actual: str | None) -> SxError:
    return error("E-DP-005", message, expected=expected, actual=actual if actual is not None else "unset")
