"""What was measured on a device, in one file for all runs of a machine: seconds of each way to do a thing.

    {"<key>": {"cudnn": 1.2e-5, "kernels": 1.4e-5}, "<key>": {"1": 0.1289, "2": 0.1352, "4": 0.1302}}

Whoever measures makes the key of all that the times depend on: what is computed, the device, the versions. Entries that
somebody else wrote stay, whatever they hold. Delete the file to measure again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from sexpgpu.diag import Diagnostic

FILE = "choices.json"
Times = dict[str, float]
"""Seconds by the name of the way."""


def key_of(*parts: str) -> str:
    """The name of an entry that depends on these texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@define(eq=False)
class Choices:
    """The file; without one, times are kept as long as this process lives. `told` hears of a file that is damaged."""

    file: Path | None = None
    told: Callable[[Diagnostic], None] = lambda damaged: None
    _found: dict[str, Times] = field(factory=dict, init=False)
    _damage_told: bool = field(default=False, init=False)

    def find(self, key: str, ways: Collection[str]) -> Times | None:
        """The seconds of just these ways, which this run or another measured."""
        known = self._found.get(key) or _times(self._read().get(key))
        return known if known is not None and known.keys() == set(ways) else None

    def keep(self, key: str, times: Mapping[str, float]) -> None:
        """Write an entry. A folder that cannot be written keeps nothing: the next run measures again."""
        self._found[key] = dict(times)
        if self.file is None:
            return
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self.file.with_suffix(".lock")):
                whole = {**self._read(), key: dict(times)}
                fresh = self.file.with_suffix(".part")  # ours alone: the lock is held
                fresh.write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
                os.replace(fresh, self.file)

    def _read(self) -> dict[str, Any]:
        """All entries, nothing of a file that is no object of JSON."""
        if self.file is None:
            return {}
        try:
            found = json.loads(self.file.read_text("utf-8"))
            if isinstance(found, dict):
                return found
            reason = f"it holds a {type(found).__name__}"
        except OSError:  # not there, or not ours to read
            return {}
        except (ValueError, RecursionError) as fault:
            reason = str(fault)
        if not self._damage_told:
            self._damage_told = True
            self.told(
                Diagnostic(
                    "W-IO-003",
                    f"{self.file} is damaged: what it held is measured again",
                    actual=reason,
                    severity="warning",
                )
            )
        return {}


def _times(entry: Any) -> Times | None:
    """An entry that says of each way how long it takes."""
    if not isinstance(entry, dict) or not entry:
        return None
    good = all(isinstance(each, int | float) and not isinstance(each, bool) and each > 0 for each in entry.values())
    return {name: float(each) for name, each in entry.items()} if good else None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Nobody else within; released with the file, however the process ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
