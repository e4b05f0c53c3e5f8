"""The compiled experiment as plain data: what the loop executes and the reports print.

Everything here is frozen and holds no MLIR, no NumPy and no Lisp value, so it can be compared, hashed and
written as JSON. Graphs are named; their code lives in the module that the engine loads.
"""

from __future__ import annotations

from typing import Literal

from attrs import evolve, field, frozen

from sexpgpu.data.source import FieldSource, Source
from sexpgpu.diag import Span
from sexpgpu.tensortype import TensorType

InputRole = Literal[
    "param", "buffer", "state", "grad", "field", "ctx", "step_sum", "carry", "prompt", "observed", "value", "narrow"
]
OutputRole = Literal[
    "loss",
    "metric",
    "weight",
    "counter",
    "grad",
    "param",
    "buffer",
    "state",
    "step_term",
    "sample",
    "carry",
    "value",
    "narrow",
    "squares",
]
SampleForm = Literal["text", "image", "array"]
Reduction = Literal["mean", "sum", "max", "last"]


@frozen
class Input:
    """An argument of a graph: what it is and under which name the loop holds it.

    `param`, `buffer`, `grad`: a path. `state`: `path/state-name`. `field`: a loader field. `ctx`: one of
    `CONTEXT`. `step_sum`: the total over the step of the `step_term` of the same name. `carry`: a number, the place in
    a generator's state. `prompt`: the ids of the text that a generator is to go on from. `observed`: a metric of an
    evaluation, by its full name. `narrow`: the `param` of the same name, cast to a narrower dtype, which devices do.
    Of a stacked graph, `part` is the microbatch that it is of, from 0; None: of all.
    """

    role: InputRole
    name: str
    type: TensorType
    frozen: bool = False  # a `param` that is not trained
    part: int | None = None


@frozen
class Output:
    """A result of a graph. A `weight` belongs to the `metric` of the same name; a metric without one weighs its rows. A
    `narrow` is the `param` of the same name, cast to a narrower dtype. `squares` are f64 numbers whose sum is that of
    the squares of the `grad` of the same name, which devices give.

    `then` names the graph (one scalar in, one out) that maps the reduced value of a metric before it is sent. Of a
    stacked graph, `part` is the microbatch that it is of, from 0; None: the sum over all.
    """

    role: OutputRole
    name: str
    type: TensorType
    reduce: Reduction = "mean"
    then: str | None = None
    span: Span | None = None
    form: SampleForm | None = None  # what a `sample` is shown as
    part: int | None = None


# Scalars the loop can feed to a graph, with their dtypes; `float` is the run's float type.
CONTEXT: dict[str, str] = {
    "step": "i32",  # optimizer step, 0 for the first update
    "steps": "i32",  # planned steps of the run
    "epoch": "i32",
    "stage": "i32",
    "microbatch": "i32",  # index within the step
    "trip": "i32",
    "progress": "float",  # step / steps
    "share": "float",  # records of this microbatch / records of the step
    "grad-norm": "float",  # global norm before clipping
    "loss": "float",  # train/loss of the step
}


@frozen
class Graph:
    """The signature of one traced graph; `symbol` is its function in the module.

    A stacked graph runs several microbatches, of `rows` records each.
    """

    name: str
    symbol: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    rows: int | None = None  # records in its batch, where it reads one
    counters: tuple[tuple[str, int], ...] = ()  # counters known at compile time, per microbatch
    stacked: int = 1  # microbatches that one call runs

    @property
    def narrows(self) -> bool:
        """Whether all it does is to cast a parameter."""
        return bool(self.outputs) and all(output.role == "narrow" for output in self.outputs)

    @property
    def offered(self) -> Graph:
        """The graph as the loop calls it, which knows nothing of narrow parameters and sums of squares."""
        inputs = tuple([given for given in self.inputs if given.role != "narrow"])
        outputs = tuple([given for given in self.outputs if given.role not in ("narrow", "squares")])
        return evolve(self, inputs=inputs, outputs=outputs)


@frozen
class Parameter:
    """A trained (or frozen) tensor; `path` is where the model first names it, `aliases` where it is tied."""

    path: str
    type: TensorType
    init: str  # its closed init graph
    frozen: bool = False
    aliases: tuple[str, ...] = ()
    group: str = "default"
    span: Span | None = None
    shape_source: str | None = None  # the shape as the file writes it, `(vocab width)`


@frozen
class Buffer:
    """A tensor the model keeps but does not train; committed once a step."""

    path: str
    type: TensorType
    init: str
    per_microbatch: bool = False
    span: Span | None = None


@frozen
class State:
    """One optimizer state of one parameter. It starts as zeros, or as its init graph makes it of the parameter.

    Behind the path comes the state's own name; one of an optimizer inside another is `inner.m`.
    """

    name: str  # `path/state-name`
    param: str
    type: TensorType
    init: str | None = None  # a graph whose only tensor is the `param` of the name `param`


@frozen
class Update:
    """The parameters that one update graph serves: all of one (shape, dtype, group)."""

    graph: str
    group: str
    params: tuple[str, ...]


@frozen
class Group:
    """An optimizer group: its members in order, the optimizer's name, its state names and its constants."""

    name: str
    selector: str
    optimizer: str
    params: tuple[str, ...]
    states: tuple[str, ...]
    constants: tuple[float, ...] = ()


Order = Literal["sequential", "shuffle", "random", "streams", "index-file"]


@frozen
class LoaderField:
    name: str
    source: FieldSource
    type: TensorType  # of one batch: [batch, ...]; of a step's row where the source is by step
    span: Span | None = None  # where its source is made


@frozen
class Stage:
    """One of several sets of sources that a loader may read; all have the same fields."""

    name: str
    fields: tuple[LoaderField, ...]


@frozen
class Loader:
    """Named fields read together, record by record. `seed` is the loader's own or the run's.

    With `stages`, of which `curriculum` chooses, `fields` are those of the first.
    """

    name: str
    batch: int
    order: Order
    seed: int
    fields: tuple[LoaderField, ...]
    index_file: str | None = None  # absolute path, with order `index-file`
    wrap: bool = False
    span: Span | None = None
    stages: tuple[Stage, ...] = ()


@frozen
class Evaluation:
    """One `defeval`: `every` counts steps, or is `epoch`; `batches` None means the whole loader."""

    name: str
    loader: Loader
    graph: str
    every: int | Literal["epoch"] | None = None
    at: tuple[int, ...] = ()
    batches: int | None = None
    fixed: bool = False
    at_start: bool = False
    weights: Literal["view", "train"] = "view"
    span: Span | None = None


@frozen
class Generator:
    """A `defgenerator`: the graphs of its three clauses, and when it runs during training.

    `text` is the source whose characters its prompt and its text samples are made of.
    """

    name: str
    trips: int
    init: str
    trip: str
    emit: str
    at: Literal["eval", "step"] = "eval"
    every: int = 1
    weights: Literal["view", "train"] = "view"
    text: Source | None = None
    span: Span | None = None


@frozen
class RunConfig:
    """What `defrun` says. Exactly one of `steps` and `epochs` is given."""

    steps: int | None
    epochs: int | None
    microbatches: int = 1
    precision: Literal["f32", "bf16", "f64"] = "f32"
    seed: int = 0
    clip_norm: float | None = None
    log_every: int = 1
    checkpoint_every: int | None = None
    keep: int | None = None
    keep_every: int | None = None
    max_skipped: int = 3
    deterministic: bool = False
    memory: int | None = None  # bytes that the run may hold at once
    recompute: Literal["auto"] | None = None
    span: Span | None = None


KnobSource = Literal["default", "variant", "point", "set"]


@frozen
class KnobValue:
    """A knob's value in this run, as the printer writes it, and what gave it."""

    name: str
    value: str
    source: KnobSource


@frozen
class Manifest:
    """What produced a result: every source with its SHA-256, the selection, the versions.

    `deterministic`: the command line asked for that, of a run that does not by itself.
    """

    entry: str
    sources: tuple[tuple[str, str], ...]  # (file, sha256)
    knobs: tuple[KnobValue, ...]
    variant: str | None
    point: str | None
    version: str
    deterministic: bool = False


@frozen
class Experiment:
    """Everything a file says, compiled."""

    name: str  # the file's stem
    manifest: Manifest
    parameters: tuple[Parameter, ...]
    buffers: tuple[Buffer, ...]
    states: tuple[State, ...]
    graphs: dict[str, Graph] = field(eq=False)
    updates: tuple[Update, ...]
    groups: tuple[Group, ...]
    train_loader: Loader
    train_graph: str
    sums_graph: str | None  # computes every step_term of the train graph, run first when there is one
    evaluations: tuple[Evaluation, ...]
    views: dict[str, str]  # param path -> graph that gives what evaluation sees, where an optimizer defines one
    run: RunConfig
    generators: tuple[Generator, ...] = ()
    curriculum: str | None = None  # a graph from metrics to the train loader's stage
