"""Writing checkpoints: shards first, `checkpoint.json` last, so that a directory is complete or plainly is
not.

`checkpoints/step-00000500/` holds safetensors shards whose names carry the writer's nonce, and the index,
which names each with its length and SHA-256. The index takes its name by a rename, after everything it names
is on the disk. An attempt that dies leaves files that no index names; the next commit of that step clears
them away.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen

from sexpgpu.runtime.calls import Tensors
from sexpgpu.runtime.durable import replace_synced, sync_directory, write_synced
from sexpgpu.runtime.engine import Array, Tensor
from sexpgpu.runtime.standing import LOOP

CHECKPOINTS = "checkpoints"
INDEX = "checkpoint.json"
MANIFEST = "manifest.json"
"""Of the run, beside `checkpoints`."""
FORMAT = 1
ROUNDING = "rounding"
"""How the names begin of what rounding has taken of gradients: `rounding/RANK/PATH`, `rounding/sum/PATH`."""
_SHARD_BYTES = 64 << 20
_KINDS = ("param", "buffer", "state")


@frozen
class Position:
    """Where in its course a run is, beside its tensors.

    `step` steps are done; `skipped` of them, the last in a row, were refused; the passes in `evaluated` have
    had their turn at this step; `events` is the length of the event stream when it was taken. `waiting` are the
    events before it that the stream had no room for, as lines; `lost` counts those that the checkpoint had no
    room for either. `stage` is that of the train loader; `observed` are the metrics of the passes that had their turn,
    which a curriculum may still want. `stacking` is the number of microbatches of a call, where a device chose it.
    """

    step: int
    skipped: int
    evaluated: tuple[str, ...]
    events: int
    waiting: tuple[str, ...] = ()
    lost: int = 0
    stage: int = 0
    observed: Mapping[str, float] = field(factory=dict)
    stacking: int | None = None


@frozen
class Written:
    path: Path
    nonce: str
    bytes: int


def step_directory(root: Path, step: int) -> Path:
    return root / f"step-{step:08d}"


def flat_tensors(tensors: Tensors) -> dict[str, Tensor]:
    """Every tensor of a run under `param/PATH`, `buffer/PATH` or `state/PATH/NAME`."""
    groups = (tensors.params, tensors.buffers, tensors.states)
    pairs = zip(_KINDS, groups, strict=True)
    return {f"{kind}/{name}": array for kind, group in pairs for name, array in group.items()}


def _as_it_is(tensor: Tensor) -> Array:
    array: Array = tensor
    return array


def write_checkpoint(
    root: Path,
    position: Position,
    tensors: Tensors,
    facts: Mapping[str, Any],
    host: Callable[[Tensor], Array] = _as_it_is,
    more: Mapping[str, Array] | None = None,
) -> Written:
    """Commits a checkpoint under `root`; `facts` (the run's id and manifest) go into the index.

    `host` gives the values of a tensor that is not the host's own; it is asked for one at a time. `more` are arrays
    beside the run's tensors, by their names.

    An `OSError` means that nothing was committed: what was there before is as it was.
    """
    target = step_directory(root, position.step)
    nonce = secrets.token_hex(8)
    temporary = target / f"{INDEX}.{nonce}.tmp"
    files: dict[str, dict[str, object]] = {}
    index: dict[str, dict[str, object]] = {}
    try:
        target.mkdir(parents=True, exist_ok=True)
        sync_directory(root)
        for number, shard in enumerate(chain(_shards(flat_tensors(tensors), host), _shards(more or {}, _as_it_is))):
            name = f"tensors-{number:04d}-{nonce}.safetensors"
            LOOP.began(f"writing {name}")
            data = serialized(shard)
            write_synced(target / name, data)
            files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for key, array in shard.items():
                index[key] = {"file": name, "shape": list(array.shape), "dtype": array.dtype.name}
        sync_directory(target)
        body = {
            "format": FORMAT,
            "step": position.step,
            "skipped": position.skipped,
            "evaluated": list(position.evaluated),
            "events": position.events,
            "waiting": list(position.waiting),
            "lost": position.lost,
            "stage": position.stage,
            # As hexadecimal text: exact, and a place for what JSON has no number for.
            "observed": {name: float(value).hex() for name, value in position.observed.items()},
            "stacking": position.stacking,
            "nonce": nonce,
            "files": files,
            "tensors": index,
            **facts,
        }
        replace_synced(target / INDEX, sealed(body), temporary)
    except OSError:
        _take_back(target, nonce)
        raise
    _clear(target, {INDEX, *files})
    return Written(target, nonce, sum(int(str(file["bytes"])) for file in files.values()))


def serialized(shard: Mapping[str, Array]) -> bytes:
    """The safetensors form of some arrays."""
    from safetensors.numpy import save

    # Memory is written as it lies, so it must be contiguous; making it so turns shape () into (1,).
    return save({key: np.ascontiguousarray(array).reshape(array.shape) for key, array in shard.items()})


def sealed(body: Mapping[str, Any]) -> bytes:
    """The index as text: the SHA-256 of the body's canonical form, then the body in that form."""
    text = canonical(body)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"sha256":"{digest}","body":{text}}}\n'.encode()


def canonical(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def remove_checkpoint(path: Path) -> None:
    """Deletes a checkpoint, its index first: interrupted, it leaves nothing that looks complete."""
    (path / INDEX).unlink(missing_ok=True)
    sync_directory(path)
    shutil.rmtree(path)
    sync_directory(path.parent)


def set_aside(root: Path, after: int, nonce: str) -> list[Path]:
    """Moves checkpoints of steps behind `after` out of the way of the history that goes on from it."""
    moved = []
    for step, path in numbered(root):
        if step > after:
            target = root / "superseded" / f"{path.name}-{nonce}"
            target.parent.mkdir(exist_ok=True)
            os.replace(path, target)
            moved.append(target)
    if moved:
        sync_directory(root / "superseded")
        sync_directory(root)
    return moved


def numbered(root: Path) -> list[tuple[int, Path]]:
    """The checkpoint directories under `root` by step, complete or not, in the order of their steps."""
    found = []
    for path in root.glob("step-*") if root.is_dir() else ():
        digits = path.name.removeprefix("step-")
        if digits.isdecimal() and path.is_dir():
            found.append((int(digits), path))
    return sorted(found)


def surplus(steps: Iterable[int], keep: int | None, keep_every: int | None, kept_for: int | None) -> list[int]:
    """The steps whose checkpoints may go: all but the `keep` newest, the multiples of `keep_every`, and the
    one that the run was resumed from. Without `keep` none goes.
    """
    if keep is None:
        return []
    old = sorted(steps)[:-keep]
    return [s for s in old if s != kept_for and (keep_every is None or s % keep_every != 0)]


def _shards(tensors: Mapping[str, Tensor], host: Callable[[Tensor], Array]) -> Iterator[dict[str, Array]]:
    shard: dict[str, Array] = {}
    size = 0
    for key, tensor in tensors.items():
        array = host(tensor)
        if shard and size + array.nbytes > _SHARD_BYTES:
            yield shard
            shard, size = {}, 0
        shard[key] = array
        size += array.nbytes
    if shard:
        yield shard


def _take_back(target: Path, nonce: str) -> None:
    """Removes what an attempt left, its index first should that have got its name."""
    index = target / INDEX
    if index.exists() and nonce.encode() in index.read_bytes():
        index.unlink()
    for left in target.glob(f"*{nonce}*"):
        left.unlink()
    if target.is_dir() and not any(target.iterdir()):
        target.rmdir()


def _clear(target: Path, named: set[str]) -> None:
    for path in target.iterdir():
        if path.name not in named:
            path.unlink()
