"""read → evaluate → trace → passes: one file under one selection becomes an experiment and its module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from sexpgpu import __version__, knobs
from sexpgpu.diag import Diagnostics, SxError
from sexpgpu.dialects.context import Context, open_context
from sexpgpu.dialects.signature import read_graph
from sexpgpu.driver.entry import require_file
from sexpgpu.driver.islands import Policy, PolicyWatch
from sexpgpu.driver.pipeline import EVERY, Passes, run_named
from sexpgpu.experiment import Experiment, Graph, Manifest
from sexpgpu.lang.active import activated
from sexpgpu.lang.collection import uncollected
from sexpgpu.lang.selection import Selection
from sexpgpu.lang.session import Session
from sexpgpu.lang.shelf import Shelf
from sexpgpu.lang.standard import standard_session
from sexpgpu.lang.toplevel import FormResult
from sexpgpu.passes.base import Timing, graphs
from sexpgpu.trace.arguments import CHOICES
from sexpgpu.trace.assemble import SUMS, TRAIN, Traced, assemble
from sexpgpu.trace.builtins import LIBRARIES
from sexpgpu.trace.declarations import Declarations, Flags, declaring

if TYPE_CHECKING:
    from sexpgpu.driver.stacking import Chosen
    from sexpgpu.plan.records import Plans

LIBRARY = Path(__file__).resolve().parent.parent / "library"
"""Where the standard modules are, as files a user can read."""
COMPILER = tuple(LIBRARY.parent / part for part in ("dialects", "lang", "library", "trace"))
"""What the Python code of a library function depends on."""


@define(eq=False)
class Compilation:
    """What compiling a file gave: its diagnostics always, the experiment and module when there was no error."""

    path: Path
    selection: Selection
    session: Session
    context: Context
    diagnostics: Diagnostics
    declared: Declarations
    passes: Passes = EVERY
    traced: Traced | None = None
    experiment: Experiment | None = None
    plans: Plans | None = None
    chosen: Chosen | None = None  # how a GPU stacks microbatches
    policies: dict[str, Policy] = field(factory=dict)  # by the symbols of graphs
    timings: tuple[Timing, ...] = ()

    @property
    def module(self) -> Any:
        assert self.traced is not None
        return self.traced.tracer.module

    @property
    def ok(self) -> bool:
        return self.experiment is not None and not self.diagnostics.errors


@contextmanager
def compiling(
    path: Path, selection: Selection, *, pipeline: str | None = "shared", passes: Passes = EVERY
) -> Iterator[Compilation]:
    """Compile `path`; the compilation, its module included, lives as long as the block.

    Without a `pipeline` (one of `PIPELINES`) the module stays as it was traced and there is no experiment.
    """
    with open_context() as context:
        yield compile_in(context, path, selection, pipeline=pipeline, passes=passes)


def new_session(diagnostics: Diagnostics) -> Session:
    """A session that knows the language and everything tensors add to it."""
    with uncollected():
        session = standard_session(diagnostics, standard_modules=LIBRARY)
        for library in LIBRARIES:
            session.install(library)
        for name in ("forms.sx", "losses.sx"):
            session.load_prelude(LIBRARY / name)
    session.mender = _mended
    session.base.choices |= CHOICES
    folder = knobs.cache_folder()
    if folder is not None:
        session.shelf = Shelf(session, folder, COMPILER)
    return session


def _mended(session: Session, fault: SxError) -> SxError:
    from sexpgpu.trace.mending import mend  # a file without a mistake needs none of it

    return mend(session, fault)


def compile_in(
    context: Context,
    path: Path,
    selection: Selection,
    *,
    pipeline: str | None = "shared",
    passes: Passes = EVERY,
    flags: Flags | None = None,
    overlay: dict[str, str] | None = None,
    deterministic: bool = False,
) -> Compilation:
    """Compile in a context that the caller owns.

    `flags` are what generators are told; `overlay` has texts that stand for files, by their paths; `deterministic` is
    as if `defrun` said so.
    """
    session = new_session(Diagnostics())
    session.modules.overlay = overlay or {}
    done = trace_in(context, session, path, selection, flags, deterministic)
    done.passes = passes
    if pipeline is not None:
        finish(done, pipeline)
    return done


def trace_in(
    context: Context,
    session: Session,
    path: Path,
    selection: Selection,
    flags: Flags | None = None,
    deterministic: bool = False,
) -> Compilation:
    """Evaluate a file and trace its graphs, in a session that has evaluated no file yet."""
    diagnostics = session.diagnostics
    declared = Declarations(path, flags=flags or Flags(), deterministic=deterministic)
    done = Compilation(path, selection, session, context, diagnostics, declared)
    try:
        if str(path) not in session.modules.overlay:
            require_file(path)
        with uncollected(), declaring(declared):  # the step budget bounds what evaluation may leave behind
            session.evaluate_file(path, selection)
            if session.exhausted:
                return done
            with activated(session):
                done.traced = assemble(session, declared, context, diagnostics)
            if done.traced is not None and done.traced.run.recompute is not None:
                from sexpgpu.driver.memory import write_budget  # asked for by few

                write_budget(done.traced, done.module)
            if done.traced is not None:
                from sexpgpu.driver.degrees import ask_for_squares, ask_for_stacks  # needs the pass `stack`

                if done.traced.run.microbatches > 1:
                    ask_for_stacks(done.traced, done.module)
                else:
                    ask_for_squares(done.module)
    except SxError as fault:
        diagnostics.report(fault.diagnostic)
    finally:
        diagnostics.arrange()
        _keep(session)
    return done


def _keep(session: Session) -> None:
    if session.shelf is not None:
        session.shelf.save()


def finish(done: Compilation, pipeline: str = "shared") -> None:
    """Run the passes of a pipeline and make the record of the experiment, where tracing found no error."""
    if done.traced is None or done.diagnostics.errors:
        return
    try:
        passes = done.passes
        after = 0 if passes.start is None else _taken_over(done, pipeline)
        watch = PolicyWatch(passes.observer)
        watched = evolve(passes, observer=watch)
        with uncollected():
            done.timings = tuple(run_named(done.module, done.context, pipeline, watched, after))
            done.policies = watch.found
            conclude(done, map(read_graph, graphs(done.module)))
    except SxError as fault:
        done.diagnostics.report(fault.diagnostic)


def _taken_over(done: Compilation, pipeline: str) -> int:
    from sexpgpu.driver.handover import take_over  # few compilations go on from a dump

    assert done.traced is not None
    return take_over(done.traced.tracer, done.context, pipeline, done.passes)


def conclude(done: Compilation, compiled: Iterable[Graph]) -> None:
    """Make the record of a traced experiment whose graphs have gone through the passes."""
    assert done.traced is not None
    offered = {graph.name: graph.offered for graph in compiled if not graph.narrows}
    done.experiment = _experiment(done, done.traced, offered)


def evaluate(path: Path, selection: Selection) -> tuple[Session, Diagnostics, list[FormResult]]:
    """Evaluate a file without tracing its experiment: what each top-level form printed and gave."""
    diagnostics = Diagnostics()
    session = new_session(diagnostics)
    results: list[FormResult] = []
    try:
        require_file(path)
        with declaring(Declarations(path)):
            results = session.evaluate_file(path, selection)
    except SxError as fault:
        diagnostics.report(fault.diagnostic)
    diagnostics.arrange()
    _keep(session)
    return session, diagnostics, results


def manifest_of(session: Session, path: Path) -> Manifest:
    """Sources with their digests, the selection with the source of each value, the version."""
    import hashlib  # which waits for MLIR where that is still being linked

    texts = sources_of(session, path)
    sources = [(name, hashlib.sha256(text.encode()).hexdigest()) for name, text in texts.items()]
    selected = session.selected
    return Manifest(path.name, tuple(sources), tuple(selected.knobs), selected.variant, selected.point, __version__)


def sources_of(session: Session, path: Path) -> dict[str, str]:
    """The texts that the file at `path` was compiled from, by their names in its manifest."""
    return dict(portable_sources(session, path).values())


def portable_sources(session: Session, path: Path) -> dict[str, tuple[str, str]]:
    """For each file as locations name it: its name in the manifest and its text."""
    base = path.resolve().parent
    return {name: (_portable(Path(name), base), text) for name, text in sorted(session.sources.items())}


def _portable(file: Path, base: Path) -> str:
    """A source's name in a manifest: relative to the entry file or to the standard modules."""
    resolved = file.resolve()
    if resolved.is_relative_to(LIBRARY.parent):
        return "sexpgpu/" + resolved.relative_to(LIBRARY.parent).as_posix()
    if resolved.is_relative_to(base):
        return resolved.relative_to(base).as_posix()
    return resolved.name


def _experiment(done: Compilation, traced: Traced, by_name: dict[str, Graph]) -> Experiment:
    assert traced.train_loader is not None
    assert done.declared.run is not None
    by_flag = traced.run.deterministic and not done.declared.run.deterministic
    return Experiment(
        done.path.stem,
        evolve(manifest_of(done.session, done.path), deterministic=by_flag),
        traced.parameters,
        traced.buffers,
        traced.states,
        by_name,
        traced.updates,
        traced.groups,
        traced.train_loader,
        TRAIN,
        _sums_graph(by_name),
        traced.evaluations,
        traced.views,
        traced.run,
        traced.generators,
        traced.curriculum,
    )


def _sums_graph(by_name: dict[str, Graph]) -> str | None:
    """The graph that gives the terms of the step's totals: without a split, the one that reads the totals too."""
    if SUMS in by_name:
        return SUMS
    return TRAIN if any(given.role == "step_sum" for given in by_name[TRAIN].inputs) else None
