"""Runs the product the way a user does, `sexpgpu run`, and reads the events it wrote."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen


@frozen
class Events:
    """The events of one run, in order."""

    records: tuple[Mapping[str, Any], ...]

    def series(self, event: str, metric: str) -> dict[int, float]:
        """step -> value of `metric` in events of that kind; a step that reports it twice is an error."""
        found: dict[int, float] = {}
        for record in self.records:
            if record["event"] == event and metric in record.get("metrics", {}):
                if record["step"] in found:
                    raise ValueError(f"step {record['step']} reports {metric} twice")
                found[record["step"]] = float(record["metrics"][metric])
        return found


def run(file: Path, out: Path, *arguments: str, devices: str = "0") -> Events:
    """`sexpgpu run FILE --out OUT …` in its own process, on one device, or on those with these numbers.

    A run that fails ends ours, its diagnostics shown.
    """
    command = ["env", f"SEXPGPU_DEVICES={devices}", sys.executable, "-m", "sexpgpu", "run", str(file)]
    command += ["--out", str(out), "--quiet", *arguments]
    if code := subprocess.run(command, check=False).returncode:
        sys.exit(f"exit code {code} from: {shlex.join(command)}")
    lines = (out / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return Events(tuple(json.loads(line) for line in lines))
