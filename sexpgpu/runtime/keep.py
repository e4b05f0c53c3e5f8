"""The checkpoints of a running experiment: when one fails training goes on, when one succeeds old ones may
go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import define, evolve, field

from sexpgpu.diag import Diagnostic, SxError, warning
from sexpgpu.experiment import RunConfig
from sexpgpu.runtime.arrays import Arrays, HostArrays
from sexpgpu.runtime.calls import Tensors
from sexpgpu.runtime.checkpoint import Position, Written, numbered, remove_checkpoint, surplus, write_checkpoint
from sexpgpu.runtime.engine import Array
from sexpgpu.runtime.events import EventStream
from sexpgpu.runtime.restore import read_index, verify


@define
class Keeper:
    """Commits checkpoints under `root` and keeps as many as the file says.

    `facts` identify the run in each; `resumed_from` is the step of the checkpoint that must not be deleted;
    `last` the step of the newest one that is there. `arrays` has the tensors.
    """

    root: Path
    run: RunConfig
    facts: Mapping[str, Any]
    events: EventStream
    report: Callable[[Diagnostic], None]
    resumed_from: int | None = None
    last: int | None = None
    arrays: Arrays = field(factory=HostArrays)

    def due(self, step: int) -> bool:
        every = self.run.checkpoint_every
        return every is not None and step % every == 0 and step != self.last

    def commit(self, position: Position, tensors: Tensors, errors: Mapping[str, Array] | None = None) -> bool:
        """Writes, verifies, then lets old ones go. A failure is reported, costs nothing else, and gives
        False. What a position says of the event stream is filled in here.
        `errors` are what rounding has taken of gradients, by their names in a checkpoint.
        """
        started = time.perf_counter()
        step = position.step
        try:
            length = self.events.sync()
            written = self._write(evolve(position, events=length, waiting=self.events.waiting), tensors, errors or {})
            verify(written.path)
        except (OSError, SxError) as fault:
            self._failed(step, fault)
            return False
        self.last = step
        self.events.write(
            "checkpoint",
            step,
            path=f"{self.root.name}/{written.path.name}",
            nonce=written.nonce,
            bytes=written.bytes,
            seconds=round(time.perf_counter() - started, 6),
        )
        self._let_go()
        return True

    def _write(self, position: Position, tensors: Tensors, errors: Mapping[str, Array]) -> Written:
        try:
            return write_checkpoint(self.root, position, tensors, self.facts, self.arrays.host, errors)
        except OSError:
            if not position.waiting:
                raise
            # What filled the stream may leave room for the tensors, and they matter more.
            bare = evolve(position, waiting=(), lost=len(position.waiting))
            return write_checkpoint(self.root, bare, tensors, self.facts, self.arrays.host, errors)

    def _failed(self, step: int, fault: OSError | SxError) -> None:
        reason = fault.diagnostic.message if isinstance(fault, SxError) else fault.strerror or str(fault)
        message = f"the checkpoint of step {step} could not be written: {reason}"
        self.events.write("warning", step, code="W-CKPT-001", message=message)
        self.report(warning("W-CKPT-001", message, help="training goes on; earlier checkpoints are untouched"))

    def _let_go(self) -> None:
        """Deletes this run's surplus; what cannot be read or belongs to another run is left alone."""
        mine = {}
        for step, path in numbered(self.root):
            try:
                if read_index(path)["run"] == self.facts["run"]:
                    mine[step] = path
            except SxError:
                continue
        for step in surplus(mine, self.run.keep, self.run.keep_every, self.resumed_from):
            try:
                remove_checkpoint(mine[step])
            except OSError as fault:
                message = f"{mine[step]} could not be deleted: {fault.strerror}"
                self.report(warning("W-CKPT-004", message))
