"""What a run holds at once in the memory of a device, by what holds it: the plan's promise, made before the first step.

The loop has three phases, of which the largest counts. While microbatches run there are their gradients and sums; while
parameters are updated, what the updates give beside what they are made from; while an evaluation or a generator runs,
its batch, its results and what an optimizer's view shows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sexpgpu.diag import Diagnostic
from sexpgpu.driver.memory import Limit, Needs, limit_of, not_admitted, sum_arrays, too_large
from sexpgpu.experiment import Experiment, Generator, Graph, OutputRole
from sexpgpu.gpu.arrays import sums_type
from sexpgpu.gpu.captures import launches_of
from sexpgpu.gpu.memory import SMALL, SMALL_BLOCK, block_size
from sexpgpu.gpu.transport import rounded_types, transport_bytes
from sexpgpu.plan.allocation import device_bytes
from sexpgpu.plan.build import temporary_offsets
from sexpgpu.plan.records import DevicePlans, GraphPlan
from sexpgpu.plan.together import updating
from sexpgpu.runtime.peers import Peers
from sexpgpu.runtime.planned import Planned
from sexpgpu.runtime.ranks import rounds
from sexpgpu.tensortype import TensorType

_COUNTED: frozenset[OutputRole] = frozenset({"grad", "param", "state", "carry"})
_LARGEST = 8
"""Bytes of a number, at most."""
_PART = 2048
"""Elements of which kernels that fold a tensor keep one number, at least."""


def device_needs(
    experiment: Experiment,
    plans: DevicePlans,
    peers: Peers | None = None,
    degrees: Collection[int] = (1,),
    ranks: int = 1,
) -> Planned:
    """Bytes of the pool's blocks at the fullest moment; with `peers` what gradients on their way to these take too.

    Of the degrees by which calls may run a device's share of the microbatches, of as many `ranks`, the neediest counts.
    """
    share = experiment.run.microbatches // ranks
    found = [_needs(experiment, plans, peers, degree, share) for degree in degrees]
    return max(found, key=lambda planned: planned.total)


def _needs(experiment: Experiment, plans: DevicePlans, peers: Peers | None, degree: int, share: int) -> Planned:
    by_path = {p.path: p.type for p in experiment.parameters}
    together = updating(experiment, plans.plans)
    running = running_plans(plans, (degree,))
    running += [together.together.plan] if together.together is not None else []
    train = next((plan.spec for plan in running if plan.spec.stacked == degree > 1), None)
    phases = _phases(experiment, train or experiment.graphs[experiment.train_graph], share // degree, together.graphs)
    narrow = _narrow(experiment, running)
    squares = _blocks(squares_of(running))
    phases["microbatches"] |= {"squares of gradients": squares} if squares else {}
    phases["updates"]["new narrow parameters"] = _blocks(_updated_narrow(experiment, plans))
    if rounds(experiment.run, peers):
        # Both stay until the step is kept: what rounding took from its gradients, and from those of the step before.
        phases["updates"]["new rounding errors"] = _blocks(rounded_types(gradient_types(experiment)).values())
    for name in ("evaluation", "generation"):
        phases[name]["narrow views"] = _blocks(narrow[path] for path in experiment.views if path in narrow)
    when = max(phases, key=lambda name: sum(phases[name].values()))
    fullest = max(running, key=_arena)
    copies = experiment.run.microbatches
    parts = {
        "parameters": _blocks(by_path.values()),
        "narrow parameters": _blocks(narrow.values()),
        "optimizer states": _blocks(s.type for s in experiment.states),
        "buffers": _buffers(experiment, copies),
        "constants": sum(map(_constants, running)),
        **phases[when],
        **_collective(experiment, peers),
        "arena": block_size(max(_arena(fullest), _norm_arena(experiment))),
        "numbers of the loop": _numbers(experiment),
        "scalars for the host": block_size(SMALL_BLOCK),
    }
    generating = max((_phase(experiment, (g.init, g.trip, g.emit)) for g in experiment.generators), default=0)
    return Planned(parts, {"phase": when, **_peak(fullest)}, generating)


def generator_needs(experiment: Experiment, plans: DevicePlans, generator: Generator) -> Planned:
    """What running one generator on the tensors of a checkpoint holds: nothing of training but what is restored."""
    by_path = {p.path: p.type for p in experiment.parameters}
    names = (generator.init, generator.trip, generator.emit)
    viewing = experiment.views if generator.weights == "view" else {}
    symbols = {experiment.graphs[name].symbol for name in (*names, *viewing.values())}
    running = [plan for symbol, plan in plans.plans.items() if symbol in symbols]
    fullest = max(running, key=_arena)
    generating = _phase(experiment, names)
    narrow = _narrow(experiment, running)
    parts = {
        "parameters": _blocks(by_path.values()),
        "narrow parameters": _blocks(narrow.values()),
        "optimizer states": _blocks(s.type for s in experiment.states),
        "buffers": _buffers(experiment, experiment.run.microbatches),
        "constants": sum(map(_constants, running)),
        "views": _blocks(by_path[path] for path in viewing),
        "generation": generating,
        "arena": block_size(_arena(fullest)),
        "scalars for the host": block_size(SMALL_BLOCK),
    }
    return Planned(parts, {"phase": "generation", **_peak(fullest)}, generating)


def step_launches(experiment: Experiment, plans: DevicePlans, degree: int, ranks: int) -> int:
    """The kernels of a step on one of so many `ranks`, where a call runs `degree` microbatches: what is captured as
    one. The loop's own are not counted, which are few.
    """
    graphs = experiment.graphs
    share = experiment.run.microbatches // ranks
    train = graphs[experiment.train_graph].symbol
    calls = [plan for plan in plans.plans.values() if plan.spec.stacked == degree > 1] or [plans.plans[train]]
    count = share // degree * launches_of(calls[0])
    if experiment.sums_graph is not None:
        count += share * launches_of(plans.plans[graphs[experiment.sums_graph].symbol])
    together = updating(experiment, plans.plans)
    if together.together is not None:
        count += launches_of(together.together.plan)
    alone = [u for u in experiment.updates if u.graph not in together.graphs]
    return count + sum(len(u.params) * launches_of(plans.plans[graphs[u.graph].symbol]) for u in alone)


def _numbers(experiment: Experiment) -> int:
    """What the loop's kernels keep from step to step: sums of squares, limits of the norm, divisors of gradients."""
    run = experiment.run
    types = [type for type in gradient_types(experiment).values() if type.size]
    divisors = {type.dtype for type in types} if run.microbatches > 1 else set()
    limits = 2 if run.clip_norm is not None else 0
    return block_size(sums_type(len(types)).nbytes) + (limits + len(divisors)) * block_size(_LARGEST)


def gradient_types(experiment: Experiment) -> dict[str, TensorType]:
    """The gradients of the train graph, by the parameters' paths."""
    outputs = experiment.graphs[experiment.train_graph].outputs
    return {output.name: output.type for output in outputs if output.role == "grad"}


def _collective(experiment: Experiment, peers: Peers | None) -> dict[str, int]:
    """What lasts from step to step of gradients that go to other machines."""
    if peers is None:
        return {}
    return {"collective buffers": transport_bytes(gradient_types(experiment), rounds(experiment.run, peers))}


def running_plans(plans: DevicePlans, degrees: Collection[int]) -> list[GraphPlan]:
    """The plans of a run that stacks by some degrees: all but those of other degrees."""
    return [plan for plan in plans.plans.values() if plan.spec.stacked == 1 or plan.spec.stacked in degrees]


def _phases(
    experiment: Experiment, train: Graph, calls: int, together: Collection[str] = ()
) -> dict[str, dict[str, int]]:
    """What each phase of the loop holds of its own, where a device calls the graph `train` so often a step, and the
    updates `together` each once for all of its parameters.
    """
    by_path = {p.path: p.type for p in experiment.parameters}
    alone = [by_path[path] for u in experiment.updates if u.graph not in together for path in u.params]
    trained = [by_path[path] for update in experiment.updates for path in update.params]
    largest = max(map(_block, trained), default=0)
    sums = sum_arrays(experiment.run, calls)
    graphs = experiment.graphs
    copies = experiment.run.microbatches
    buffers = _buffers(experiment, copies)
    training = [train, *([graphs[experiment.sums_graph]] if experiment.sums_graph is not None else [])]
    held = copies if experiment.sums_graph is not None else 1
    # A sum is added to, and scaled, by making another. The gradient that an update of one parameter has read goes as
    # the new parameter is made; updates of many write these over the gradients.
    more = largest if sums else 0
    viewed = _blocks(by_path[path] for path in experiment.views)
    evaluated = [_given(graphs[e.graph]) + _results(graphs[e.graph]) for e in experiment.evaluations]
    generating = [_phase(experiment, (g.init, g.trip, g.emit)) for g in experiment.generators]
    return {
        "microbatches": {
            "gradients": (1 + sums) * _blocks(trained) + more,
            "new buffers": buffers,
            "batch": max(_given(each) // each.stacked * max(held, each.stacked) + _results(each) for each in training),
        },
        "updates": {
            "gradients": max(map(_block, alone), default=0),
            "new parameters": _blocks(trained),
            "new states": _blocks(s.type for s in experiment.states),
            "new buffers": buffers,
        },
        "evaluation": {"views": viewed, "batch": max(evaluated, default=0)},
        "generation": {"views": viewed, "generation": max(generating, default=0)},
    }


def has_narrow(plans: DevicePlans) -> bool:
    """Whether a device keeps narrow parameters for these graphs."""
    return any(slot.role == "narrow" for plan in plans.plans.values() for slot in plan.spec.inputs)


def _narrow(experiment: Experiment, running: Iterable[GraphPlan]) -> dict[str, TensorType]:
    """The narrow parameters that graphs read, by the parameters' paths."""
    paths = {p.path for p in experiment.parameters}
    slots = [slot for plan in running for slot in plan.spec.inputs if slot.role == "narrow"]
    return {slot.name: slot.type for slot in slots if slot.name in paths}


def squares_of(plans: Iterable[GraphPlan]) -> list[TensorType]:
    """What graphs give of the squares of their gradients, beside these."""
    return [output.type for plan in plans for output in plan.spec.outputs if output.role == "squares"]


def _updated_narrow(experiment: Experiment, plans: DevicePlans) -> list[TensorType]:
    """The narrow parameters that updates give."""
    given = []
    for update in experiment.updates:
        spec = plans.plans[experiment.graphs[update.graph].symbol].spec
        given += [output.type for output in spec.outputs if output.role == "narrow"] * len(update.params)
    return given


def device_limit(experiment: Experiment, room: int, source: str) -> Limit:
    """The smaller of what the device has and what the run may hold."""
    asked = limit_of(experiment.run)
    return asked if asked is not None and asked.bytes < room else Limit(room, source)


def device_admission(experiment: Experiment, planned: Planned, limit: Limit) -> Diagnostic | None:
    """`E-MEM-001` where the run does not fit."""
    if planned.total <= limit.bytes:
        return None
    return not_admitted(experiment.run, Needs(dict(planned.parts), limit), limit)


def generator_admission(generator: Generator, planned: Planned, limit: Limit) -> Diagnostic | None:
    """`E-MEM-001` where a generator that runs by itself does not fit."""
    if planned.total <= limit.bytes:
        return None
    help = "it runs on the CPU as well: SEXPGPU_DEVICE=cpu"
    return too_large("the generator", generator.span, Needs(dict(planned.parts), limit), limit, help)


def _blocks(types: Iterable[TensorType]) -> int:
    return sum(map(_block, types))


def _block(type: TensorType) -> int:
    """What an array takes of the pool; small ones share blocks."""
    nbytes = device_bytes(type)
    return block_size(nbytes) if nbytes > SMALL else 0


def _repeated(type: TensorType, copies: int) -> TensorType:
    return type if copies == 1 else TensorType((copies, *type.shape), type.dtype)


def _given(graph: Graph) -> int:
    """What is uploaded for a call."""
    return _blocks(slot.type for slot in graph.inputs if slot.role in ("field", "ctx", "step_sum", "prompt"))


def _results(graph: Graph) -> int:
    """What a call gives beside what lasts or is counted on its own."""
    return _blocks(output.type for output in graph.outputs if output.role not in _COUNTED)


def _phase(experiment: Experiment, names: tuple[str, str, str]) -> int:
    """What a generator takes: the state that its trips carry, which each gives anew, its batch, its samples."""
    graphs = [experiment.graphs[name] for name in names]
    carried = max(_blocks(slot.type for slot in graph.inputs if slot.role == "carry") for graph in graphs)
    return 2 * carried + max(_given(graph) for graph in graphs) + max(_results(graph) for graph in graphs)


def _buffers(experiment: Experiment, copies: int) -> int:
    """The buffers once, those that each microbatch has of its own for all of them."""
    return _blocks(_repeated(b.type, copies if b.per_microbatch else 1) for b in experiment.buffers)


def _peak(plan: GraphPlan) -> dict[str, str]:
    """Where most of a graph's arena is alive."""
    found = {"graph": plan.spec.name}
    if plan.memory is None or not plan.memory.arena:
        return found
    span = plan.steps[plan.memory.step].span
    return found | ({"at": str(span)} if span is not None else {})


def _norm_arena(experiment: Experiment) -> int:
    """What the norm of all gradients keeps of their parts, each of which has as many elements or more."""
    parts = [-(-type.size // _PART) for type in gradient_types(experiment).values()]
    return temporary_offsets([8 * max(1, count) for count in parts])[-1]


def _arena(plan: GraphPlan) -> int:
    return plan.memory.arena if plan.memory is not None else 0


def _constants(plan: GraphPlan) -> int:
    bodies = sum(_constants(body) for step in plan.steps for body in step.bodies)
    return bodies + sum(block_size(constant.nbytes) for constant in plan.constants)
