"""What a traced function reads of its batch and says of its results: fields, counters, metrics."""

from __future__ import annotations

from typing import Any

from sexpgpu.diag import Culprit, error, nearest
from sexpgpu.lang.builtin import Library, show
from sexpgpu.lang.foreign import Foreign
from sexpgpu.lang.forms import NIL, T
from sexpgpu.tensortype import TensorType
from sexpgpu.trace.arguments import REDUCTIONS, SAMPLES, choice, integer
from sexpgpu.trace.arguments import name as name_argument
from sexpgpu.trace.builtins.expect import expecting
from sexpgpu.trace.graph import GraphTrace, current_graph
from sexpgpu.trace.tensor import Tensor, as_tensor, pointwise

library = Library("observation")

NARROW = ("f32", "bf16")
"""Floats that an f64 holds exactly."""


class Batch(Foreign):
    """The records of one call, as `prepare` receives them: fields by name."""

    __slots__ = ("fields", "loader")

    def __init__(self, loader: str, fields: dict[str, TensorType]) -> None:
        self.loader = loader
        self.fields = fields

    def lisp_print(self) -> str:
        return f"#<batch of {self.loader}>"


@library.builtin("field", "(batch name)")
def field(batch: Any, name: Any) -> Tensor:
    """A field of the batch. Floats are no narrower than the run's: an `:f64` run computes with f64 of f32 data.

    Shapes: -> [records, ...], the shape of a record behind.
    Dtypes: as its source has it, but in an `:f64` run f64 for f32 and bf16.
    Errors: E-LOAD-040 no such field; E-TYPE-012 not a batch.
    Source: docs: Loaders and prepare.
    """
    key = name_argument("field", name)
    if not isinstance(batch, Batch):
        raise error("E-TYPE-012", "`field` reads a batch, the argument of prepare", actual=show(batch))
    if key not in batch.fields:
        near = nearest(key, batch.fields)
        raise error(
            "E-LOAD-040",
            f"loader `{batch.loader}` has no field `{key}`",
            expected="one of " + " ".join(batch.fields),
            help=f"(field batch '{near})" if near else None,
            culprit=Culprit(word=key, instead=near),
        )
    graph = current_graph("field")
    read = graph.input("field", key, batch.fields[key], source=f"field {key} of loader {batch.loader}")
    if read.type.dtype not in NARROW or graph.float_type in NARROW:
        return read
    wide = graph.cast_float(read)
    return Tensor(graph, wide.val, wide.span, read.source)


@library.builtin("counter", "(name n)")
def counter(name: Any, n: Any) -> Any:
    """Count `n` (an ordinary integer) per call under `name`: tokens, frames, whatever a rate is wanted of.

    Shapes: none.
    Dtypes: an ordinary integer.
    Errors: E-ARG-010 what is no integer.
    Source: docs: Objective, metrics, counters.
    """
    graph = current_graph("counter")
    graph.must_be_open("counter")
    key = name_argument("counter", name)
    count = integer("counter", n, "n")
    if count < 0:
        raise error("E-VALUE-012", "`counter`: n is outside its domain", expected="0 <= n", actual=str(count))
    graph.counters[key] = graph.counters.get(key, 0) + count
    return NIL


@library.builtin("metric", "(name value &key reduce weight then)")
def metric(name: Any, value: Any, *, reduce: Any = NIL, weight: Any = NIL, then: Any = NIL) -> Any:
    """Report a scalar: `:reduce` mean (weighted by records, or by `:weight`), sum, max or last; `:then` maps it.

    A masked mean brings its own weight, so that its average over a pass is exact. E-SHAPE-020 for no scalar.

    Shapes: a scalar.
    Dtypes: numbers, reported in the run's float.
    Errors: E-SHAPE-020 not a scalar; E-RUN-030 a name twice; E-RUN-031 a name of the loop's; E-ARG-011 another
    `:reduce`.
    Source: docs: Objective, metrics, counters.
    """
    graph = current_graph("metric")
    graph.must_be_open("metric")
    tensor = as_tensor(value, "metric", like=TensorType((), graph.float_type))
    if tensor.type.shape:
        raise error(
            "E-SHAPE-020",
            f"`metric` reports a scalar, `{name_argument('metric', name)}` is not one",
            expected="rank 0",
            actual=str(tensor.type),
            help="(mean x)",
            notes=tensor.provenance(),
        )
    how: Any = "mean" if reduce is NIL else choice("metric", reduce, ":reduce", REDUCTIONS)
    key = graph.metric_name(name_argument("metric", name))
    if key == "train/loss" or key.startswith(("optim/", "runtime/")):
        raise error(
            "E-RUN-031",
            f"the metric `{key}` is the loop's own",
            expected="a name that is not train/loss and not under optim/ or runtime/",
            help="give it another name",
        )
    if any(o.role == "metric" and o.name == key for o, _ in graph.outputs):
        raise error("E-RUN-030", f"metric `{key}` is reported twice in one graph", help="give it another name")
    mapped = None if then is NIL else graph.then(key, then)
    graph.output("metric", key, graph.cast_float(tensor), reduce=how, then=mapped)
    weighed = tensor.weight if weight is NIL else as_tensor(weight, "metric")
    if weighed is not None and how == "mean":
        graph.output("weight", key, graph.cast_float(weighed))
    return NIL


@library.builtin("sample", "(name value &key as)")
def sample(name: Any, value: Any, *, as_: Any = "array") -> Any:
    """Show a tensor: `:as` :text (ids, [time] or [texts, time]), :image ([images, channels, height, width], without
    channels, or one of either) or :array. For evaluations, which show their first batch, and `:emit` of a generator.

    Shapes: as `:as` says; any for an array.
    Dtypes: integers for a text, any otherwise.
    Errors: E-SHAPE-031 what cannot be shown so; E-FLOW-009 in the train graph; E-RUN-030 a name twice; E-ARG-011.
    Source: docs: Evaluation passes.
    """
    graph = current_graph("sample")
    graph.must_be_open("sample")
    key = graph.metric_name(name_argument("sample", name))
    if graph.training:
        raise error(
            "E-FLOW-009", f"`sample` of `{key}` in the train graph", help="in `evaluate`, or in :emit of a defgenerator"
        )
    tensor = as_tensor(value, "sample")
    form: Any = choice("sample", as_, ":as", SAMPLES)
    _require_showable(key, form, tensor)
    if any(o.role == "sample" and o.name == key for o, _ in graph.outputs):
        raise error("E-RUN-030", f"sample `{key}` is shown twice in one graph", help="give it another name")
    graph.output("sample", key, tensor, form=form)
    return NIL


def _require_showable(key: str, form: str, tensor: Tensor) -> None:
    """E-SHAPE-031 where the tensor is none that can be shown so."""
    rank, shape, integer = tensor.type.rank, tensor.type.shape, not tensor.type.is_float
    wanted = {
        "text": ("integers [time] or [texts, time]", integer and rank in (1, 2)),
        "image": (
            "[images, 1 or 3 channels, height, width], or without images or channels",
            rank in (2, 3) or (rank == 4 and shape[1] in (1, 3)),
        ),
    }
    expected, fits = wanted.get(form, ("", True))
    if not fits:
        raise error(
            "E-SHAPE-031",
            f"sample `{key}` cannot be shown as :{form}",
            expected=expected,
            actual=str(tensor.type),
            notes=tensor.provenance(),
        )


@library.builtin("training-p", "()")
def training_p() -> Any:
    """t while the train graph is traced, nil in evaluations.

    Shapes: none.
    Dtypes: none.
    Errors: E-FLOW-003 outside a graph.
    Source: docs: Models and parameters.
    """
    return T if current_graph("training-p").training else NIL


@library.builtin("step-sum", "(x)")
def step_sum(x: Any) -> Tensor:
    """The sum of a scalar over all microbatches of the step, known before they run. x must not depend on parameters.

    Outside training, and with one microbatch, it is x itself.

    Shapes: a scalar -> a scalar.
    Dtypes: numbers.
    Errors: E-SHAPE-020 not a scalar; E-FLOW-006 it depends on a parameter.
    Source: docs: Objective, metrics, counters.
    """
    tensor = as_tensor(x, "step-sum")
    if tensor.type.shape:
        raise error("E-SHAPE-020", "`step-sum` sums a scalar", expected="rank 0", actual=str(tensor.type))
    graph = tensor.graph
    graph.must_be_open("step-sum")
    if not graph.training or graph.microbatches == 1:
        return tensor
    name = f"step-sum-{sum(o.role == 'step_term' for o, _ in graph.outputs)}"
    graph.output("step_term", name, tensor)
    return graph.input("step_sum", name, tensor.type)


@library.builtin("step-mean", "(x w)")
def step_mean(x: Any, w: Any) -> Tensor:
    """sum(x)/sum(w) over the whole step, exact however its records are split; x and w are scalars or are summed.

    The result carries sum(w) as the weight of a metric made of it.

    Shapes: any, any -> a scalar.
    Dtypes: numbers -> the run's float.
    Errors: E-FLOW-006 `w` depends on a parameter; E-FLOW-004 inside `scan` or `grad`.
    Source: docs: Objective, metrics, counters.
    """
    _require_whole_step(current_graph("step-mean"))
    top, bottom = (_total("step-mean", v) for v in (x, w))
    bottom = bottom.graph.cast_float(bottom)
    whole = step_sum(bottom)
    if whole is not bottom:
        # The loop averages microbatches by their share of the step's records; dividing by it leaves a plain sum.
        whole = pointwise("mul", "step-mean", whole, whole.graph.context_value("share"))
    result = pointwise("div", "step-mean", top, whole)
    if whole is bottom:
        # A mean of this call alone: a metric weighs it by what it was divided by. One of the step as a whole is
        # already exact when the loop weighs the microbatches by their records.
        result.weight = bottom
    return result


def _require_whole_step(graph: GraphTrace) -> None:
    """E-FLOW-004 inside the function of `scan` or `grad`, by the name of the loss that takes a mean over the step."""
    if graph.within:
        definition = expecting()
        name = "step-mean" if definition.own else definition.name
        raise error(
            "E-FLOW-004",
            f"`{name}` inside `{graph.within[-1]}` of rows that are left out or weighed: they are counted over the "
            "whole step",
            expected="a mean over the rows at hand",
            help=f"use it outside of `{graph.within[-1]}`, or weigh by hand: (/ (sum (* w row)) (sum w))",
        )


def _total(what: str, value: Any) -> Tensor:
    tensor = as_tensor(value, what)
    tensor = tensor.graph.cast_float(tensor)
    if not tensor.type.shape:
        return tensor
    return tensor.graph.emit("sum", tensor, axes=tuple(range(tensor.type.rank)), keepdims=False)
