"""What compiling a text comes to, in a process of its own: the codes it gives, or how the compiler itself failed.

Each attempt is forked from a process that has loaded the compiler and the standard modules once, so that a crash, an
endless compilation or what one attempt leaves behind touches no other.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, frozen

from sexpgpu.diag import Diagnostics
from sexpgpu.dialects.context import Context, open_context
from sexpgpu.driver.compile import LIBRARY, finish, new_session, trace_in
from sexpgpu.driver.incremental import PRELUDE, prepare
from sexpgpu.driver.pipeline import Passes
from sexpgpu.driver.reproduce import PassFailed
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.selection import Selection
from sexpgpu.lang.session import Session

_PACKAGE = Path(__file__).resolve().parent.parent


@frozen
class Outcome:
    """The codes of all diagnostics in order; `internal` says how the compiler failed, where it did: what was raised
    and where, or the signal that ended the process."""

    codes: tuple[str, ...] = ()
    internal: str | None = None
    timed_out: bool = False


@define(eq=False)
class Trials:
    """Compiles texts in the place of one file, each in a child of this process."""

    path: Path
    selection: Selection
    skip: frozenset[str]
    seconds: float
    _context: Context
    _session: Session

    def outcome(self, text: str, pipeline: str) -> Outcome:
        """What the text comes to; the time bound of one trial ends it as nothing at all."""
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            code = 1
            try:
                os.close(reader)
                said = run_deep(lambda: self._compile(text, pipeline))
                with os.fdopen(writer, "w", encoding="utf-8") as stream:
                    json.dump(said, stream)
                code = 0
            finally:
                os._exit(code)
        os.close(writer)
        answer = _read(reader, time.monotonic() + self.seconds)
        if answer is None:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if answer is None:
            return Outcome(timed_out=True)
        if not answer:
            ended = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "the process ended"
            return Outcome(internal=ended)
        codes, internal = json.loads(answer)
        return Outcome(tuple(codes), internal)

    def _compile(self, text: str, pipeline: str) -> tuple[list[str], str | None]:
        self._session.modules.overlay = {str(self.path): text}
        try:
            done = trace_in(self._context, self._session, self.path, self.selection)
            done.passes = Passes(self.skip, part=None)
            finish(done, pipeline)
        except Exception as fault:
            return [], _signature(fault)
        return [d.code for d in done.diagnostics], None


@contextmanager
def trials(path: Path, selection: Selection, skip: frozenset[str], seconds: float) -> Iterator[Trials]:
    """A process ready to compile texts as `path`; each may take `seconds`."""
    with open_context() as context:
        session = new_session(Diagnostics())
        prepare(session, [(f"sexpgpu/{p.stem}", str(p)) for p in sorted(LIBRARY.glob("*.sx")) if p.stem != PRELUDE])
        yield Trials(path, selection, skip, seconds, context, session)


def _read(descriptor: int, deadline: float) -> bytes | None:
    """Everything until the other side closes; None where that takes too long."""
    parts: list[bytes] = []
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        while True:
            ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            part = stream.read(1 << 16)
            if not part:
                return b"".join(parts)
            parts.append(part)


def _signature(fault: BaseException) -> str:
    """What was raised and in which function of ours: the message may name what a smaller file no longer has."""
    cause = fault.__cause__ if isinstance(fault, PassFailed) and fault.__cause__ is not None else fault
    ours = [f for f in traceback.extract_tb(cause.__traceback__) if Path(f.filename).resolve().is_relative_to(_PACKAGE)]
    where = f" in {Path(ours[-1].filename).name}:{ours[-1].name}" if ours else ""
    return f"{type(cause).__name__}{where}"
