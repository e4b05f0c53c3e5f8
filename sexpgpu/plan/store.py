"""Plans on disk, by the content of what they were made from; and the digest that says two plans are the same.

An entry is a pickle of plain records behind its own digest. Only the classes of records are ever made of it, and a file
that is damaged, foreign or of another version counts as absent: the plan is then made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from sexpgpu.plan.records import DevicePlans, GraphPlan, Plans, PtxModule

MAGIC = b"sexpgpu plans 1\n"
KEPT = 64
"""Entries that stay when another is written; the least recently used go."""

_RECORDS = frozenset(
    {
        "sexpgpu.plan.records",
        "sexpgpu.plan.library",
        "sexpgpu.plan.tables",
        "sexpgpu.plan.tensor_maps",
        "sexpgpu.experiment",
        "sexpgpu.tensortype",
        "sexpgpu.diag.record",
    }
)
_NUMPY = frozenset({"_reconstruct", "ndarray", "dtype", "_frombuffer", "scalar"})


def digest(plan: GraphPlan) -> str:
    """SHA-256 over everything the plan says: equal for plans that a device cannot tell apart."""
    hasher = hashlib.sha256()
    for part in _parts(plan):
        hasher.update(part)
    return hasher.hexdigest()


def key_of(parts: Iterable[str]) -> str:
    """The name of an entry made from these texts."""
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(f"{len(part)}:".encode())
        hasher.update(part.encode())
    return hasher.hexdigest()


def load(folder: Path, key: str) -> Plans | None:
    """The plans of an entry by their symbols, None where there is no good one."""
    found = _read(folder, key)
    return found if _are_plans(found) else None


def load_kernels(folder: Path, key: str) -> DevicePlans | None:
    """The plans of an entry with their kernels, None where there is no good one."""
    found = _read(folder, key)
    good = isinstance(found, DevicePlans) and _are_plans(found.plans)
    return found if good and all(isinstance(module, PtxModule) for module in found.modules) else None


def _are_plans(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(plan, GraphPlan) for plan in found.values())


def _read(folder: Path, key: str) -> Any:
    path = folder / f"{key}.plan"
    try:
        content = path.read_bytes()
        head, payload = content[: len(MAGIC) + 32], content[len(MAGIC) + 32 :]
        if head != MAGIC + hashlib.sha256(payload).digest():
            return None
        found = _Unpickler(io.BytesIO(payload)).load()
    except (OSError, pickle.UnpicklingError, AttributeError, TypeError, ValueError, EOFError):
        return None
    with contextlib.suppress(OSError):  # where nothing can be written, nothing is forgotten either
        os.utime(path)
    return found


def save(folder: Path, key: str, plans: Mapping[str, GraphPlan] | DevicePlans) -> None:
    """Write an entry in one motion. A folder that cannot be written keeps nothing, which harms nobody."""
    payload = pickle.dumps(plans if isinstance(plans, DevicePlans) else dict(plans), protocol=5)
    content = MAGIC + hashlib.sha256(payload).digest() + payload
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=folder, suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(name, folder / f"{key}.plan")
        except OSError:
            os.unlink(name)
            return
        _forget_old(folder)


def _forget_old(folder: Path) -> None:
    entries = sorted(folder.glob("*.plan"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in entries[KEPT:]:
        path.unlink(missing_ok=True)


class _Unpickler(pickle.Unpickler):
    """Makes records and arrays of numbers, nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if module in _RECORDS or (module.partition(".")[0] == "numpy" and name in _NUMPY):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a plan")


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}".encode()
        yield value.tobytes()
    elif attrs.has(type(value)):
        yield type(value).__name__.encode()
        for each in attrs.fields(type(value)):
            yield from _parts(getattr(value, each.name))
    elif isinstance(value, tuple):
        yield f"({len(value)}".encode()
        for item in value:
            yield from _parts(item)
    else:
        yield f"{type(value).__name__} {value!r};".encode()
