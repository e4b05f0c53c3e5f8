"""Whether all ranks hold the same before a checkpoint is written: by digests, then by the first difference.

Every rank makes the same updates of the same gradients, so its tensors are those of rank 0 bit for bit; what else they
are would go into every later step unseen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from sexpgpu.data.arrays import type_text
from sexpgpu.diag import SxError, error
from sexpgpu.experiment import Experiment
from sexpgpu.runtime.calls import Tensors
from sexpgpu.runtime.checkpoint import flat_tensors
from sexpgpu.runtime.engine import Array, Tensor
from sexpgpu.runtime.peers import Told
from sexpgpu.runtime.ranks import Team
from sexpgpu.runtime.restore import expected_tensors
from sexpgpu.tensortype import DType

_KINDS = {"param": "parameter", "state": "optimizer state", "buffer": "buffer"}


@frozen
class Difference:
    """What two ranks, or machines, hold in two ways."""

    message: str
    expected: str
    actual: str


def require_agreement(step: int, team: Team, own: Tensors, experiment: Experiment) -> None:
    """`E-DP-004` where ranks or machines differ at the checkpoint of a step. All machines call it at once."""
    if team.count == 1:
        return
    held = [flat_tensors(each) for each in team.tensors(own)]
    digests = [digest(tensors, arrays.host) for tensors, arrays in zip(held, team.arrays, strict=True)]
    found = _between_choices(step, team, [arrays.chosen() for arrays in team.arrays])
    for rank in range(1, len(held)):
        if found is None and digests[rank] != digests[0]:
            found = _between_ranks(step, team, held, rank, experiment)
    if team.peers is not None:
        choices = hashlib.sha256(repr(sorted(team.arrays[0].chosen().items())).encode()).hexdigest()
        told = {"digest": digests[0], "choices": choices, "difference": _as_list(found)}
        several = team.peers.exchange(Told(told), lambda all: Told({"all": [each.header for each in all]}))
        found = _between_machines(step, several.header["all"])
    if found is not None:
        raise _disagreement(found)


def digest(tensors: Mapping[str, Tensor], host: Callable[[Tensor], Array]) -> str:
    """SHA-256 of names, types and bytes."""
    whole = hashlib.sha256()
    for key, tensor in tensors.items():
        array = np.ascontiguousarray(host(tensor))
        whole.update(f"{key} {type_text(array)}\n".encode())
        whole.update(array.reshape(-1).view(np.uint8).data)
    return whole.hexdigest()


def _between_ranks(
    step: int, team: Team, held: Sequence[Mapping[str, Tensor]], rank: int, experiment: Experiment
) -> Difference | None:
    """The first tensor of a rank of this process that is not what its first rank has."""
    dtypes = {key: type.dtype for key, type in expected_tensors(experiment).items()}
    for key, tensor in held[0].items():
        expected = team.arrays[0].host(tensor)
        other = held[rank].get(key)
        actual = None if other is None else team.arrays[rank].host(other)
        facts = differing(expected, actual, dtypes[key])
        if facts is not None:
            first, second = team.first, team.first + rank
            kind = _KINDS[key.partition("/")[0]]
            message = f"at the checkpoint of step {step} rank {second} has another {kind} than rank {first}: {key}"
            return Difference(message, f"rank {first}: {facts[0]}", f"rank {second}: {facts[1]}")
    return None


def differing(expected: Array, actual: Array | None, dtype: DType) -> tuple[str, str] | None:
    """The types of two arrays where these differ, else the first element whose bits do; None for equal arrays."""
    if actual is None or (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return type_text(expected), "nothing" if actual is None else type_text(actual)
    bits = np.dtype(f"u{expected.dtype.itemsize}")
    left, right = (np.ascontiguousarray(each).reshape(-1).view(bits) for each in (expected, actual))
    places = np.flatnonzero(left != right)
    if not places.size:
        return None
    at = int(places[0])
    first, second = (shown(each.reshape(-1)[at : at + 1], dtype) for each in (expected, actual))
    return f"element {at} is {first}", f"element {at} is {second}"


def shown(element: Array, dtype: DType) -> str:
    """The value of an array of one element; that of a float with its bits: `-0.0 (0x80000000)`."""
    (value,) = element.tolist()
    if element.dtype.kind != "f":
        return str(value)
    bits = int(element.view(f"u{element.dtype.itemsize}")[0])
    width = 2 * element.dtype.itemsize
    if dtype == "bf16":  # on the host the upper half of an f32
        bits, width = bits >> 16, 4
    return f"{value!r} (0x{bits:0{width}x})"


def _between_choices(step: int, team: Team, chosen: Sequence[Mapping[str, str]]) -> Difference | None:
    """The first choice between kernels and a library that a rank of this process made otherwise than its first."""
    for rank, each in enumerate(chosen):
        for what in dict.fromkeys((*chosen[0], *each)):
            expected, actual = (mine.get(what, "nothing yet") for mine in (chosen[0], each))
            if expected != actual:
                first, second = team.first, team.first + rank
                message = f"at the checkpoint of step {step} rank {second} computes {what} otherwise than rank {first}"
                return Difference(message, f"rank {first}: {expected}", f"rank {second}: {actual}")
    return None


def _between_machines(step: int, told: Sequence[Mapping[str, Any]]) -> Difference | None:
    """What a machine found among its ranks, or the first machine that has not what machine 0 has."""
    for each in told:
        if each["difference"] is not None:
            return Difference(*each["difference"])
    for what, name in (("tensors", "digest"), ("choices of libraries", "choices")):
        for number, each in enumerate(told):
            if each[name] != told[0][name]:
                message = f"at the checkpoint of step {step} machine {number} has other {what} than machine 0"
                return Difference(message, f"SHA-256 {told[0][name]}", f"SHA-256 {each[name]}")
    return None


def _as_list(found: Difference | None) -> list[str] | None:
    return None if found is None else [found.message, found.expected, found.actual]


def _disagreement(found: Difference) -> SxError:
    return error(
        "E-DP-004",
        found.message,
        expected=found.expected,
        actual=found.actual,
        help="that checkpoint was not written: `--resume latest` goes on from the one before; please report all of "
        "this, with SEXPGPU_DEVICES",
    )
