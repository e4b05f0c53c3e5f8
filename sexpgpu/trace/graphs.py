"""Tracing of each kind of graph a run executes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sexpgpu.diag import Span, SxError, error
from sexpgpu.dialects.reverse import differentiated
from sexpgpu.lang.active import active, as_function
from sexpgpu.lang.builtin import show
from sexpgpu.lang.forms import NIL, Cons, all_values, keyword, lisp_list, one
from sexpgpu.lang.functions import info_of_function
from sexpgpu.lang.poison import Poison, poison_among
from sexpgpu.lang.recovery import poison_of
from sexpgpu.trace.builtins.observe import Batch
from sexpgpu.trace.contract import Contract
from sexpgpu.trace.declarations import EvaluationValue, LoaderValue
from sexpgpu.trace.graph import GraphTrace
from sexpgpu.trace.lacking import lacking_parameters
from sexpgpu.trace.models import Buffer, Model, Parameter, site_of
from sexpgpu.trace.optimizers import context_plist
from sexpgpu.trace.tensor import TensorLike, as_tensor
from sexpgpu.trace.tracer import Tracer

LOOP_CONTEXT = ("step", "steps", "progress", "epoch", "stage")


def trace_train(tracer: Tracer, contract: Contract, rows: int, name: str = "train") -> GraphTrace:
    """objective ∘ model ∘ prepare over a batch of `rows` records; its loss is the metric `train/loss`."""
    graph = GraphTrace(tracer, name, training=True, rows=rows, stream="train", prefix="train")
    with graph.tracing():
        outputs, labels = _forward(graph, contract, contract.train_loader, "prepare", rows)
        if poison_among([*outputs, *labels]) is None:
            _require_labels(contract, contract.objective, "objective", "prepare", len(outputs), len(labels))
        given = _call(graph, contract, "objective", contract.objective, outputs, labels)
        with shown_at(contract, "objective"):
            loss = as_tensor(one(given), "objective")
        if loss.type.shape or not loss.type.is_float:
            raise error(
                "E-SHAPE-020",
                "the objective must give a float scalar",
                contract.spans["objective"],
                expected=f"{graph.float_type}[]",
                actual=str(loss.type),
                help="(mean x)" if loss.type.is_float else "integers have no gradient: compute it from floats",
                notes=loss.provenance(),
            )
        graph.output("loss", "train/loss", graph.cast_float(loss))
        for path, proposal in graph.proposals.items():
            graph.output("buffer", path, proposal)
        graph.finish()
    return graph


def trace_evaluation(tracer: Tracer, contract: Contract, declared: EvaluationValue, rows: int) -> GraphTrace:
    """evaluate ∘ model ∘ eval-prepare; gives the metrics it emits (E-RUN-022 when there are none)."""
    evaluate = contract.evaluate if declared.evaluate is None else as_function(declared.evaluate)
    assert evaluate is not None
    graph = GraphTrace(tracer, declared.name, rows=rows, stream="eval", prefix=declared.name)
    with graph.tracing():
        outputs, labels = _forward(graph, contract, declared.loader, "eval-prepare", rows)
        if poison_among([*outputs, *labels]) is None:
            which = "eval-prepare" if contract.spans["eval-prepare"] else "prepare"
            _require_labels(contract, evaluate, "evaluate", which, len(outputs), len(labels))
        _call(graph, contract, "evaluate", evaluate, outputs, labels)
        if not graph.outputs and not graph.failed:
            raise error(
                "E-RUN-022",
                f"evaluation `{declared.name}` reports nothing",
                contract.spans["evaluate"] if declared.evaluate is None else declared.span,
                help="(metric 'loss (cross-entropy output label)) in evaluate",
            )
        graph.finish()
    return graph


@contextmanager
def shown_at(contract: Contract, name: str) -> Iterator[None]:
    """A fault that names no place of its own is shown at the contract function that was called."""
    try:
        yield
    except Exception as raw:
        raise SxError(contract.explain(raw).diagnostic.at(contract.spans[name])) from None


def parameters_reaching_loss(graph: GraphTrace) -> set[str]:
    """Paths of the parameters that the loss of a traced train graph has a gradient for.

    What it only compares, casts to integers or reads under `stop-gradient` is not among them.
    """
    ops = [op.operation for op in graph.block.operations][:-1]
    needed = differentiated(ops, [val.value for output, val in graph.outputs if output.role == "loss"])
    arguments = zip(graph.inputs, graph.block.arguments, strict=True)
    return {given.name for given, argument in arguments if given.role == "param" and argument in needed}


def _forward(
    graph: GraphTrace, contract: Contract, loader: LoaderValue | Poison, which: str, rows: int
) -> tuple[list[Any], list[Any]]:
    """The model's outputs and the labels for one batch, as `prepare` or `eval-prepare` makes them.

    What failed is poison; the poison of `prepare` stands for all that it would give.
    """
    prepare = contract.prepare if which == "prepare" else contract.eval_prepare
    place = contract.spans[which] or contract.spans["prepare"]
    batch: Any = loader
    if not isinstance(loader, Poison):
        batch = Batch(loader.name, {n: loader.batch_type(n, rows) for n in loader.fields})
    try:
        prepared = _prepared(_with_context(graph, prepare, batch), which, place)
    except Exception as raw:
        failed = poison_of(contract.explain(raw), place)
        prepared = ([failed], [failed])
    inputs, labels = prepared
    try:
        return _outputs(contract.model, inputs), labels
    except Exception as raw:
        return [poison_of(contract.explain(raw), contract.spans["model"])], labels


def _prepared(given: Any, which: str, place: Span | None) -> tuple[list[Any], list[Any]]:
    """The inputs and labels among what `prepare` gave; E-RUN-023 where they are no tensors."""
    prepared = all_values(given)
    if prepared and isinstance(prepared[0], Poison):
        return [prepared[0]], list(prepared[1:]) or [prepared[0]]
    if not prepared or prepared[0] is NIL:
        raise error("E-RUN-023", f"`{which}` gives no input", place, help="(values input label)")
    first, *labels = prepared
    inputs = list(first) if isinstance(first, Cons) else [first]
    for value in (*inputs, *labels):
        if not isinstance(value, TensorLike | Poison):
            raise error(
                "E-RUN-023", f"`{which}` must give tensors", place, actual=show(value), help="(values input label)"
            )
    return inputs, labels


def _outputs(model: Model | Poison, inputs: list[Any]) -> list[Any]:
    """What the model gives for `inputs`; E-PARAM-011 where that is nothing."""
    outputs = list(all_values(model.lisp_call(*inputs)))
    if isinstance(model, Poison):
        return outputs
    if not outputs or any(output is NIL for output in outputs):
        forward = info_of_function(model.forward)
        raise error(
            "E-PARAM-011",
            f"the forward of `{model.kind}` gives {'nil' if outputs else 'no value'}",
            forward.span if forward is not None else None,
            expected="a tensor, a list of tensors, or several of these",
            help="its last form is what the model gives",
        )
    return outputs


def _require_labels(
    contract: Contract, function: Callable[..., Any], name: str, which: str, outputs: int, labels: int
) -> None:
    """That `objective` or `evaluate` has a parameter for each output of the model and each label of `prepare`.

    E-RUN-026 where it has parameters for more, E-ARG-001 where it has not enough.
    """
    info = info_of_function(function)
    if info is None:
        return
    wanted, given = info.parameters.required, outputs + labels
    if given < len(wanted):
        raise error(
            "E-RUN-026",
            f"`{which}` gives no {' '.join(wanted[given:])}",
            contract.spans[which] or contract.spans["prepare"],
            expected=f"(values input {' '.join(wanted[outputs:])})",
            help="the labels are the further values of prepare",
        )
    if given > info.parameters.positional and info.parameters.rest is None:
        raise lacking_parameters(active(), info, name, which, outputs, labels)


def _with_context(graph: GraphTrace, function: Callable[..., Any], batch: Batch) -> Any:
    """`(prepare batch)` or `(prepare batch ctx)`, as its lambda list says."""
    info = info_of_function(function)
    if info is not None and info.parameters.positional >= 2:
        return function(batch, context_plist(graph, LOOP_CONTEXT))
    return function(batch)


def _call(
    graph: GraphTrace,
    contract: Contract,
    name: str,
    function: Callable[..., Any],
    outputs: list[Any],
    labels: list[Any],
) -> Any:
    """A contract function, with `:ctx` where its lambda list names that keyword; poison where it failed."""
    try:
        info = info_of_function(function)
        failed = poison_among([*outputs, *labels])
        missing = len(info.parameters.required) - len(outputs) - len(labels) if info is not None else 0
        # Poison may stand for more than one value, or for none: it is taken for as many as are wanted.
        arguments = [*outputs, *[failed] * max(0, missing if failed is not None else 0), *labels]
        if failed is not None and info is not None and info.parameters.rest is None:
            del arguments[info.parameters.positional :]
        if info is not None and "ctx" in (info.parameters.keys or ()):
            arguments += [keyword("ctx"), context_plist(graph, LOOP_CONTEXT)]
        return function(*arguments)
    except Exception as raw:
        return poison_of(contract.explain(raw), contract.spans[name])


def trace_init(tracer: Tracer, target: Parameter | Buffer) -> GraphTrace:
    """The closed graph that gives a parameter's or buffer's first value; E-PARAM-008 when its type does not fit."""
    graph = GraphTrace(tracer, f"init {target.path}")
    kind = target.type
    with graph.tracing(), graph.inside(target.path or ""):
        value = as_tensor(one(target.init(lisp_list(kind.shape))), "an initializer", like=kind)
        if value.type.dtype != kind.dtype and value.type.shape == kind.shape:
            value = graph.emit("cast", value, dtype=kind.dtype)
        if value.type != kind:
            raise error(
                "E-PARAM-008",
                f"the initializer of `{target.path}` gives another shape",
                site_of(target),
                expected=str(kind),
                actual=str(value.type),
                notes=value.provenance(),
            )
        graph.output("value", target.path or "", value)
        graph.finish()
    return graph
