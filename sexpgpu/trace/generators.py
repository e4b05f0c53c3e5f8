"""Generators: what a model makes by itself, a state carried from trip to trip.

Each clause of a `defgenerator` is one graph. What the verb `generate` is told (a prompt, a temperature) is known when
the clauses are traced; the prompt's text arrives as ids when they run. A run tells nothing, so what would become of a
prompt is tried apart from its graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from attrs import define, frozen

from sexpgpu.data.source import Bpe, ByStep, Chars, Lines, Source, source_leaves
from sexpgpu.diag import Note, SxError, error
from sexpgpu.experiment import Generator
from sexpgpu.lang.active import active
from sexpgpu.lang.forms import NIL, keyword, lisp_list, one
from sexpgpu.tensortype import TensorType
from sexpgpu.trace.builtins.control import leaves
from sexpgpu.trace.builtins.observe import Batch
from sexpgpu.trace.declarations import Flags, GeneratorValue, LoaderValue
from sexpgpu.trace.graph import GraphTrace
from sexpgpu.trace.optimizers import ContextScalar
from sexpgpu.trace.tensor import Reference, Tensor, as_tensor
from sexpgpu.trace.tracer import Tracer

SPOKEN: Final = 3
"""Ids of the prompt that is tried: few, and the size of little else."""
REFUSED: Final = "E-VALUE-005"
"""What `(error ...)` in a file comes out as: a generator may well refuse what it is told."""


@frozen
class Told:
    """What the context of a generator says: how many ids the prompt has, and the flags beside it."""

    prompt: int | None = None
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None


@define(eq=False)
class Prompt(Reference):
    """The ids of a prompt, taken by a graph only when it reads them."""

    ids: int

    @property
    def type(self) -> TensorType:
        return TensorType((self.ids,), "i32")

    def resolve(self, graph: GraphTrace) -> Tensor:
        return graph.input("prompt", "prompt", self.type, source="the prompt")


def trace_generator(
    tracer: Tracer, loader: LoaderValue, declared: GeneratorValue, flags: Flags, rows: int | None = None
) -> Generator:
    """Trace the three graphs of a generator, `<name> init`, `<name> trip` and `<name> emit`; with `rows` for a batch of
    so many records, where it reads one.

    E-FLOW-007: a trip gives a state of another type than it takes. E-RUN-033: nothing is emitted. Without a text that
    says what ids mean there is no prompt.
    """
    text = declared.text or _text_of(loader)
    prompt = None if flags.prompt is None or text is None else _ids_of(flags.prompt, text)
    told = Told(prompt, flags.temperature, flags.top_k, flags.top_p, flags.seed)
    _Clauses(tracer, loader, declared, told, rows=rows).trace()
    return Generator(
        declared.name,
        declared.trips,
        f"{declared.name} init",
        f"{declared.name} trip",
        f"{declared.name} emit",
        declared.at,
        declared.every,
        declared.weights,
        text,
        declared.span,
    )


def try_flags(tracer: Tracer, loader: LoaderValue, declared: GeneratorValue) -> None:
    """Trace a generator as `generate` may be told to run it; raises the first fault, which has a place of its own.

    `tracer` is one whose module nobody keeps. A generator may be for prompts of one length: that of the text in a
    record, of a knob. A fault with a short prompt counts where none of those goes without one.
    """
    prompts: list[int | None] = [None]
    if (declared.text or _text_of(loader)) is not None:
        records = {type.shape[-1] for _, type in loader.fields.values() if type.rank}
        likely = records | {size - 1 for size in records} | set(tracer.sizes)
        prompts = [SPOKEN, *sorted(size for size in likely if size > 0)]
    first = None
    for prompt in prompts:
        try:
            _Clauses(tracer, loader, declared, Told(prompt, top_k=1, top_p=0.5), alone=True).trace()
        except SxError as fault:
            if fault.diagnostic.code == REFUSED:
                return
            first = first or fault
        else:
            return
    assert first is not None
    flags = "--top-k and --top-p" if prompts[0] is None else f"--top-k, --top-p and a --prompt of {SPOKEN} ids"
    raise SxError(first.diagnostic.noting(Note(f"this is what `sexpgpu generate` would meet with {flags}")))


@frozen
class _Clauses:
    """The clauses of a generator; those that are traced `alone` end at their first fault, without a report of it."""

    tracer: Tracer
    loader: LoaderValue
    declared: GeneratorValue
    told: Told
    alone: bool = False
    rows: int | None = None

    def trace(self) -> None:
        """The graphs of `:init`, `:trip` and `:emit`."""
        declared = self.declared

        def tensors(state: Any) -> tuple[list[Tensor], Callable[[list[Tensor]], Any]]:
            return leaves(one(state), lambda value: as_tensor(value, declared.name))

        graph = self._graph("init")
        with self._tracing(graph):
            state, state_of = tensors(declared.init(self._context(graph)))
            types = [t.type for t in state]
            _carry(graph, state)
        graph = self._graph("trip")
        with self._tracing(graph):
            taken = [graph.input("carry", str(i), type) for i, type in enumerate(types)]
            trip = graph.context_value("trip")
            following, _ = tensors(declared.trip(state_of(taken), trip, self._context(graph)))
            if [t.type for t in following] != types:
                raise error(
                    "E-FLOW-007",
                    f"a trip of generator `{declared.name}` gives another state than it takes",
                    declared.span,
                    expected=", ".join(map(str, types)),
                    actual=", ".join(str(t.type) for t in following),
                )
            _carry(graph, following)
        graph = self._graph("emit")
        with self._tracing(graph):
            declared.emit(state_of([graph.input("carry", str(i), type) for i, type in enumerate(types)]))
            if not any(output.role == "sample" for output, _ in graph.outputs):
                raise error(
                    "E-RUN-033",
                    f"generator `{declared.name}` emits nothing",
                    declared.span,
                    help="(:emit (state) (sample 'name x :as :text))",
                )
            graph.finish()

    @contextmanager
    def _tracing(self, graph: GraphTrace) -> Iterator[None]:
        with graph.tracing(), active().recovery.suspended() if self.alone else nullcontext():
            yield

    def _graph(self, clause: str) -> GraphTrace:
        made = GraphTrace(self.tracer, f"{self.declared.name} {clause}", stream="generate", prefix=self.declared.name)
        made.scope = f"{made.name} "
        if self.told.seed is not None:
            made.seed = self.told.seed
        return made

    def _context(self, graph: GraphTrace) -> Any:
        """The plist `ctx`: what the verb was told, the loop's scalars, and the next batch where `:at :step` has one."""
        told = self.told
        items: list[Any] = [
            keyword("prompt"), self._prompt(),
            keyword("temperature"), told.temperature,
            keyword("top-k"), NIL if told.top_k is None else told.top_k,
            keyword("top-p"), NIL if told.top_p is None else told.top_p,
            keyword("seed"), graph.seed,
            keyword("trips"), self.declared.trips,
            keyword("step"), ContextScalar("step", graph.float_type),
        ]  # fmt: skip
        if self.declared.at == "step":
            loader = self.loader
            fields = {name: loader.batch_type(name, self.rows or loader.batch) for name in loader.fields}
            items += [keyword("batch"), Batch(loader.name, fields)]
        return lisp_list(items)

    def _prompt(self) -> Any:
        return NIL if self.told.prompt is None else Prompt(self.told.prompt)


def _ids_of(prompt: str, text: Source) -> int:
    """How many ids a prompt has."""
    if isinstance(source_leaves(text)[0], Bpe):
        from sexpgpu.data.codec import codec_of

        codec = codec_of(text)
        assert codec is not None
        return len(codec.encode(prompt))
    return len(prompt)


def _carry(graph: GraphTrace, state: list[Tensor]) -> None:
    for i, tensor in enumerate(state):
        graph.output("carry", str(i), tensor)
    graph.finish()


def _text_of(loader: LoaderValue) -> Source | None:
    """The source of the loader's only text field."""
    sources = [s.source for s, _ in loader.fields.values() if not isinstance(s.source, ByStep)]
    texts = [s for s in sources if isinstance(source_leaves(s)[0], Chars | Lines | Bpe)]
    return texts[0] if len(texts) == 1 else None
