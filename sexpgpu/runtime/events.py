"""The stream of events: one JSON object a line, whole lines only, on the file before the next step starts."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import define, field

from sexpgpu.diag import Diagnostic, SxError, error, warning
from sexpgpu.diag.strict import json_text
from sexpgpu.runtime.durable import write_all

SCHEMA = Path(__file__).with_name("events.schema.json")


@define
class EventStream:
    """Appends to `path`, whose first `offset` bytes are whole lines.

    A write that fails (a full disk) leaves no part of a line behind; its line and those after it wait, and go
    out as soon as there is room for them. `report` gets one `W-IO-001`, at the first such write.
    """

    path: Path
    offset: int
    report: Callable[[Diagnostic], None]
    _descriptor: int = field(init=False)
    _waiting: deque[bytes] = field(factory=deque, init=False)
    _fault: OSError | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, event: str, step: int, **facts: object) -> None:
        """Appends one event, stamped with the time."""
        self.append([json_text({"event": event, "time": round(time.time(), 3), "step": step, **facts})])

    def append(self, lines: Sequence[str]) -> None:
        """Appends events that are lines already."""
        self._waiting += (line.encode() + b"\n" for line in lines)
        try:
            if self._fault is not None:
                # The write that failed may have left a part of its line, and the cut after it may have failed.
                os.ftruncate(self._descriptor, self.offset)
            while self._waiting:
                write_all(self._descriptor, self._waiting[0])
                self.offset += len(self._waiting.popleft())
        except OSError as fault:
            self._failed(fault)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The events that are not on the file, as lines."""
        return tuple(line.decode().removesuffix("\n") for line in self._waiting)

    def lost(self) -> SxError | None:
        """`E-IO-004` where events are not on the file; to be asked at the end of a run."""
        if not self._waiting or self._fault is None:
            return None
        return error(
            "E-IO-004",
            f"{len(self._waiting)} events could not be written to {self.path}",
            actual=self._fault.strerror or str(self._fault),
            help="the tensors are safe; `--resume latest` writes the events that its checkpoint carries",
        )

    def _failed(self, fault: OSError) -> None:
        with suppress(OSError):
            os.ftruncate(self._descriptor, self.offset)
        if self._fault is None:
            reason = fault.strerror or str(fault)
            message = f"events cannot be written to {self.path}: {reason}"
            self.report(warning("W-IO-001", message, help="training goes on; they are tried again with each event"))
        self._fault = fault

    def sync(self) -> int:
        """Makes all that is written durable and gives its length, for a checkpoint to remember."""
        os.fsync(self._descriptor)
        return self.offset

    def close(self) -> None:
        os.close(self._descriptor)


def set_aside(path: Path, offset: int) -> int:
    """Moves what follows byte `offset` of a stream into a file beside it, and cuts the stream there.

    Those lines belong to steps that will run again. They are copied before they are cut, so none is ever
    lost. Gives the length of the stream, which is shorter than `offset` when lines were lost before.
    """
    if not path.exists():
        return 0
    data = path.read_bytes()
    tail = data[offset:]
    if tail:
        number = 1
        while (target := path.with_name(f"events.superseded-{number}.jsonl")).exists():
            number += 1
        target.write_bytes(tail)
        os.truncate(path, offset)
    return min(offset, len(data))
