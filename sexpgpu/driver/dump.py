"""Stages on disk: `NN-pass.mlir`, each the whole module with its locations, and `index.json`, which lists them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from attrs import define, field

from sexpgpu import __version__
from sexpgpu.diag import error
from sexpgpu.diag.strict import json_text
from sexpgpu.passes.base import Timing, count_ops

INDEX = "index.json"


def stage_text(module: Any) -> str:
    """A module as a dump holds it: it parses back with every location."""
    return str(module.operation.get_asm(enable_debug_info=True))


@define(eq=False)
class Dump:
    """Writes every stage that it is shown; `asked` is the flag or variable that wanted it.

    With `changed`, a stage that reads like the one before is listed but not written; the first one always is.
    """

    folder: Path
    pipeline: str
    asked: str
    changed: bool = False
    _stages: list[dict[str, Any]] = field(factory=list, init=False)

    def __call__(self, number: int, name: str, module: Any, timing: Timing | None) -> None:
        self.write(number, name, stage_text(module), timing, count_ops(module))

    def write(self, number: int, name: str, text: str, timing: Timing | None, ops: int) -> None:
        """Write one stage and the index so far; E-IO-105 where that fails."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        changed = not self._stages or self._stages[-1]["sha256"] != digest
        written = changed or not self.changed
        file = f"{number:02}-{name}.mlir"
        self._stages.append(
            {
                "number": number,
                "name": name,
                "spec": timing.spec if timing is not None else None,
                "file": file if written else None,
                "ms": round(timing.ms, 3) if timing is not None else None,
                "ops_before": timing.ops_before if timing is not None else None,
                "ops_after": ops,
                "did": timing.did if timing is not None else "",
                "changed": changed,
                "sha256": digest,
            }
        )
        index = {"schema": 1, "version": __version__, "pipeline": self.pipeline, "stages": self._stages}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if written:
                (self.folder / file).write_text(text, "utf-8")
            (self.folder / INDEX).write_text(json_text(index, indent=2) + "\n", "utf-8")
        except OSError as fault:
            raise error(
                "E-IO-105",
                f"{self.asked}: {self.folder} cannot be written",
                actual=str(fault.strerror),
                help="name a folder",
            ) from None
