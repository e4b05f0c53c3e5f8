"""Waiting for saves: file events of the folders of some files, and which events are one save of one of them.

Folders are watched, not files: an editor that saves by renaming leaves another file under the name. Whether a file was
saved is read from the file itself, so events of its neighbours, and our own reading, mean nothing.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sexpgpu.driver.extras import missing_package

QUIET = 0.03
"""Seconds without an event after which a save is complete."""
MOST = 0.3
"""Seconds after which a stream of events is answered all the same, and a file that is gone is taken to be."""
WATCHED = frozenset({"created", "modified", "moved", "deleted", "closed"})

Signature = tuple[int, int, int] | None
CHANGED: Signature = (-1, -1, -1)
"""No file's: one that has it has changed."""


class Saves:
    """Watches a set of files that may change from one wait to the next; E-DEV-010 where watchdog is missing."""

    def __init__(self) -> None:
        try:
            from watchdog.events import FileSystemEvent, FileSystemEventHandler
            from watchdog.observers import Observer
        except ImportError:
            raise missing_package("watchdog", "watch") from None
        events: queue.SimpleQueue[None] = queue.SimpleQueue()

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                if event.event_type in WATCHED:
                    events.put(None)

        self._events = events
        self._handler = Handler()
        self._observer = Observer()
        self._observer.start()
        self._folders: dict[Path, Any] = {}
        self._seen: dict[Path, Signature] = {}

    def watch(self, files: Iterable[str | Path], texts: Mapping[str, str]) -> None:
        """Wait for these files from now on; `texts` has what was read of those that were not waited for before.

        What happened to one of them since it was read, or found missing, is noticed by the next wait.
        """
        wanted = [Path(file) for file in files]
        known = {Path(name): text for name, text in texts.items()}
        new = [path for path in wanted if path not in self._seen]
        self._seen = {path: self._seen.get(path) for path in wanted}
        self._cover()
        for path in new:
            self._seen[path] = _signature(path)
            if _text(path) != known.get(path):
                self._seen[path] = CHANGED

    def note(self, files: Iterable[str | Path]) -> None:
        """Take these files as they are now: what is read of them from here on is no news."""
        self._seen |= {path: _signature(path) for path in map(Path, files)}

    def wait(self) -> list[Path]:
        """Block until a save of one of the files is complete, and give those that changed."""
        while True:
            changed = self._settled()
            if changed:
                return changed
            self._events.get()
            self._cover()

    def close(self) -> None:
        self._observer.stop()
        self._observer.join()

    def _settled(self) -> list[Path]:
        """The files that have changed, once nothing more happens to them."""
        started = time.monotonic()
        while True:
            changed = [path for path, seen in self._seen.items() if _signature(path) != seen]
            if not changed:
                return []
            waited = time.monotonic() - started
            gone = any(not path.exists() for path in changed)
            if waited >= MOST or (not gone and not self._eventful(QUIET)):
                return changed
            if gone:
                self._eventful(QUIET)

    def _eventful(self, seconds: float) -> bool:
        """Whether something happens within the time given."""
        try:
            self._events.get(timeout=seconds)
        except queue.Empty:
            return False
        while not self._events.empty():
            self._events.get()
        return True

    def _cover(self) -> None:
        """Watch the nearest existing folder above each file and, of a link, above the link; and no other."""
        wanted = {_nearest_folder(above) for path in self._seen for above in (path.absolute(), path.resolve())}
        for folder in self._folders.keys() - wanted:
            self._observer.unschedule(self._folders.pop(folder))
        for folder in wanted - self._folders.keys():
            self._folders[folder] = self._observer.schedule(self._handler, str(folder))


def _signature(path: Path) -> Signature:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _nearest_folder(path: Path) -> Path:
    folder = path.parent.resolve()
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder
