"""The plans of several calls as one: kernels of many tensors take all their tensors in as few launches as tables allow.

@update_1(step, lr), @update_1_2(lr, [p 768])             @update_1(step, lr)
@update_1(step, lr), @update_1_2(lr, [q 50304 x 768])  =>  @update_1_2(lr, [p 768, q 50304 x 768])
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, TypeVar

from attrs import define, evolve, field, frozen
from numpy.typing import NDArray

from sexpgpu.experiment import Experiment, Graph, Input, InputRole, Output
from sexpgpu.plan.build import temporary_offsets
from sexpgpu.plan.records import Fixed, Given, GraphPlan, Into, Launch, Launches, Memory, Plans, Slot, Step
from sexpgpu.plan.tables import Row

OWN: frozenset[InputRole] = frozenset({"param", "grad", "state"})
"""What every call of an update has of its own."""
_Slot = TypeVar("_Slot", Input, Output)


@frozen(eq=False)
class Together:
    """A plan of several calls: for each, which of the plan's inputs it reads and which of its results it gives.

    What is the same for all calls of a kernel is one result.
    """

    plan: GraphPlan
    inputs: tuple[tuple[int, ...], ...]
    results: tuple[tuple[int, ...], ...]


@frozen(eq=False)
class Updating:
    """The updates of an experiment: `graphs` are those that run `together`, for all of their parameters in order."""

    graphs: frozenset[str]
    together: Together | None


def updating(experiment: Experiment, plans: Plans) -> Updating:
    """Which updates of an experiment run together, by its graphs' plans."""
    each = {u.graph: plans[experiment.graphs[u.graph].symbol] for u in experiment.updates}
    graphs = frozenset(name for name, plan in each.items() if takes_many(plan))
    calls = [each[u.graph] for u in experiment.updates if u.graph in graphs for _ in u.params]
    return Updating(graphs, together(calls, "updates") if calls else None)


def takes_many(plan: GraphPlan) -> bool:
    """Whether a graph is no more than kernels of many tensors: what they give is in the caller's memory, and what else
    it gives is constant.
    """
    if len(plan.steps) != 1 or not isinstance(plan.steps[0].how, Launches):
        return False
    (step,) = plan.steps
    given = all(isinstance(plan.slots[slot].home, Given) for slot in step.ins)
    homes = [plan.slots[slot].home for slot in plan.results]
    into = all(home == Into(place) or isinstance(home, Fixed) for place, home in enumerate(homes))
    return given and into and any(launch.table is not None for launch in plan.steps[0].how.kernels)


def together(plans: Sequence[GraphPlan], name: str) -> Together:
    """One plan for a call of each of `plans`, each of which takes many: those with the same kernels share launches.

    Tensors of a call of its own are parameters, gradients and states; other inputs are the same by role and name.
    """
    made = _Together()
    for plan in plans:
        assert takes_many(plan), plan.spec.name
        made.add(plan)
    return made.finish(name)


_Number = tuple[str, int]
"""What an argument or result is, `in`, `out`, `narrow` or `made`, and the how manieth of these."""


@define(eq=False)
class _Group:
    """Calls of the same kernels: those of the first call, and the tensors of all."""

    kernels: tuple[Launch, ...]
    arguments: dict[int, _Number]  # of the first call, by its own numbers
    constants: dict[int, _Number]  # results that are the same for all
    rows: list[list[tuple[list[_Number], int]]] = field(factory=list)  # of every call, one for each table


@define(eq=False)
class _Together:
    """What was added so far. Narrow results come behind all others, as those of any graph do."""

    inputs: list[Input] = field(factory=list)
    outputs: dict[str, list[Output]] = field(factory=lambda: {"out": [], "narrow": []})
    temporaries: list[int] = field(factory=list)
    constants: list[NDArray[Any]] = field(factory=list)
    fixed: dict[int, int] = field(factory=dict)  # of the results by their numbers, the constants
    groups: dict[Hashable, _Group] = field(factory=dict)
    shared: dict[tuple[str, str], int] = field(factory=dict)
    calls: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(factory=list)

    def add(self, plan: GraphPlan) -> None:
        (step,) = plan.steps
        assert isinstance(step.how, Launches)
        kernels = step.how.kernels
        rows = [row for launch in kernels if launch.table is not None for row in launch.table.rows]
        mine = {argument for row in rows for argument in row.args}
        read = tuple(map(self._input, plan.spec.inputs))
        count = len(step.ins)
        arguments: dict[int, _Number] = {n: ("in", read[_place(plan, slot)]) for n, slot in enumerate(step.ins)}
        common = tuple([arguments[n] for launch in kernels for n in launch.args if 0 <= n < count])
        fixed = {
            place: plan.constants[home.place]
            for place, slot in enumerate(plan.results)
            if isinstance(home := plan.slots[slot].home, Fixed)
        }
        same = tuple([(place, plan.spec.outputs[place].type, array.tobytes()) for place, array in fixed.items()])
        key = tuple([launch.kernel for launch in kernels]), common, same
        group = self.groups.get(key)
        places = {number: _place(plan, slot) for number, slot in enumerate(step.outs, count)}
        for number, place in places.items():
            if group is not None and number not in mine:
                arguments[number] = group.arguments[number]
            else:
                arguments[number] = self._output(plan.spec.outputs[place])
        for number, size in enumerate(step.how.temporaries, count + len(step.outs)):
            if group is not None and number not in mine:
                arguments[number] = group.arguments[number]
            else:
                arguments[number] = ("made", len(self.temporaries))
                self.temporaries.append(size)
        if group is None:
            constant = {place: self._constant(plan.spec.outputs[place], array) for place, array in fixed.items()}
            group = self.groups[key] = _Group(kernels, arguments, constant)
        group.rows.append([([arguments[n] for n in row.args], row.elements) for row in rows])
        given = group.constants | {place: arguments[number] for number, place in places.items()}
        offered = [given[place][1] for place in sorted(given) if given[place][0] == "out"]
        self.calls.append((read, tuple(offered)))

    def _input(self, slot: Input) -> int:
        key = (slot.role, slot.name)
        if slot.role not in OWN:
            if key in self.shared:
                return self.shared[key]
            self.shared[key] = len(self.inputs)
        self.inputs.append(self._named(slot))
        return len(self.inputs) - 1

    def _output(self, slot: Output) -> _Number:
        kind = "narrow" if slot.role == "narrow" else "out"
        self.outputs[kind].append(self._named(slot))
        return kind, len(self.outputs[kind]) - 1

    def _constant(self, slot: Output, array: NDArray[Any]) -> _Number:
        made = self._output(slot)
        self.fixed[made[1]] = len(self.constants)
        self.constants.append(array)
        return made

    def _named(self, slot: _Slot) -> _Slot:
        """A slot of the call that is being added, which has its own number in the name."""
        return evolve(slot, name=f"{len(self.calls)}/{slot.name}")

    def finish(self, name: str) -> Together:
        outputs = [*self.outputs["out"], *self.outputs["narrow"]]
        count = len(self.inputs)
        given = [Slot(each.type, Given(place)) for place, each in enumerate(self.inputs)]
        homes = [Fixed(self.fixed[place]) if place in self.fixed else Into(place) for place in range(len(outputs))]
        made = [Slot(each.type, home) for each, home in zip(outputs, homes, strict=True)]
        launches = tuple([launch for group in self.groups.values() for launch in self._launches(group)])
        slots = (*given, *made)
        results = tuple(range(count, len(slots)))
        space = temporary_offsets(self.temporaries)[-1]
        how = Launches(launches, tuple(self.temporaries))
        step = Step(name, tuple(range(count)), results, how=how, workspace=(0, space))
        spec = Graph(name, name, tuple(self.inputs), tuple(outputs))
        plan = GraphPlan(spec, slots, (step,), tuple(self.constants), results, Memory(space, space, 0))
        return Together(plan, tuple([read for read, _ in self.calls]), tuple([given for _, given in self.calls]))

    def _launches(self, group: _Group) -> Iterator[Launch]:
        """A group's kernels, those of many tensors as often as their tables are filled."""
        tables = 0
        for launch in group.kernels:
            args = tuple([n if n < 0 else self._number(group.arguments[n]) for n in launch.args])
            if launch.table is None:
                yield evolve(launch, args=args)
                continue
            found = [call[tables] for call in group.rows]
            rows = [Row(tuple(map(self._number, arguments)), elements) for arguments, elements in found]
            tables += 1
            for start in range(0, len(rows), launch.table.capacity):
                table = evolve(launch.table, rows=tuple(rows[start : start + launch.table.capacity]))
                yield evolve(launch, args=args, grid=(table.blocks, 1, 1), table=table)

    def _number(self, argument: _Number) -> int:
        """The number that an argument has now that all are known."""
        results = len(self.inputs)
        narrow = results + len(self.outputs["out"])
        made = narrow + len(self.outputs["narrow"])
        kind, number = argument
        return {"in": 0, "out": results, "narrow": narrow, "made": made}[kind] + number


def _place(plan: GraphPlan, slot: int) -> int:
    """The place of an input or a result among those of the graph."""
    home = plan.slots[slot].home
    assert isinstance(home, Given | Into)
    return home.place
