"""Which GPUs of a machine a run takes, and which machine of several it is: what the environment says, checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from attrs import frozen

from sexpgpu import knobs
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


def settings() -> Settings:
    """What the environment says of GPUs and machines."""
    return Settings(
        knobs.DEVICES.get(),
        knobs.NODES.get(),
        knobs.NODE_RANK.get(),
        knobs.RENDEZVOUS.get(),
        knobs.NODE_GRADIENTS.get(),
        knobs.NODE_WAIT.text(),
    )


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
    found = listed(settings.devices)
    for number in found:
        if number >= visible:
            raise _wrong_devices(
                f"SEXPGPU_DEVICES names GPU {number}, which is not visible",
                f"0 to {visible - 1}" if visible > 1 else "0",
                settings.devices,
            )
    return found


def listed(devices: str) -> tuple[int, ...]:
    """What SEXPGPU_DEVICES lists; `E-DP-001` where that is no list of ordinals, or has one twice."""
    parts = [part.strip() for part in devices.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,9}", part) for part in parts):
        raise _wrong_devices("SEXPGPU_DEVICES is no list of GPUs", "ordinals, `0,1`", devices)
    found = [int(part) for part in parts]
    for number in found:
        if found.count(number) > 1:
            raise _wrong_devices(f"SEXPGPU_DEVICES names GPU {number} twice", "each once", devices)
    return tuple(found)


def require_sense(settings: Settings) -> None:
    """`E-DP-001` or `E-DP-005` where a variable means nothing, whatever is there and whoever would look at it."""
    if settings.devices is not None:
        listed(settings.devices)
    nodes(settings)


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
    rank, place = _rank(settings.node_rank), _place(settings.rendezvous)
    alone = count == 1
    if (rank is None or rank >= count) and not (alone and settings.node_rank is None):
        expected = "0, of a machine that is alone" if alone else f"0 to {count - 1}"
        raise _wrong_nodes("SEXPGPU_NODE_RANK is no machine of the run", expected, settings.node_rank)
    if place is None and not (alone and settings.rendezvous is None):
        raise _wrong_nodes("SEXPGPU_RENDEZVOUS is no place to meet", "host:port of machine 0", settings.rendezvous)
    if alone or rank is None or place is None:
        return None
    return Nodes(count, rank, *place, "f32" if settings.gradients == "f32" else "bf16")


def reachable(settings: Settings) -> Nodes | None:
    """As much of a machine of several as it takes to tell the others that it does not come; None where that makes no
    sense. The count may be more than there are.
    """
    rank, place = _rank(settings.node_rank), _place(settings.rendezvous)
    known = re.fullmatch(r"[0-9]{1,9}", settings.nodes or "")
    count = int(known[0]) if known is not None else 0
    return None if rank is None or place is None or count == 1 else Nodes(count or _ANY, rank, *place, "bf16")


_ANY = 1 << 20
"""Machines, where nobody knows how many."""


def _rank(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text) else None


def _place(text: str | None) -> tuple[str, int] | None:
    """Host and port."""
    found = re.fullmatch(r"(\[[0-9A-Fa-f:]+\]|[^\s:\[\]]+):([0-9]{1,5})", text or "")
    return (found[1].strip("[]"), int(found[2])) if found is not None and 0 < int(found[2]) < 65536 else None


def having_ranks(device: str) -> None:
    """`E-DP-005` where several machines cannot train on a device of this kind."""
    if device not in ("cuda", "sim"):
        raise _wrong_nodes("several machines train on GPUs", "the device cuda, or sim in its place", device)


def _count(text: str | None) -> int:
    if text is None:
        return 1
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise _wrong_nodes("SEXPGPU_NODES is no count of machines", "a count from 1", text)
    return int(text)


def _wrong_devices(message: str, expected: str, actual: str | None) -> SxError:
    return error("E-DP-001", message, expected=expected, actual=actual)


def _wrong_nodes(message: str, expected: str, actual: str | None) -> SxError:
    return error("E-DP-005", message, expected=expected, actual=actual if actual is not None else "unset")
