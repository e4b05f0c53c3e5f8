"""From the values an evaluated file leaves behind to traced graphs and the experiment record.

Looks the contract names up, names the model's parameters, traces every graph the run needs into one module and
describes the rest as data. Independent faults are all reported; what depends on a failed part is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, evolve, field

from sexpgpu.diag import Diagnostic, Diagnostics, Span, error
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.read import attrs_of, op_name
from sexpgpu.experiment import Buffer as BufferRecord
from sexpgpu.experiment import Evaluation, Generator, Group, Loader, LoaderField, RunConfig, Stage, State, Update
from sexpgpu.experiment import Parameter as ParameterRecord
from sexpgpu.lang.poison import Poison
from sexpgpu.lang.recovery import poison_of
from sexpgpu.lang.session import Session
from sexpgpu.tensortype import TensorType
from sexpgpu.trace.contract import Contract, look_up
from sexpgpu.trace.curriculum import trace_stages
from sexpgpu.trace.declarations import Declarations, EvaluationValue, Flags, LoaderValue, StageValue
from sexpgpu.trace.generators import trace_generator, try_flags
from sexpgpu.trace.graph import GraphTrace
from sexpgpu.trace.graphs import (
    parameters_reaching_loss,
    trace_evaluation,
    trace_init,
    trace_train,
)
from sexpgpu.trace.models import (
    Buffer,
    Model,
    Parameter,
    buffers_of,
    is_whole,
    name_tree,
    parameters_of,
    settle,
    site_of,
)
from sexpgpu.trace.optimizers import AssignedGroup, Slot, assign_groups
from sexpgpu.trace.standins import made_by, stand_in_evaluations, stand_in_parameter, trace_model, unsaid
from sexpgpu.trace.tracer import Tracer
from sexpgpu.trace.untrained import untrained
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


STAND_IN_RUN = RunConfig(steps=1, epochs=None)
"""The run for graphs that are traced only to find the faults in them."""
TRAIN = "train"
"""The name of the train graph."""
SUMS = "train sums"
"""The name of the graph that gives a microbatch's step sums."""


def assemble(session: Session, declared: Declarations, context: Context, diagnostics: Diagnostics) -> Traced | None:
    """Trace everything the file declares; None when a part that all else needs is missing.

    Faults are reported. What does not need the parts that have failed is traced all the same, for the faults in it.
    """
    contract = look_up(session, declared, diagnostics)
    if contract is None:
        return None
    run = declared.run or STAND_IN_RUN
    run = evolve(run, deterministic=run.deterministic or declared.deterministic)
    tracer = Tracer(context, run, _knob_sizes(session))
    traced = Traced(tracer, contract, run)
    report = diagnostics.report
    model = contract.model
    if isinstance(model, Poison):
        _trace_without_model(session, declared, traced, model)
        return None
    name_tree(model, "model")
    settle(model, tracer.float_type)
    parameters = parameters_of(model)
    buffers = buffers_of(model)
    whole = is_whole(model)

    trained = [p for p in parameters if not p.frozen]
    with _reporting(session, session.span_of("model")):
        graph = trace_train(tracer, contract, _rows(contract.train_loader))
        if whole:
            trained = _trained(graph, contract, model, parameters, report)
    for parameter in parameters:
        with _reporting(session, site_of(parameter)):
            trace_init(tracer, parameter)
    for buffer in buffers:
        with _reporting(session, site_of(buffer)):
            trace_init(tracer, buffer)
    evaluations, observed = _trace_evaluations(session, declared, traced)
    with _reporting(session, contract.spans["curriculum"] or session.span_of("train-loader")):
        if len(evaluations) == len(declared.evaluations) and not session.failures:
            traced.curriculum = trace_stages(tracer, contract, declared, observed)
    generators = _trace_generators(session, declared, traced)
    groups: list[AssignedGroup] = []
    with _reporting(session, session.span_of("optimizer")):
        groups = _trace_optimizer(session, traced, trained, report if whole else unsaid)
    if isinstance(contract.train_loader, Poison) or not contract.whole:
        return None

    group_of = {p.path: g.name for g in groups for p in g.members}
    traced.parameters = tuple(_parameter_record(p, group_of) for p in parameters)
    traced.buffers = tuple(_buffer_record(b) for b in buffers)
    traced.evaluations = tuple(_evaluation_record(e, declared) for e in evaluations)
    traced.generators = tuple(generators)
    traced.train_loader = loader_record(contract.train_loader, declared)
    return traced


def _trace_without_model(session: Session, declared: Declarations, traced: Traced, failed: Poison) -> None:
    """Look for faults in what does not need the model, and in the models that the file defines."""
    contract = traced.contract
    with _reporting(session, contract.spans["objective"]):
        trace_train(traced.tracer, contract, _rows(contract.train_loader))
    for name, function in made_by(session, "defmodel"):
        with _reporting(session, session.span_of(name)):
            trace_model(traced.tracer, name, function, failed)
    _trace_evaluations(session, declared, traced)
    _trace_generators(session, declared, traced)
    with _reporting(session, session.span_of("optimizer"), unless="E-SHAPE"):
        _trace_optimizer(session, traced, [stand_in_parameter(traced.tracer)], unsaid)


def _trace_optimizer(
    session: Session, traced: Traced, trained: list[Parameter], report: Callable[[Diagnostic], None]
) -> list[AssignedGroup]:
    """The groups of the trained parameters, the update of each traced; one of each `defoptimizer` where none is."""
    optimizer = traced.contract.optimizer
    groups: list[AssignedGroup] = []
    if optimizer is not None:
        groups = assign_groups(optimizer, trained, report)
    elif session.failures:
        for name, function in made_by(session, "defoptimizer"):
            with _reporting(session, session.span_of(name)):
                groups.append(AssignedGroup(name, name, function(), [stand_in_parameter(traced.tracer)]))
    for group in groups:
        with _reporting(session, group.optimizer.span, unless=None if optimizer is not None else "E-SHAPE"):
            _trace_group(traced, group)
    return groups


def _trace_evaluations(
    session: Session, declared: Declarations, traced: Traced
) -> tuple[list[EvaluationValue], dict[str, None]]:
    """Those of the declared evaluations that could be traced, and the metrics that they report."""
    contract = traced.contract
    done = []
    observed: dict[str, None] = {}
    for evaluation in declared.evaluations or stand_in_evaluations(session, contract):
        if evaluation.evaluate is None and contract.evaluate is None:
            continue
        with _reporting(session, evaluation.span):
            graph = trace_evaluation(traced.tracer, contract, evaluation, _rows(evaluation.loader))
            observed |= dict.fromkeys(output.name for output, _ in graph.outputs if output.role == "metric")
            done.append(evaluation)
    return done, observed


def _trace_generators(session: Session, declared: Declarations, traced: Traced) -> list[Generator]:
    """Those of the declared generators that could be traced; what only `generate` says is tried, too."""
    loader, tracer = traced.contract.train_loader, traced.tracer
    if isinstance(loader, Poison):
        return []
    done = []
    apart = Tracer(tracer.context, traced.run, tracer.sizes)
    for generator in declared.generators:
        with _reporting(session, generator.span):
            done.append(trace_generator(tracer, loader, generator, declared.flags))
        if declared.flags == Flags():
            with _reporting(session, generator.span):
                try_flags(apart, loader, generator)
    return done


def _rows(loader: LoaderValue | Poison) -> int:
    return 1 if isinstance(loader, Poison) else loader.batch


def _trained(
    graph: GraphTrace,
    contract: Contract,
    model: Model,
    parameters: list[Parameter],
    report: Callable[[Diagnostic], None],
) -> list[Parameter]:
    """The parameters that training changes; W-PARAM-001 for each other one, E-RUN-025 when there is none."""
    reached = parameters_reaching_loss(graph)
    trained = [p for p in parameters if not p.frozen and p.path in reached]
    if not trained:
        raise error(
            "E-RUN-025",
            "the objective depends on no trained parameter: there is nothing to train",
            contract.spans["objective"],
            help="no gradient passes stop-gradient, a comparison, argmax or a cast to integers",
        )
    for diagnostic in untrained(graph, model, [p for p in parameters if not p.frozen and p.path not in reached]):
        report(diagnostic)
    return trained


class _reporting:
    """Reports a user's fault raised inside the block where it happened, else at `span`, and goes on after it.

    Faults of the family `unless` are passed over.
    """

    def __init__(self, session: Session, span: Span | None, unless: str | None = None) -> None:
        self.session = session
        self.span = span
        self.unless = unless

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, fault: Any, traceback: Any) -> bool:
        if not isinstance(fault, Exception):
            return False
        # A call with too many arguments is Python's exception until the session explains it; ours flies on.
        known = self.session.explained(fault)
        if self.unless is None or not known.diagnostic.code.startswith(self.unless):
            poison_of(known, self.span)
        return True


def _knob_sizes(session: Session) -> dict[int, str]:
    """Which knobs hold a size, by the size: `128: knob width (default, 3:12)`."""
    found: dict[int, list[str]] = {}
    for knob in session.selected.knobs:
        if knob.value.isdigit() and int(knob.value) > 1:
            place = session.span_of(knob.name)
            at = f", {place.line}:{place.col}" if place is not None and knob.source == "default" else ""
            found.setdefault(int(knob.value), []).append(f"knob {knob.name} ({knob.source}{at})")
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


def _loader_of(value: EvaluationValue, declared: Declarations) -> Loader:
    assert isinstance(value.loader, LoaderValue)
    return loader_record(value.loader, declared)


def _loader_fields(value: LoaderValue, stage: StageValue) -> tuple[LoaderField, ...]:
    batch = {name: value.batch_type(name, value.batch) for name in stage.fields}
    return tuple(LoaderField(name, s.source, batch[name], s.span) for name, (s, _) in stage.fields.items())


def _evaluation_record(value: EvaluationValue, declared: Declarations) -> Evaluation:
    return Evaluation(
        value.name,
        _loader_of(value, declared),
        value.name,
        value.every,
        value.at,
        value.batches,
        value.fixed,
        value.at_start,
        value.weights,
        value.span,
    )
