"""The manifest as JSON, its short hash, and what differs between two."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from sexpgpu.diag import Note, error
from sexpgpu.experiment import Experiment, Manifest
from sexpgpu.runtime.checkpoint import canonical

_SLUG_LENGTH = 80

Data = Mapping[str, Mapping[str, Any]]
"""What the data of a run are, by loader and field: `records`, `bytes`, `sha256`."""


@frozen
class Change:
    """One thing that two runs disagree on: a knob, a source file, the version, the data of a field."""

    name: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.name}: {self.old} in the checkpoint, {self.new} now"


def manifest_json(manifest: Manifest) -> dict[str, Any]:
    return asdict(manifest)


def content_hash(manifest: Manifest) -> str:
    """8 hexadecimal digits of what decides the numbers: sources, knob values, version, flags; not where files
    lie.
    """
    facts = {"sources": _sources(manifest_json(manifest)), "knobs": _knobs(manifest_json(manifest))}
    text = canonical({**facts, "version": manifest.version, **_flags(manifest_json(manifest))})
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def slug(experiment: Experiment) -> str:
    """A directory name that tells a run: stem, variant, the knobs set by hand, the hash."""
    manifest = experiment.manifest
    chosen = [f"{knob.name}={knob.value}" for knob in manifest.knobs if knob.source in ("set", "point")]
    parts = [experiment.name, *([manifest.variant] if manifest.variant else []), *chosen]
    text = re.sub(r"[^A-Za-z0-9._=+-]+", "_", "-".join(parts))
    return f"{text[:_SLUG_LENGTH]}-{content_hash(manifest)}"


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """What differs between two manifests given as JSON values; `-` stands for what one does not have."""
    pairs = [(_knobs(old), _knobs(new)), (_sources(old), _sources(new))]
    pairs.append(({"version": str(old["version"])}, {"version": str(new["version"])}))
    pairs.append((_flags(old), _flags(new)))
    found = []
    for before, after in pairs:
        for name in dict.fromkeys((*before, *after)):
            if before.get(name) != after.get(name):
                found.append(Change(name, before.get(name, "-"), after.get(name, "-")))
    return found


def data_changes(old: Data, new: Data) -> list[Change]:
    """What differs between the data of two runs; digests are shown where nothing else tells them apart."""
    found = []
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name, {}), new.get(name, {})
        if before != after:
            alike = _extent(before) == _extent(after)
            found.append(Change(f"data of {name}", _extent(before, alike), _extent(after, alike)))
    return found


def _extent(facts: Mapping[str, Any], digest: bool = False) -> str:
    """`100 records, 4,105 bytes`; `-` for nothing."""
    parts = [f"{facts[unit]:,} {unit}" for unit in ("records", "bytes") if facts.get(unit) is not None]
    if digest:
        parts.append(f"SHA-256 {str(facts.get('sha256') or '-')[:12]}")
    return ", ".join(parts) or "-"


def require_none(experiment: Sequence[Change], data: Sequence[Change], path: Path) -> None:
    """`E-CKPT-003` where a checkpoint is of another experiment, or of other data."""
    if experiment or data:
        raise error(
            "E-CKPT-003",
            f"{path} is of another experiment" if experiment else f"{path} was trained on other data",
            notes=[Note(str(change)) for change in (*experiment, *data)],
            help="`--allow-changed` goes on regardless and records what changed",
        )


def _knobs(manifest: Mapping[str, Any]) -> dict[str, str]:
    return {knob["name"]: str(knob["value"]) for knob in manifest["knobs"]}


def _flags(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Those that decide the numbers, where they are given; manifests of this format were written without at first."""
    return {"--deterministic": "given"} if manifest.get("deterministic", False) else {}


def _sources(manifest: Mapping[str, Any]) -> dict[str, str]:
    """File (as seen from the entry's folder) -> start of its digest."""
    folder = os.path.dirname(manifest["entry"])
    return {os.path.relpath(file, folder or "."): digest[:12] for file, digest in manifest["sources"]}
