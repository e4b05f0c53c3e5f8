"""The manifest as JSON, its short hash, and what differs between two."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from sexpgpu.diag import Note, error
from sexpgpu.experiment import Experiment, Manifest
from sexpgpu.runtime.checkpoint import canonical

_SLUG_LENGTH = 80


@frozen
class Change:
    """One thing that two manifests disagree on: a knob, a source file or the version."""

    name: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.name}: {self.old} in the checkpoint, {self.new} now"


def manifest_json(manifest: Manifest) -> dict[str, Any]:
    return asdict(manifest)


def content_hash(manifest: Manifest) -> str:
    """8 hexadecimal digits of what decides the numbers: sources, knob values, version; not where files
    lie.
    """
    facts = {"sources": _sources(manifest_json(manifest)), "knobs": _knobs(manifest_json(manifest))}
    text = canonical({**facts, "version": manifest.version})
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
    found = []
    for before, after in pairs:
        for name in dict.fromkeys((*before, *after)):
            if before.get(name) != after.get(name):
                found.append(Change(name, before.get(name, "-"), after.get(name, "-")))
    return found


def require_same(old: Mapping[str, Any], new: Mapping[str, Any], allowed: bool, path: Path) -> list[Change]:
    """What a checkpoint's manifest has otherwise; `E-CKPT-003` when that is anything and not `allowed`."""
    found = changes(old, new)
    if found and not allowed:
        raise error(
            "E-CKPT-003",
            f"{path} is of another experiment",
            notes=[Note(str(change)) for change in found],
            help="`--allow-changed` goes on regardless and records what changed",
        )
    return found


def _knobs(manifest: Mapping[str, Any]) -> dict[str, str]:
    return {knob["name"]: str(knob["value"]) for knob in manifest["knobs"]}


def _sources(manifest: Mapping[str, Any]) -> dict[str, str]:
    """File (as seen from the entry's folder) -> start of its digest."""
    folder = os.path.dirname(manifest["entry"])
    return {os.path.relpath(file, folder or "."): digest[:12] for file, digest in manifest["sources"]}
