"""What a run holds at once in the memory of a device, by what holds it: the plan's promise, made before the first step.

The loop has three phases, of which the largest counts. While microbatches run there are their gradients and sums; while
parameters are updated, what the updates give beside what they are made from; while an evaluation or a generator runs,
its batch, its results and what an optimizer's view shows.
"""

from __future__ import annotations

from collections.abc import Iterable

from sexpgpu.diag import Diagnostic
from sexpgpu.driver.memory import Limit, Needs, limit_of, not_admitted, sum_arrays, too_large
from sexpgpu.experiment import Experiment, Generator, Graph, OutputRole
from sexpgpu.gpu.memory import SMALL, SMALL_BLOCK, block_size
from sexpgpu.plan.allocation import device_bytes
from sexpgpu.plan.records import DevicePlans, GraphPlan
from sexpgpu.tensortype import TensorType

_COUNTED: frozenset[OutputRole] = frozenset({"grad", "param", "state", "carry"})


def device_needs(experiment: Experiment, plans: DevicePlans, limit: Limit | None) -> Needs:
    """Bytes of the pool's blocks at the fullest moment."""
    by_path = {p.path: p.type for p in experiment.parameters}
    trained = [by_path[path] for update in experiment.updates for path in update.params]
    parameters, states = (_blocks(x.type for x in each) for each in (experiment.parameters, experiment.states))
    copies = experiment.run.microbatches
    buffers = _blocks(_repeated(b.type, copies if b.per_microbatch else 1) for b in experiment.buffers)
    largest = max(map(_block, trained), default=0)
    sums = sum_arrays(experiment.run)
    graphs = experiment.graphs
    train = [graphs[name] for name in (experiment.train_graph, experiment.sums_graph) if name is not None]
    held = copies if experiment.sums_graph is not None else 1
    batch = max(_given(graph) for graph in train) * held
    # A sum is added to, and scaled, by making another; the gradients that an update has read go as it is made.
    gradients = (1 + sums) * _blocks(trained) + (largest if sums or experiment.run.clip_norm is not None else 0)
    accumulating = gradients + buffers + batch + max(_results(graph) for graph in train)
    updating = _blocks(trained) + states + largest + buffers
    viewed = _blocks(by_path[path] for path in experiment.views)
    evaluating = max((_given(graphs[e.graph]) + _results(graphs[e.graph]) for e in experiment.evaluations), default=0)
    generating = max((_phase(experiment, name) for name in _generators(experiment)), default=0)
    phases = {
        "gradients and batch": accumulating,
        "updates": updating,
        "evaluation": viewed + evaluating,
        "generation": viewed + generating,
    }
    fullest = max(phases, key=lambda name: phases[name])
    arena = max((_arena(plan) for plan in plans.plans.values()), default=0)
    parts = {
        "parameters": parameters,
        "states": states,
        "buffers": buffers,
        "constants": sum(map(_constants, plans.plans.values())),
        fullest: phases[fullest],
        "arena": block_size(arena),
        "numbers": block_size(SMALL_BLOCK),
    }
    return Needs(parts, limit)


def generator_needs(experiment: Experiment, plans: DevicePlans, generator: Generator, limit: Limit | None) -> Needs:
    """What running one generator on the tensors of a checkpoint holds: nothing of training but what is restored."""
    by_path = {p.path: p.type for p in experiment.parameters}
    copies = experiment.run.microbatches
    names = (generator.init, generator.trip, generator.emit)
    viewing = experiment.views if generator.weights == "view" else {}
    symbols = {experiment.graphs[name].symbol for name in (*names, *viewing.values())}
    running = [plan for symbol, plan in plans.plans.items() if symbol in symbols]
    parts = {
        "parameters": _blocks(by_path.values()),
        "states": _blocks(s.type for s in experiment.states),
        "buffers": _blocks(_repeated(b.type, copies if b.per_microbatch else 1) for b in experiment.buffers),
        "constants": sum(map(_constants, running)),
        "generation": _blocks(by_path[path] for path in viewing) + _phase(experiment, names),
        "arena": block_size(max(map(_arena, running), default=0)),
        "numbers": block_size(SMALL_BLOCK),
    }
    return Needs(parts, limit)


def device_limit(experiment: Experiment, room: int, source: str) -> Limit:
    """The smaller of what the device has and what the run may hold."""
    asked = limit_of(experiment.run)
    return asked if asked is not None and asked.bytes < room else Limit(room, source)


def device_admission(experiment: Experiment, needs: Needs) -> Diagnostic | None:
    """`E-MEM-001` where the run does not fit."""
    if needs.limit is None or needs.total <= needs.limit.bytes:
        return None
    return not_admitted(experiment.run, needs, needs.limit)


def generator_admission(generator: Generator, needs: Needs) -> Diagnostic | None:
    """`E-MEM-001` where a generator that runs by itself does not fit."""
    if needs.limit is None or needs.total <= needs.limit.bytes:
        return None
    help = "it runs on the CPU as well: SEXPGPU_DEVICE=cpu"
    return too_large("the generator", generator.span, needs, needs.limit, help)


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


def _generators(experiment: Experiment) -> list[tuple[str, str, str]]:
    return [(g.init, g.trip, g.emit) for g in experiment.generators]


def _phase(experiment: Experiment, names: tuple[str, str, str]) -> int:
    """What a generator takes: the state that its trips carry, which each gives anew, its batch, its samples."""
    graphs = [experiment.graphs[name] for name in names]
    carried = max(_blocks(slot.type for slot in graph.inputs if slot.role == "carry") for graph in graphs)
    return 2 * carried + max(_given(graph) for graph in graphs) + max(_results(graph) for graph in graphs)


def _arena(plan: GraphPlan) -> int:
    return plan.memory.arena if plan.memory is not None else 0


def _constants(plan: GraphPlan) -> int:
    bodies = sum(_constants(body) for step in plan.steps for body in step.bodies)
    return bodies + sum(block_size(constant.nbytes) for constant in plan.constants)
