"""The stream of events: one JSON object a line, whole lines only, on the file before the next step starts."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import define, field

from sexpgpu.runtime.durable import write_all

SCHEMA = Path(__file__).with_name("events.schema.json")


def to_json(value: object) -> str:
    """One line of valid JSON: numbers in full, NaN and the infinities as the strings "NaN", "Infinity",
    "-Infinity".
    """
    return json.dumps(_plain(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _plain(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case str():
            return value
        case Sequence():
            return [_plain(item) for item in value]
        case _:
            return value


@define
class EventStream:
    """Appends to `path` from byte `offset` on.

    A write that fails (a full disk) leaves no part of a line behind; its lines wait and go out with the next
    one that succeeds.
    """

    path: Path
    offset: int
    _descriptor: int = field(init=False)
    _waiting: list[bytes] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, event: str, step: int, **facts: object) -> None:
        """Appends one event, stamped with the time."""
        line = to_json({"event": event, "time": round(time.time(), 3), "step": step, **facts})
        self._waiting.append(line.encode() + b"\n")
        data = b"".join(self._waiting)
        try:
            write_all(self._descriptor, data)
        except OSError:
            os.ftruncate(self._descriptor, self.offset)
            return
        self.offset += len(data)
        self._waiting.clear()

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
