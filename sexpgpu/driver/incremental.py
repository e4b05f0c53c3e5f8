"""The warm process behind `watch` and the language server: what does not change is loaded once, a check is a fork.

The process holds an MLIR context and a session with the library and the standard modules. Each check runs in a child
forked from it, so it starts from exactly the state that a fresh process would reach, and nothing it does outlives it.
Modules of the user's own that a file requires are kept too: in one more process a file (`_Stem`), forked from this one,
which has loaded them and forks the checks of that file until one of them is edited.
"""

from __future__ import annotations

import gc
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from attrs import define, evolve, frozen

from sexpgpu import knobs
from sexpgpu.diag import Diagnostics, SxError
from sexpgpu.dialects.context import Context, open_context
from sexpgpu.driver.compile import LIBRARY, Compilation, finish, new_session, trace_in
from sexpgpu.driver.names import Types, library_names, names_of
from sexpgpu.driver.warm import Answer, Request
from sexpgpu.lang.limits import run_deep
from sexpgpu.lang.modules import Loaded
from sexpgpu.lang.session import Session
from sexpgpu.passes import PASSES, PIPELINES
from sexpgpu.passes.base import parse_pass
from sexpgpu.trace.declarations import Declarations, LoaderValue, SourceValue, declaring

PRELUDE = "forms"
"""The file of the library that is no module: every session has it."""
MOST_STEMS = 8


@frozen
class Message:
    """One answer on its way from the child.

    `modules` are those a stem for this file would hold; `stale` says that the file does not require all its stem holds.
    """

    answer: Answer
    modules: tuple[tuple[str, str, str], ...] = ()
    stale: bool = False


@define(eq=False)
class _Stem:
    """A process with the modules of one file loaded: name, path and text of each."""

    process: int
    connection: Connection
    modules: tuple[tuple[str, str, str], ...]

    def fresh(self, overlay: dict[str, str]) -> bool:
        """Whether the modules still read as they were loaded."""
        return all(_text(path, overlay) == text for _, path, text in self.modules)

    def unobserved(self, request: Request) -> bool:
        """Whether the request asks for types in none of the modules: they were compiled without an observer."""
        return not request.names or not any(path in request.overlay for _, path, _ in self.modules)

    def end(self) -> None:
        self.connection.close()
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


def serve(descriptor: int) -> None:
    """Answer requests on a connection until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks, and it closes the connection
    knobs.limit_threads(1)
    gc.disable()
    connection = Connection(descriptor)
    with open_context() as context:
        session = new_session(Diagnostics())
        standard = [(f"sexpgpu/{p.stem}", str(p)) for p in sorted(LIBRARY.glob("*.sx")) if p.stem != PRELUDE]
        prepare(session, standard)
        _import_the_rest()
        gc.freeze()
        with suppress(ConnectionError):  # who asked may leave while a check is under way
            _Base(context, session, connection).serve()


def _import_the_rest() -> None:
    """Import here what a check would import in its child, each time anew."""
    for spec in PIPELINES["shared"]:
        parse_pass(spec, PASSES)
    for dialect in ("builtin", "func"):
        import_module(f"mlir.dialects.{dialect}")
    for reader in ("arrays", "binary", "bpe", "jsonl", "parquet", "table"):
        import_module(f"sexpgpu.data.{reader}")
    import_module("sexpgpu.trace.mending")


def prepare(session: Session, modules: list[tuple[str, str]]) -> None:
    """Load modules (name, path) that files are going to require."""
    for name, path in modules:
        with declaring(Declarations(Path(path))):
            session.modules.prepare(name, path)
    session.modules.prepared()


class _Base:
    """The process that every other one is forked from."""

    def __init__(self, context: Context, session: Session, connection: Connection) -> None:
        self._context = context
        self._session = session
        self._connection = connection
        self._stems: dict[Path, _Stem] = {}

    def serve(self) -> None:
        while (request := _received(self._connection)) is not None:
            stem = self._stem(request)
            modules: tuple[tuple[str, str, str], ...] = ()
            if stem is None or not self._through(stem, request):
                for message in self._fork(request, frozenset()):
                    modules = message.modules
                    self._connection.send(message.answer)
            if modules:
                self._grow(request, modules)

    def _stem(self, request: Request) -> _Stem | None:
        stem = self._stems.get(request.path)
        if stem is not None and not (stem.fresh(request.overlay) and stem.unobserved(request)):
            self._stems.pop(request.path).end()
            return None
        return stem

    def _through(self, stem: _Stem, request: Request) -> bool:
        """Let the stem check; False when it could not, or when it holds more than the file asks for now."""
        try:
            stem.connection.send(request)
            while True:
                message: Message = stem.connection.recv()
                if message.stale:
                    break
                self._connection.send(message.answer)
                if message.answer.last:
                    return True
        except (EOFError, ConnectionError):
            pass
        self._stems.pop(request.path).end()
        return False

    def _grow(self, request: Request, modules: tuple[tuple[str, str, str], ...]) -> None:
        """Fork a process that loads `modules` and then checks the file that requires them."""
        while len(self._stems) >= MOST_STEMS:
            self._stems.pop(next(iter(self._stems))).end()
        ours, theirs = Pipe()
        process = os.fork()
        if process:
            theirs.close()
            self._stems[request.path] = _Stem(process, ours, modules)
            return
        code = 1
        try:
            ours.close()
            self._connection.close()
            for other in self._stems.values():
                other.connection.close()
            self._session.modules.overlay = dict(request.overlay)
            run_deep(lambda: prepare(self._session, [(name, path) for name, path, _ in modules]))
            gc.freeze()
            self._serve_stem(theirs, frozenset(path for _, path, _ in modules))
            code = 0
        except (SxError, ConnectionError):
            pass  # a module was edited meanwhile, or nobody waits any more: the base does without this process
        finally:
            os._exit(code)

    def _serve_stem(self, connection: Connection, held: frozenset[str]) -> None:
        while (request := _received(connection)) is not None:
            for message in self._fork(request, held):
                connection.send(message)

    def _fork(self, request: Request, held: frozenset[str]) -> Iterator[Message]:
        return _forked(lambda: _check(self._context, self._session, request, held))


def _received(connection: Connection) -> Request | None:
    """The next request; None when the other side has gone."""
    try:
        request: Request = connection.recv()
    except (EOFError, ConnectionError):
        return None
    return request


def _forked(work: Callable[[], Iterator[Message]]) -> Iterator[Message]:
    """What `work` gives in a child process; a last answer with a fault where it dies."""
    ours, theirs = Pipe(duplex=False)
    process = os.fork()
    if not process:
        code = 1
        try:
            ours.close()
            run_deep(lambda: _send_all(theirs, work()))
            code = 0
        except BaseException:
            theirs.send(Message(Answer(Path(), last=True, fault=traceback.format_exc())))
        finally:
            os._exit(code)
    theirs.close()
    done = False
    while not done:
        try:
            message: Message = ours.recv()
        except EOFError:
            break
        done = message.answer.last
        yield message
    ours.close()
    _, status = os.waitpid(process, 0)
    if not done:
        text = f"the check ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "the check ended"
        yield Message(Answer(Path(), last=True, fault=text))


def _send_all(connection: Connection, found: Iterator[Message]) -> None:
    for message in found:
        connection.send(message)


def _check(context: Context, session: Session, request: Request, held: frozenset[str]) -> Iterator[Message]:
    """Check in this process: an answer after tracing, and one when the passes have run, if they are asked for."""
    session.modules.overlay = dict(request.overlay)
    types = Types()
    if request.names:
        session.observer = types.of(frozenset((str(request.path), *request.overlay)))
    done = trace_in(context, session, request.path, request.selection)
    if not held <= session.modules.adopted.keys():
        yield Message(Answer(request.path, last=False), stale=True)
        return
    observed = session.observer.files if session.observer is not None else frozenset()
    modules = tuple((m.name, m.path, m.text) for m in _keepable(done, observed))
    answer = _answer(done, request, types)
    yield Message(answer, modules)
    if request.passes:
        finish(done, "check")
        yield Message(_completed(answer, done), modules)


def _completed(answer: Answer, done: Compilation) -> Answer:
    """The answer when the passes have run: what names and types there are has been said."""
    answer = evolve(answer, last=True, diagnostics=tuple(done.diagnostics), names=(), library=(), places={})
    experiment = done.experiment
    if experiment is None:
        return answer
    elements = sum(p.type.size for p in experiment.parameters)
    return evolve(
        answer, parameters=len(experiment.parameters), elements=elements, graphs=tuple(sorted(experiment.graphs))
    )


def _answer(done: Compilation, request: Request, types: Types) -> Answer:
    session = done.session
    modules = session.modules
    return Answer(
        request.path,
        last=not request.passes,
        diagnostics=tuple(done.diagnostics),
        texts=dict(session.sources),
        files=tuple(sorted({str(request.path), *session.sources, *modules.sought})),
        names=names_of(session.module) if request.names else (),
        library=library_names(session) if request.library else (),
        places=types.places(),
        knobs={k.name: f"{k.value} ({k.source})" for k in session.selected.knobs},
    )


def _keepable(done: Compilation, observed: frozenset[str]) -> Iterator[Loaded]:
    """The modules that a stem can hold: they would give the same again whatever file requires them.

    One that declares evaluations or a run adds to the file; one that holds data may find other data next time; one
    that is observed is compiled to tell its values.
    """
    declaring_files = {e.span.file for e in done.declared.evaluations if e.span is not None}
    run = done.declared.run
    if run is not None and run.span is not None:
        declaring_files.add(run.span.file)
    kept: set[str] = set()
    for loaded in done.session.modules.loaded:
        whole = all(r in kept or r in done.session.modules.adopted for r in loaded.requires)
        apart = loaded.path in declaring_files or loaded.path in observed
        if loaded.repeatable and whole and not apart and not _holds_data(loaded):
            kept.add(loaded.path)
            yield loaded


def _holds_data(loaded: Loaded) -> bool:
    values: list[Any] = [v.ref[0] for v in loaded.module.variables.values() if v.ref]
    return any(isinstance(value, SourceValue | LoaderValue) for value in values)


def _text(path: str, overlay: dict[str, str]) -> str | None:
    if path in overlay:
        return overlay[path]
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
