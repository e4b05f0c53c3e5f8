"""What a file declares beside its tensors: sources, loaders, evaluations, the run. Collected while it is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from sexpgpu.data.source import ByStep, FieldSource, Source, kind
from sexpgpu.diag import Culprit, Note, Span, error
from sexpgpu.experiment import RunConfig
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.poison import Poison
from sexpgpu.tensortype import TensorType


@define(eq=False)
class SourceValue(Foreign):
    """A data source as a Lisp value."""

    source: FieldSource
    span: Span | None = None

    def lisp_print(self) -> str:
        return f"#<source {kind(self.source)}>"


@define(eq=False)
class IndexFile(Foreign):
    """The order `(index-file path)`: batches as somebody else drew them."""

    path: str
    wrap: bool

    def lisp_print(self) -> str:
        return f"#<index-file {self.path}>"


@frozen
class StageValue:
    """The fields of a loader, or of one of its stages: each with the type of a record, or of a step's row."""

    name: str | None
    fields: dict[str, tuple[SourceValue, TensorType]]

    def described(self) -> list[str]:
        """Its fields' names and types, sorted."""
        by_step = {name: " by step" * isinstance(value.source, ByStep) for name, (value, _) in self.fields.items()}
        return sorted(f"{name} {type}{by_step[name]}" for name, (_, type) in self.fields.items())


@define(eq=False)
class LoaderValue(Foreign):
    """A declared loader: its stages, all with the same fields, and how records are ordered into batches."""

    name: str
    batch: int
    order: str
    seed: int | None
    stages: tuple[StageValue, ...]
    index_file: IndexFile | None = None
    span: Span | None = None

    @property
    def fields(self) -> dict[str, tuple[SourceValue, TensorType]]:
        """Those of the first stage."""
        return self.stages[0].fields

    def batch_type(self, name: str, rows: int) -> TensorType:
        """The type of a field for a batch of `rows` records."""
        value, one = self.fields[name]
        return one if isinstance(value.source, ByStep) else TensorType((rows, *one.shape), one.dtype)

    def lisp_print(self) -> str:
        return f"#<loader {len(self.fields)} fields, batch {self.batch}>"


@define(eq=False)
class EvaluationValue:
    """A `defeval`, as declared."""

    name: str
    loader: LoaderValue | Poison
    every: Any = None
    at: tuple[int, ...] = ()
    batches: int | None = None
    fixed: bool = False
    at_start: bool = False
    weights: Any = "view"
    evaluate: Any = None
    span: Span | None = None


@define(eq=False)
class GeneratorValue:
    """A `defgenerator`, as declared."""

    name: str
    trips: int
    init: Callable[..., Any]
    trip: Callable[..., Any]
    emit: Callable[..., Any]
    at: Any
    every: int
    weights: Any
    text: Source | None
    span: Span | None


@frozen
class Flags:
    """What the command line tells generators; `seed` None is the run's. The prompt is counted in ids of its text."""

    prompt: str | None = None
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None


@define(eq=False)
class RunValue(Foreign):
    """The declared run as a Lisp value."""

    run: RunConfig

    def lisp_print(self) -> str:
        return f"#<run {self.run.steps} steps>" if self.run.steps else f"#<run {self.run.epochs} epochs>"


@define(eq=False)
class Declarations:
    """Everything declared so far in the entry file, as the command line names it.

    `deterministic`: the command line asks for what `:deterministic t` does, whatever the file says.
    """

    entry: Path
    evaluations: list[EvaluationValue] = field(factory=list)
    generators: list[GeneratorValue] = field(factory=list)
    flags: Flags = field(factory=Flags)
    deterministic: bool = False
    run: RunConfig | None = None
    paths: set[str] = field(factory=set)  # of data, as files write them

    @property
    def base(self) -> Path:
        """The directory that the entry file's paths start from."""
        return self.entry.resolve().parent

    def located(self, path: str, span: Span | None) -> str:
        """The absolute path of `path` as the file of `span` writes it; addresses stay as they are."""
        if "://" in path:
            return path
        self.paths.add(path)
        folder = Path(span.file).resolve().parent if span is not None else self.base
        return str(folder / path)

    def set_run(self, run: RunConfig) -> None:
        """Keep the run; E-RUN-011 at a second one."""
        if self.run is not None:
            note = [Note("the first defrun", self.run.span)] if self.run.span else []
            help = "leave one of them out"
            raise error("E-RUN-011", "a file has one defrun", help=help, notes=note, culprit=Culprit(away=True))
        self.run = run


_current: ContextVar[Declarations] = ContextVar("declarations")


def declarations() -> Declarations:
    """Those of the file being evaluated."""
    return _current.get()


@contextmanager
def declaring(into: Declarations) -> Iterator[Declarations]:
    """Collect declarations into `into` for the time of the block."""
    token = _current.set(into)
    try:
        yield into
    finally:
        _current.reset(token)
