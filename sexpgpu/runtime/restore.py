"""Reading checkpoints: verified byte for byte, compared with the experiment, the newest good one found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from sexpgpu.data.arrays import NUMPY_DTYPE, type_text
from sexpgpu.diag import Diagnostic, Note, SxError, error, warning
from sexpgpu.experiment import Experiment
from sexpgpu.runtime.calls import Tensors
from sexpgpu.runtime.checkpoint import CHECKPOINTS, FORMAT, INDEX, MANIFEST, ROUNDING, Position, canonical, numbered
from sexpgpu.runtime.engine import Array
from sexpgpu.runtime.standing import LOOP
from sexpgpu.tensortype import TensorType


@frozen
class Restored:
    path: Path
    position: Position
    tensors: Tensors
    rounding: Mapping[str, Array]  # what rounding had taken of gradients, of a run of several machines
    index: Mapping[str, Any]


def read_index(path: Path) -> dict[str, Any]:
    """The index of a checkpoint directory, its own digest verified; `E-CKPT-002` when it is damaged."""
    try:
        data = (path / INDEX).read_bytes()
    except OSError as fault:
        raise _damaged(path, f"{INDEX} cannot be read: {fault.strerror}") from None
    try:
        document = json.loads(data)
        body = document["body"]
        digest = hashlib.sha256(canonical(body).encode()).hexdigest()
        # The text must be the very one that was written: a flipped bit may also leave the same values.
        whole = f'{{"sha256":"{digest}","body":{canonical(body)}}}\n'.encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _damaged(path, f"{INDEX} is not an index") from None
    if whole != data:
        raise _damaged(path, f"the digest of {INDEX} does not match its text")
    if body["format"] != FORMAT:
        raise _damaged(path, f"{INDEX} has format {body['format']}, this program reads {FORMAT}")
    return dict(body)


def require_checkpoint(path: Path, instead: str = "`latest`") -> None:
    """`E-CKPT-008` unless the directory has the index that makes it a checkpoint; the notes list those near it.

    `instead` is what else the verb takes.
    """
    if (path / INDEX).is_file():
        return
    near = [found for root in (path / CHECKPOINTS, path, path.parent) for _, found in numbered(root)]
    if not path.exists():
        reason = "nothing is there"
    elif not path.is_dir():
        reason = "a file"
    elif (path / MANIFEST).is_file() and not numbered(path / CHECKPOINTS):
        reason = "the directory of a run that has no checkpoint yet"
    else:
        reason = f"a directory without {INDEX}"
    raise error(
        "E-CKPT-008",
        f"{path} is not a checkpoint",
        expected=f"{instead}, or a directory RUN/{CHECKPOINTS}/step-N with {INDEX}",
        actual=reason,
        notes=[Note(f"a checkpoint: {found}") for found in near if (found / INDEX).is_file()],
    )


def verify(path: Path) -> dict[str, Any]:
    """The index, after every file that it names was compared with its length and digest."""
    index = read_index(path)
    for name in index["files"]:
        read_shard(path, name, index)
    return index


def read_shard(path: Path, name: str, index: Mapping[str, Any]) -> bytes:
    """One file of a checkpoint; `E-CKPT-002` unless its bytes are those that were written."""
    LOOP.began(f"reading {name}")
    expected = index["files"][name]
    try:
        data = (path / name).read_bytes()
    except OSError as fault:
        raise _damaged(path, f"{name} cannot be read: {fault.strerror}") from None
    if len(data) != expected["bytes"]:
        raise _damaged(path, f"{name} has {len(data)} bytes of {expected['bytes']}")
    if hashlib.sha256(data).hexdigest() != expected["sha256"]:
        raise _damaged(path, f"the digest of {name} does not match its bytes")
    return data


def newest_good(root: Path, report: Callable[[Diagnostic], None]) -> Path | None:
    """The newest checkpoint that verifies; each damaged one on the way is reported. None when there is none
    at all; `E-CKPT-001` when all that there are are damaged.
    """
    directories = [path for _, path in numbered(root) if (path / INDEX).exists()]
    faults = []
    for path in reversed(directories):
        try:
            verify(path)
        except SxError as fault:
            message = fault.diagnostic.message
            faults.append(Note(message))
            report(warning("W-CKPT-002", f"{message}; the checkpoint before it is tried"))
        else:
            return path
    if faults:
        raise error("E-CKPT-001", f"no checkpoint in {root} is whole", notes=faults)
    return None


def restore(path: Path, experiment: Experiment) -> Restored:
    """A checkpoint's tensors and position; `E-CKPT-004` when its tensors are not the experiment's."""
    from safetensors.numpy import load

    index = read_index(path)
    arrays: dict[str, Array] = {}
    for name in index["files"]:
        loaded = load(read_shard(path, name, index))
        arrays |= {key: np.array(array) for key, array in loaded.items()}
    rounding = {key: arrays.pop(key) for key in list(arrays) if key.startswith(f"{ROUNDING}/")}
    expected = expected_tensors(experiment)
    _compare(path, expected, arrays)
    groups: dict[str, dict[str, Array]] = {"param": {}, "buffer": {}, "state": {}}
    for key in expected:
        kind, _, name = key.partition("/")
        groups[kind][name] = arrays[key]
    position = Position(
        index["step"],
        index["skipped"],
        tuple(index["evaluated"]),
        index["events"],
        # Checkpoints of this format were written without these at first.
        tuple(index.get("waiting", ())),
        index.get("lost", 0),
        index.get("stage", 0),
        {name: float.fromhex(value) for name, value in index.get("observed", {}).items()},
        index.get("stacking"),
    )
    stages = max(1, len(experiment.train_loader.stages))
    if position.stage >= stages:
        raise error(
            "E-CKPT-004",
            f"{path} is of a later stage of the train loader than the experiment has",
            expected=f"a stage below {stages}",
            actual=str(position.stage),
        )
    tensors = Tensors(groups["param"], groups["buffer"], groups["state"])
    return Restored(path, position, tensors, rounding, index)


def expected_tensors(experiment: Experiment) -> dict[str, TensorType]:
    """The tensors that a checkpoint of this experiment holds, in its order."""
    found = {f"param/{p.path}": p.type for p in experiment.parameters}
    for buffer in experiment.buffers:
        copies = (experiment.run.microbatches,) if buffer.per_microbatch else ()
        found[f"buffer/{buffer.path}"] = TensorType(copies + buffer.type.shape, buffer.type.dtype)
    found |= {f"state/{state.name}": state.type for state in experiment.states}
    return found


def _compare(path: Path, expected: Mapping[str, TensorType], arrays: Mapping[str, Array]) -> None:
    notes = [Note(f"missing: {key}") for key in expected if key not in arrays]
    notes += [Note(f"not in the experiment: {key}") for key in arrays if key not in expected]
    for key, type in expected.items():
        array = arrays.get(key)
        if array is not None and (array.shape, array.dtype) != (type.shape, NUMPY_DTYPE[type.dtype]):
            notes.append(Note(f"{key}: {type} expected, {type_text(array)} found"))
    if notes:
        raise error("E-CKPT-004", f"{path} holds other tensors than the experiment", notes=notes)


def _damaged(path: Path, reason: str) -> SxError:
    return error("E-CKPT-002", f"{path} is damaged: {reason}")
