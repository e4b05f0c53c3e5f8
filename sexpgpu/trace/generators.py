"""Generators: what a model makes by itself, a state carried from trip to trip.

Each clause of a `defgenerator` is one graph. What the verb `generate` is told (a prompt, a temperature) is known when
the clauses are traced; the prompt's text arrives as ids when they run.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from sexpgpu.data.source import Bpe, ByStep, Chars, Lines, Source, source_leaves
from sexpgpu.diag import error
from sexpgpu.experiment import Generator
from sexpgpu.lang.forms import NIL, keyword, lisp_list, one
from sexpgpu.tensortype import TensorType
from sexpgpu.trace.builtins.control import leaves
from sexpgpu.trace.builtins.observe import Batch
from sexpgpu.trace.declarations import Flags, GeneratorValue, LoaderValue
from sexpgpu.trace.graph import GraphTrace, Tracer
from sexpgpu.trace.optimizers import ContextScalar
from sexpgpu.trace.tensor import Tensor, as_tensor


def trace_generator(tracer: Tracer, loader: LoaderValue, declared: GeneratorValue, flags: Flags) -> Generator:
    """Trace the three graphs of a generator, `<name> init`, `<name> trip` and `<name> emit`.

    E-FLOW-007: a trip gives a state of another type than it takes. E-RUN-033: nothing is emitted.
    """
    text = declared.text or _text_of(loader)
    given = _Clauses(tracer, loader, declared, flags, text)
    graph = given.graph("init")
    with graph.tracing():
        state, state_of = leaves(one(declared.init(given.context(graph))), lambda v: as_tensor(v, declared.name))
        types = [t.type for t in state]
        _carry(graph, state)
    graph = given.graph("trip")
    with graph.tracing():
        taken = [graph.input("carry", str(i), type) for i, type in enumerate(types)]
        trip = graph.context_value("trip")
        following, _ = leaves(
            one(declared.trip(state_of(taken), trip, given.context(graph))), lambda v: as_tensor(v, declared.name)
        )
        if [t.type for t in following] != types:
            raise error(
                "E-FLOW-007",
                f"a trip of generator `{declared.name}` gives another state than it takes",
                declared.span,
                expected=", ".join(map(str, types)),
                actual=", ".join(str(t.type) for t in following),
            )
        _carry(graph, following)
    graph = given.graph("emit")
    with graph.tracing():
        declared.emit(state_of([graph.input("carry", str(i), type) for i, type in enumerate(types)]))
        if not any(output.role == "sample" for output, _ in graph.outputs):
            raise error(
                "E-RUN-033",
                f"generator `{declared.name}` emits nothing",
                declared.span,
                help="(:emit (state) (sample 'name x :as :text))",
            )
        graph.finish()
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


@frozen
class _Clauses:
    tracer: Tracer
    loader: LoaderValue
    declared: GeneratorValue
    flags: Flags
    text: Source | None

    def graph(self, clause: str) -> GraphTrace:
        made = GraphTrace(self.tracer, f"{self.declared.name} {clause}", stream="generate", prefix=self.declared.name)
        made.scope = f"{made.name} "
        if self.flags.seed is not None:
            made.seed = self.flags.seed
        return made

    def context(self, graph: GraphTrace) -> Any:
        """The plist `ctx`: what the verb was told, the loop's scalars, and the next batch where `:at :step` has one."""
        flags = self.flags
        items: list[Any] = [
            keyword("prompt"), self._prompt(graph),
            keyword("temperature"), flags.temperature,
            keyword("top-k"), NIL if flags.top_k is None else flags.top_k,
            keyword("top-p"), NIL if flags.top_p is None else flags.top_p,
            keyword("seed"), graph.seed,
            keyword("trips"), self.declared.trips,
            keyword("step"), ContextScalar("step", graph.float_type),
        ]  # fmt: skip
        if self.declared.at == "step":
            loader = self.loader
            fields = {name: loader.batch_type(name, loader.batch) for name in loader.fields}
            items += [keyword("batch"), Batch(loader.name, fields)]
        return lisp_list(items)

    def _prompt(self, graph: GraphTrace) -> Any:
        if self.flags.prompt is None:
            return NIL
        if self.text is None:
            raise error(
                "E-RUN-034",
                f"generator `{self.declared.name}` takes no prompt: no loader field is a text",
                self.declared.span,
                help="(defgenerator name (:trips n :text SOURCE) ...) names the text that ids mean",
            )
        ids = len(self.flags.prompt)
        if isinstance(source_leaves(self.text)[0], Bpe):
            from sexpgpu.data.codec import codec_of

            codec = codec_of(self.text)
            assert codec is not None
            ids = len(codec.encode(self.flags.prompt))
        return graph.input("prompt", "prompt", TensorType((ids,), "i32"), source="the prompt")


def _carry(graph: GraphTrace, state: list[Tensor]) -> None:
    for i, tensor in enumerate(state):
        graph.output("carry", str(i), tensor)
    graph.finish()


def _text_of(loader: LoaderValue) -> Source | None:
    """The source of the loader's only text field."""
    sources = [s.source for s, _ in loader.fields.values() if not isinstance(s.source, ByStep)]
    texts = [s for s in sources if isinstance(source_leaves(s)[0], Chars | Lines | Bpe)]
    return texts[0] if len(texts) == 1 else None
