"""The directory of a run: its name, the lock on it, the manifest and the sources copied into it."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from attrs import define, field

from sexpgpu.diag import SxError, error
from sexpgpu.diag.strict import json_text
from sexpgpu.experiment import Experiment, Manifest
from sexpgpu.runtime.checkpoint import CHECKPOINTS, MANIFEST
from sexpgpu.runtime.durable import replace_file
from sexpgpu.runtime.manifest import manifest_json, slug

EVENTS = "events.jsonl"
STATUS = "status.json"
_LOCK = ".lock"


@define
class RunDirectory:
    """A run's directory, held by this process alone while the `with` lasts.

    The `with` makes nothing: a directory that is not there yet is made, and held, by `create`, once a run is certain
    to begin. `run_id` names the run for good; `known` says that the directory's manifest has it, so that it is not new.
    """

    path: Path
    run_id: str = ""
    known: bool = field(default=False, init=False)
    history: bool = field(default=False, init=False)  # a run has been here before
    _lock: int | None = field(default=None, init=False)

    def __enter__(self) -> RunDirectory:
        """`E-IO-003` when another process holds the directory, `E-IO-001` when it cannot be held."""
        if (self.path / _LOCK).exists():
            self._hold()
        self.history = holds_a_run(self.path)
        known = self._known_id()
        self.known = known is not None
        self.run_id = known or secrets.token_hex(8)
        return self

    def create(self) -> None:
        """Makes the directory where it is not there yet; `E-IO-001` when it cannot be made, `E-IO-003` as above."""
        if self._lock is not None:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise self._not_written(fault) from None
        self._hold()
        if not self.history and holds_a_run(self.path):
            raise error("E-IO-003", f"another process has begun a run in {self.path}")

    def _hold(self) -> None:
        try:
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as fault:
            raise self._not_written(fault) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise error("E-IO-003", f"another process is running in {self.path}") from None
        self._lock = lock

    def _not_written(self, fault: OSError) -> SxError:
        at = next((p for p in (self.path, *self.path.parents) if p.exists()), self.path)
        actual = (fault.strerror or str(fault)) if at.is_dir() else f"{at} is a file"
        return error("E-IO-001", f"{self.path} cannot be written", expected="a folder", actual=actual)

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            os.close(self._lock)

    @property
    def events(self) -> Path:
        return self.path / EVENTS

    @property
    def status(self) -> Path:
        return self.path / STATUS

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    @property
    def samples(self) -> Path:
        return self.path / "samples"

    def write_manifest(
        self,
        experiment: Experiment,
        device: str,
        fitted: Mapping[str, Any],
        sources: Mapping[str, str],
        file: Path | None = None,
    ) -> None:
        """`manifest.json`, and `sources` (texts by their names in the manifest) under `source/`.

        `file`, the entry as it was given, tells later verbs where the data lie that it names.
        """
        facts = {
            "run": self.run_id,
            "manifest": manifest_json(experiment.manifest),
            "device": device,
            "versions": versions(experiment.manifest),
            "fitted": fitted,
            "file": None if file is None else str(file.resolve()),
        }
        text = json_text(facts, indent=1)
        replace_file(self.path / MANIFEST, text.encode())
        for name, source in sources.items():
            target = self.path / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(source, encoding="utf-8")

    def _known_id(self) -> str | None:
        try:
            known = json.loads((self.path / MANIFEST).read_bytes())["run"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return str(known)


def versions(manifest: Manifest) -> dict[str, str]:
    return {
        "sexpgpu": manifest.version,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "system": platform.platform(),
    }


def holds_a_run(path: Path) -> bool:
    """Whether there are events or checkpoints of a run."""
    events = path / EVENTS
    checkpoints = path / CHECKPOINTS
    return (events.is_file() and events.stat().st_size > 0) or (checkpoints.is_dir() and any(checkpoints.iterdir()))


def choose_directory(experiment: Experiment, runs: Path, out: Path | None, resume: str | None) -> Path:
    """Where a run goes.

    `out` where it is given; beside the checkpoint that `resume` names; the newest `runs/SLUG` to resume
    `latest`; else the first of `runs/SLUG`, `runs/SLUG-2`, … that holds none. `E-IO-002` for an `out` that
    holds a run.
    """
    if out is not None:
        if resume is None and holds_a_run(out):
            raise error(
                "E-IO-002",
                f"{out} holds a run already",
                help="`--resume latest` goes on with it; another `--out` starts beside it",
            )
        return out
    if resume is not None and resume != "latest":
        checkpoint = Path(resume).resolve()
        if checkpoint.parent.name == CHECKPOINTS:
            return checkpoint.parent.parent
    name = slug(experiment)
    taken = []
    number = 1
    while holds_a_run(path := runs / (name if number == 1 else f"{name}-{number}")):
        taken.append(path)
        number += 1
    return taken[-1] if taken and resume == "latest" else path
