"""Checking a file again and again: the side that asks. What answers is a process that is loaded once (`incremental`).

Neither MLIR nor NumPy is imported here, so that an editor's server or `watch` itself stays small.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from attrs import field, frozen

from sexpgpu.diag import Diagnostic, Span
from sexpgpu.lang.selection import Selection

_BOOT = "import sys; sys.path[:] = {path!r}; from sexpgpu.driver.incremental import serve; serve({descriptor})"


@frozen
class Request:
    """Check `path` under a selection; `overlay` has the texts of files that an editor has not saved.

    Without `passes` the check ends when the graphs are traced. `names` asks for what the file's names are and for the
    types of its tensors, `library` for the library's names.
    """

    path: Path
    selection: Selection = field(factory=Selection)
    overlay: dict[str, str] = field(factory=dict)
    passes: bool = True
    names: bool = False
    library: bool = False


@frozen
class Name:
    """A name that a file may use. `kind` is function, macro, variable or special form, `span` its definition.

    `parameters` and `doc` are those of a function of Python's; what Lisp defines says them at its definition.
    """

    name: str
    kind: str
    parameters: str = ""
    doc: str = ""
    span: Span | None = None


@frozen
class Place:
    """A form, as characters of its file's text, and what it gave in the train graph."""

    start: int
    end: int
    types: tuple[str, ...]


@frozen
class Answer:
    """What a check found. The first of a request comes after tracing; `last` says that the passes have run too.

    `files` are the paths the answer depends on, those of missing files included; `texts` what was read. `places` are
    by file: of the checked one, and of those it requires that an editor has open. `knobs` are the file's with value
    and source. `fault` is the traceback of a fault of ours, and then there is nothing else.
    """

    path: Path
    last: bool
    diagnostics: tuple[Diagnostic, ...] = ()
    texts: dict[str, str] = field(factory=dict)
    files: tuple[str, ...] = ()
    parameters: int | None = None
    elements: int | None = None
    graphs: tuple[str, ...] | None = None
    names: tuple[Name, ...] = ()
    library: tuple[Name, ...] = ()
    places: dict[str, tuple[Place, ...]] = field(factory=dict)
    knobs: dict[str, str] = field(factory=dict)
    fault: str | None = None

    @property
    def errors(self) -> int:
        return sum(d.severity == "error" for d in self.diagnostics)

    @property
    def warnings(self) -> int:
        return len(self.diagnostics) - self.errors

    @property
    def ok(self) -> bool:
        return self.fault is None and not self.errors


class Checker:
    """A warm process and the connection to it; it is started again when it has died."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        boot = _BOOT.format(path=sys.path, descriptor=theirs.fileno())
        self._process = subprocess.Popen(
            [sys.executable, "-c", boot],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        theirs.close()
        self._connection = Connection(ours.detach())

    @property
    def process(self) -> int:
        """The process that answers."""
        return self._process.pid

    def answers(self, request: Request) -> Iterator[Answer]:
        """The answers to a request as they come; the last one has `last`."""
        try:
            self._connection.send(request)
            while True:
                answer: Answer = self._connection.recv()
                yield answer
                if answer.last:
                    return
        except (EOFError, ConnectionError):
            self.close()
            code = self._process.returncode
            self._start()
            yield Answer(request.path, last=True, fault=f"the process that checks has ended (exit code {code})")

    def check(self, request: Request) -> Answer:
        """The last answer to a request."""
        *_, last = self.answers(request)
        return last

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        try:
            self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
