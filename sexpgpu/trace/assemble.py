"""From the values an evaluated file leaves behind to traced graphs and the experiment record.

Looks the contract names up, names the model's parameters, traces every graph the run needs into one module and
describes the rest as data. Independent faults are all reported; what depends on a failed part is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

from sexpgpu.diag import Diagnostic, Diagnostics, Span, error
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.read import attrs_of, op_name
from sexpgpu.experiment import Buffer as BufferRecord
from sexpgpu.experiment import Evaluation, Generator, Group, Loader, LoaderField, RunConfig, Stage, State, Update
from sexpgpu.experiment import Parameter as ParameterRecord
from sexpgpu.lang.session import Session
from sexpgpu.tensortype import TensorType
from sexpgpu.trace.contract import Contract, look_up
from sexpgpu.trace.curriculum import trace_curriculum
from sexpgpu.trace.declarations import Declarations, EvaluationValue, LoaderValue, StageValue
from sexpgpu.trace.generators import trace_generator
from sexpgpu.trace.graph import GraphTrace, Tracer
from sexpgpu.trace.graphs import (
    parameters_reaching_loss,
    trace_evaluation,
    trace_init,
    trace_train,
)
from sexpgpu.trace.models import Buffer, Parameter, buffers_of, name_tree, parameters_of, settle
from sexpgpu.trace.optimizers import AssignedGroup, Slot, assign_groups
from sexpgpu.trace.updates import trace_state, trace_update, trace_view


@define
class Traced:
    """The module of an experiment and its records, all but the signatures that later passes complete."""

    tracer: Tracer
    contract: Contract
    run: RunConfig
    parameters: tuple[ParameterRecord, ...] = ()
    buffers: tuple[BufferRecord, ...] = ()
    states: tuple[State, ...] = ()
    updates: tuple[Update, ...] = ()
    groups: tuple[Group, ...] = ()
    train_loader: Loader | None = None
    evaluations: tuple[Evaluation, ...] = ()
    generators: tuple[Generator, ...] = ()
    views: dict[str, str] = field(factory=dict)
    curriculum: str | None = None


TRAIN = "train"
"""The name of the train graph."""
SUMS = "train sums"
"""The name of the graph that gives a microbatch's step sums."""


def assemble(session: Session, declared: Declarations, context: Context, diagnostics: Diagnostics) -> Traced | None:
    """Trace everything the file declares; None when a part that all else needs is missing. Faults are reported."""
    contract = look_up(session, declared, diagnostics)
    if contract is None:
        return None
    assert declared.run is not None
    tracer = Tracer(context, declared.run, _knob_sizes(session))
    traced = Traced(tracer, contract, declared.run)
    name_tree(contract.model, "model")
    settle(contract.model, tracer.float_type)
    parameters = parameters_of(contract.model)
    buffers = buffers_of(contract.model)
    report = diagnostics.report

    trained: list[Parameter] = []
    with _reporting(session, report, session.span_of("model")):
        graph = trace_train(tracer, contract, contract.train_loader.batch)
        reached = parameters_reaching_loss(graph)
        trained = [p for p in parameters if not p.frozen and p.path in reached]
        for dead in (p for p in parameters if not p.frozen and p.path not in reached):
            report(_dead_parameter(dead))
        if not trained:
            raise error(
                "E-RUN-025",
                "the objective depends on no trained parameter: there is nothing to train",
                contract.spans["objective"],
            )
    for parameter in parameters:
        with _reporting(session, report, parameter.span):
            trace_init(tracer, parameter)
    for buffer in buffers:
        with _reporting(session, report, buffer.span):
            trace_init(tracer, buffer)
    evaluations = []
    observed: dict[str, None] = {}
    for evaluation in declared.evaluations:
        if evaluation.evaluate is None and contract.evaluate is None:
            continue
        with _reporting(session, report, evaluation.span):
            graph = trace_evaluation(tracer, contract, evaluation, evaluation.loader.batch)
            observed |= dict.fromkeys(output.name for output, _ in graph.outputs if output.role == "metric")
            evaluations.append(_evaluation_record(evaluation, declared))
    with _reporting(session, report, contract.spans["curriculum"] or contract.train_loader.span):
        whole = len(evaluations) == len(declared.evaluations) and not session.failed("defeval")
        if whole and _has_curriculum(contract, declared):
            traced.curriculum = trace_curriculum(tracer, contract, observed).name
    generators = []
    for generator in declared.generators:
        with _reporting(session, report, generator.span):
            generators.append(trace_generator(tracer, contract, generator, declared.flags))
    groups: list[AssignedGroup] = []
    with _reporting(session, report, session.span_of("optimizer")):
        if contract.optimizer is not None:
            groups = assign_groups(contract.optimizer, trained, report)
    for group in groups:
        with _reporting(session, report, group.optimizer.span):
            _trace_group(traced, group)

    group_of = {p.path: g.name for g in groups for p in g.members}
    traced.parameters = tuple(_parameter_record(p, group_of) for p in parameters)
    traced.buffers = tuple(_buffer_record(b) for b in buffers)
    traced.evaluations = tuple(evaluations)
    traced.generators = tuple(generators)
    traced.train_loader = loader_record(contract.train_loader, declared)
    return traced


def _has_curriculum(contract: Contract, declared: Declarations) -> bool:
    """Whether a curriculum chooses among stages; E-RUN-026, -027, -029 where there is one half of that alone."""
    stages = contract.train_loader.stages
    if contract.curriculum is None:
        if len(stages) > 1:
            raise error(
                "E-RUN-027",
                f"nothing ever goes on to the stage {stages[1].name} of the train loader",
                help="(defun curriculum (ctx) (where (< (getf (getf ctx :metrics) :val/loss) 2.0) 1 0))",
            )
        return False
    if len(stages) < 2:
        raise error(
            "E-RUN-026",
            "there is a `curriculum`, and the train loader has no stages",
            help="(defloader train-loader (:batch 8) (stage easy (x SOURCE)) (stage hard (x SOURCE)))",
        )
    if not declared.evaluations:
        raise error(
            "E-RUN-029",
            "`curriculum` is called after evaluations, and there are none",
            help="(defeval val (:loader val-loader :every 100))",
        )
    return True


class _reporting:
    """Reports a user's fault raised inside the block where it happened, else at `span`, and goes on after it."""

    def __init__(self, session: Session, report: Callable[[Diagnostic], None], span: Span | None) -> None:
        self.session = session
        self.report = report
        self.span = span

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, fault: Any, traceback: Any) -> bool:
        if not isinstance(fault, Exception):
            return False
        # A call with too many arguments is Python's exception until the session explains it; ours flies on.
        self.report(self.session.explained(fault).diagnostic.at(self.span))
        return True


def _knob_sizes(session: Session) -> dict[int, str]:
    """Which knobs hold a size, by the size: `128: knob width (default)`."""
    found: dict[int, list[str]] = {}
    for knob in session.selected.knobs:
        if knob.value.isdigit() and int(knob.value) > 1:
            found.setdefault(int(knob.value), []).append(f"knob {knob.name} ({knob.source})")
    return {size: " or ".join(names) for size, names in found.items()}


def _trace_group(traced: Traced, group: AssignedGroup) -> None:
    """One update graph for each type among the group's members, one for each state that does not start at zero."""
    by_type: dict[TensorType, list[Parameter]] = {}
    for parameter in group.members:
        by_type.setdefault(parameter.type, []).append(parameter)
    updates, states = [], []
    names: dict[str, None] = {}
    constants: dict[float, None] = {}
    for kind, members in by_type.items():
        graph = trace_update(traced.tracer, group, members[0])
        constants |= dict.fromkeys(_constants(graph))
        updates.append(Update(graph.name, group.name, tuple(p.path or "" for p in members)))
        found = group.optimizer.states_of(Slot("param", "param", kind))
        names |= dict.fromkeys(found)
        first = {
            name: trace_state(traced.tracer, group, members[0], name, state).name
            for name, state in found.items()
            if state.init is not None
        }
        states += [
            State(f"{p.path}/{name}", p.path or "", state.type, first.get(name))
            for p in members
            for name, state in found.items()
        ]
        if group.optimizer.viewing() is not None:
            view = trace_view(traced.tracer, group, members[0])
            traced.views |= {p.path or "": view.name for p in members}
    traced.updates += tuple(updates)
    traced.states += tuple(states)
    traced.groups += (
        Group(
            group.name,
            group.selector,
            group.optimizer.described(),
            tuple(p.path or "" for p in group.members),
            tuple(names),
            tuple(constants),
        ),
    )


def _constants(graph: GraphTrace) -> list[float]:
    """The numbers that fill constants of a graph as it was traced, in order of first use."""
    attributes = [attrs_of(op) for op in graph.block.operations if op_name(op) == "constant"]
    return [float(a["value"].data) for a in attributes if a["value"].is_splat]


def _dead_parameter(parameter: Parameter) -> Diagnostic:
    return Diagnostic(
        "W-PARAM-001",
        f"parameter `{parameter.path}` does not reach the objective: it will not be trained",
        parameter.span,
        severity="warning",
    )


def _parameter_record(p: Parameter, group_of: dict[str | None, str]) -> ParameterRecord:
    return ParameterRecord(
        p.path or p.name,
        p.type,
        f"init {p.path}",
        p.frozen,
        tuple(p.aliases),
        group_of.get(p.path, "frozen" if p.frozen else "none"),
        p.span,
        p.shape_source,
    )


def _buffer_record(b: Buffer) -> BufferRecord:
    return BufferRecord(b.path or b.name, b.type, f"init {b.path}", b.per_microbatch, b.span)


def loader_record(value: LoaderValue, declared: Declarations) -> Loader:
    """A loader as data; its seed is the run's where it has none."""
    assert declared.run is not None
    order: Any = value.order
    stages = tuple(Stage(s.name or value.name, _loader_fields(value, s)) for s in value.stages)
    return Loader(
        value.name,
        value.batch,
        order,
        declared.run.seed if value.seed is None else value.seed,
        stages[0].fields,
        value.index_file.path if value.index_file else None,
        value.index_file.wrap if value.index_file else False,
        value.span,
        stages if len(stages) > 1 else (),
    )


def _loader_fields(value: LoaderValue, stage: StageValue) -> tuple[LoaderField, ...]:
    batch = {name: value.batch_type(name, value.batch) for name in stage.fields}
    return tuple(LoaderField(name, s.source, batch[name], s.span) for name, (s, _) in stage.fields.items())


def _evaluation_record(value: EvaluationValue, declared: Declarations) -> Evaluation:
    return Evaluation(
        value.name,
        loader_record(value.loader, declared),
        value.name,
        value.every,
        value.at,
        value.batches,
        value.fixed,
        value.at_start,
        value.weights,
        value.span,
    )
