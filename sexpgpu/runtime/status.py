"""The status file: one small JSON object that says how a run stands, replaced as a whole."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from attrs import define, field

from sexpgpu.diag import Diagnostic
from sexpgpu.diag.strict import json_text
from sexpgpu.experiment import Experiment
from sexpgpu.runtime.durable import replace_file

State = Literal["compiling", "running", "evaluating", "stopped", "finished", "failed"]
_PERIOD = 0.5  # seconds between two files of one state


@define
class Status:
    """Keeps `path` up to date; a full disk costs an update, never the run."""

    path: Path
    experiment: Experiment
    steps: int = 0
    _facts: dict[str, Any] = field(factory=dict, init=False)
    _state: State = field(default="compiling", init=False)
    _written: float = field(default=0.0, init=False)

    def update(self, state: State, facts: Mapping[str, object], error: Diagnostic | None = None) -> None:
        """Remembers facts (`step loss metrics rate eta`), writes them if the state is new or the file is
        old.
        """
        self._facts |= facts
        now = time.monotonic()
        if state == self._state and error is None and now - self._written < _PERIOD:
            return
        self._state, self._written = state, now
        manifest = self.experiment.manifest
        fault = {"code": error.code, "message": error.message} if error else None
        document = {
            "state": state,
            "entry": manifest.entry,
            "variant": manifest.variant,
            "point": manifest.point,
            "set": {knob.name: knob.value for knob in manifest.knobs if knob.source == "set"},
            "steps": self.steps,
            **self._facts,
            "error": fault,
            "time": round(time.time(), 3),
        }
        try:
            replace_file(self.path, json_text(document).encode() + b"\n")
        except OSError:
            self._written = 0.0
