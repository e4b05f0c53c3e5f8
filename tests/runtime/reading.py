"""Reading what a run left, for comparisons: its events without what time decides, its newest tensors."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from safetensors.numpy import load

from sexpgpu.runtime.checkpoint import INDEX, numbered
from sexpgpu.runtime.events import SCHEMA
from sexpgpu.runtime.restore import read_index

TIMED = ("time", "seconds", "versions", "nonce", "bytes", "resumed")


@cache
def validator() -> Any:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def events(out: Path, *kinds: str) -> list[dict[str, Any]]:
    """The events of those kinds, or all; each is valid, and each line is whole."""
    text = (out / "events.jsonl").read_text(encoding="utf-8")
    assert text.endswith("\n") or text == ""
    found = [json.loads(line) for line in text.splitlines()]
    for event in found:
        validator().validate(event)
    return [event for event in found if not kinds or event["event"] in kinds]


def timeless(out: Path, *kinds: str) -> list[dict[str, Any]]:
    """Events without clock times, speeds and memory."""
    found = []
    for event in events(out, *(kinds or ("step", "eval", "warning"))):
        kept = {key: value for key, value in event.items() if key not in TIMED}
        if "metrics" in kept:
            series = kept["metrics"].items()
            kept["metrics"] = {name: value for name, value in series if not name.startswith("runtime/")}
        found.append(kept)
    return found


def tensors(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """dtype, shape and bytes of every tensor of a checkpoint."""
    found = {}
    for name in read_index(path)["files"]:
        for key, array in load((path / name).read_bytes()).items():
            found[key] = (array.dtype.name, array.shape, array.tobytes())
    return found


def newest(out: Path) -> Path:
    return max(path for _, path in numbered(out / "checkpoints") if (path / INDEX).exists())


def last_tensors(out: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return tensors(newest(out))


def status(out: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((out / "status.json").read_text(encoding="utf-8"))
    return loaded
