"""What of an update its tensors have of their own, and what it computes of their elements whatever their shapes are.

%p [768], %g [768], %lr  ->  %p - broadcast %lr * %g        =>        p - lr * g,  of elements p and g
%p [50304, 768], ...                                        =>        the same
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from attrs import define, field, frozen

from sexpgpu.dialects.opdef import Constant, Dense, Move, Pointwise, Reduce
from sexpgpu.dialects.read import definition_of
from sexpgpu.dialects.signature import input_roles, output_roles
from sexpgpu.passes.flow import operations_of
from sexpgpu.passes.gpu.flat import is_flat
from sexpgpu.passes.gpu.task import Task
from sexpgpu.passes.gpu.views import Views
from sexpgpu.plan.dataflow import Dataflow, Node
from sexpgpu.plan.together import OWN
from sexpgpu.tensortype import TensorType

SERIES = "value"
"""The role of what an update reports."""
ELEMENTS = (1 << 30,)
"""The shape that stands for that of any tensor."""


@frozen
class Members:
    """The operands and results of a group that every tensor has of its own; `gradient` is one of the operands.

    A step is refused where results that are `looked` at are not finite.
    """

    operands: frozenset[int]
    results: frozenset[int]
    gradient: int
    looked: frozenset[int]


def members_of(call: Any) -> Members | None:
    """Those of a group that is all that a graph does with a gradient; None for any other group, and where a result is
    given twice.

    Beside it the graph may give constants that no kernel copies: `takes_many` is then true of its plan.
    """
    func = call.operation.parent
    roles = input_roles(func)
    if "grad" not in roles:
        return None
    *operations, end = operations_of(func)
    constants, computing = _constants(operations)
    arguments = dict(zip(func.regions[0].blocks[0].arguments, roles, strict=True))
    given = [arguments.get(value) for value in call.operands]
    results = list(call.results)
    made = [(value, role) for value, role in zip(end.operands, output_roles(func), strict=True) if value in results]
    role_of = dict(made)
    if len(computing) != 1 or None in given or "grad" not in given or not len(made) == len(role_of) == len(results):
        return None
    if any(value not in role_of and not constants.get(value, False) for value in end.operands):
        return None
    return Members(
        frozenset(i for i, role in enumerate(given) if role in OWN),
        frozenset(i for i, value in enumerate(results) if role_of[value] != SERIES),
        given.index("grad"),
        frozenset(i for i, value in enumerate(results) if role_of[value] in ("param", "state")),
    )


def _constants(operations: Iterable[Any]) -> tuple[dict[Any, bool], list[Any]]:
    """Constants among operations, by values whether they lie dense as they are kept, and the other operations."""
    views = Views()
    constants, others = {}, []
    for op in operations:
        record = definition_of(op)
        if record is not None and isinstance(record.kind, Constant) and views.shows(op, record):
            constants[op.results[0]] = views.layout(op.results[0]).is_dense
        else:
            others.append(op)
    return constants, others


@define(eq=False)
class Body:
    """What a group computes of elements: `flow` without movements, its `wide` values of an element of each tensor.

    `own` are the values that differ between tensors, the wide ones among them. `whole` says of each of the group's
    results whether it has an element for each of its tensor's. `folds` are values that all elements of another are
    folded to, by what they are. Two groups of the same `key` are computed by the same
    kernels.
    """

    members: Members
    flow: Dataflow = field(init=False)
    wide: set[int] = field(init=False, factory=set)
    own: set[int] = field(init=False, factory=set)
    whole: tuple[bool, ...] = field(init=False)
    folds: dict[int, Node] = field(init=False, factory=dict)
    _types: list[TensorType] = field(init=False, factory=list)
    _nodes: list[Node] = field(init=False, factory=list)

    @classmethod
    def of(cls, task: Task, members: Members) -> Body | None:
        """None where an element depends on anything but elements at its own place and single ones."""
        flow = task.flow
        gradient = flow.types[members.gradient]
        if not is_flat(task, [members.gradient], range(flow.given), folds=True):
            return None
        body = cls(members)
        for value in range(flow.given):
            mine = value in members.operands
            body._add(flow.types[value].dtype, mine and flow.types[value].size == gradient.size, mine)
        numbers = {value: value for value in range(flow.given)}
        for node in flow.nodes:
            body._node(node, numbers, flow.types[node.outs[0]].dtype)
        results = tuple([numbers[value] for value in flow.results])
        body.flow = Dataflow(tuple(body._types), flow.given, tuple(body._nodes), results)
        body.whole = tuple([flow.types[value].size == gradient.size for value in flow.results])
        if any(value in body.wide and not whole for value, whole in zip(results, body.whole, strict=True)):
            return None
        return body if body.wide.isdisjoint(body.behind) else None

    def _add(self, dtype: Any, wide: bool, own: bool) -> int:
        value = len(self._types)
        self._types.append(TensorType(ELEMENTS if wide else (), dtype))
        self.wide |= {value} if wide else set()
        self.own |= {value} if own else set()
        return value

    def _node(self, node: Node, numbers: dict[int, int], dtype: Any) -> None:
        assert node.record is not None
        (out,) = node.outs
        kind = node.record.kind
        same = kind == Pointwise("cast") and self._types[numbers[node.ins[0]]].dtype == dtype
        if isinstance(kind, Move) or same:
            numbers[out] = numbers[node.ins[0]]
            return
        ins = tuple([numbers[value] for value in node.ins])
        attrs = node.attrs
        if isinstance(kind, Constant):
            attrs = {"value": Dense(TensorType((), dtype), node.attrs["value"].data)}
        if isinstance(kind, Reduce) and self.wide.issuperset(ins):
            numbers[out] = self._add(dtype, False, True)
            self.folds[numbers[out]] = Node(node.name, node.record, attrs, ins, (numbers[out],))
            return
        numbers[out] = self._add(dtype, not self.wide.isdisjoint(ins), not self.own.isdisjoint(ins))
        self._nodes.append(Node(node.name, node.record, attrs, ins, (numbers[out],)))

    @property
    def key(self) -> Hashable:
        given = tuple([(self.flow.types[v], v in self.own) for v in range(self.flow.given)])
        nodes = tuple([(node.name, node.ins, tuple(map(_text, node.attrs.items()))) for node in self.flow.nodes])
        folds = tuple([(node.name, node.ins, out) for out, node in self.folds.items()])
        return given, nodes, folds, self.flow.results, self.members, self.whole

    @property
    def mine(self) -> list[int]:
        """The places of the results that each tensor has of its own; of the others one serves all."""
        own = [value in self.own for value in self.flow.results]
        return [place for place, differs in enumerate(own) if differs or place in self.members.results]

    @property
    def behind(self) -> set[int]:
        """The values that depend on folds."""
        found = set(self.folds)
        for node in self.flow.nodes:
            if not found.isdisjoint(node.ins):
                found.add(node.outs[0])
        return found

    @property
    def handed(self) -> list[int]:
        """Computed values that are the same for all tensors and that something reads which is not."""
        makers = {node.outs[0]: node for node in self.flow.nodes}
        return [v for v in self._read_across() if v in makers and not makers[v].is_constant]

    @property
    def passed(self) -> list[int]:
        """Operands that are the same for all tensors and that something reads which is not."""
        return [v for v in self._read_across() if v < self.flow.given]

    @property
    def common(self) -> list[int]:
        """Operands that are the same for all tensors."""
        return [v for v in range(self.flow.given) if v not in self.own]

    def _read_across(self) -> Iterable[int]:
        results = [self.flow.results[place] for place in self.mine]
        read = [v for node in self.flow.nodes if node.outs[0] in self.own for v in node.ins]
        return [v for v in dict.fromkeys([*read, *results]) if v not in self.own]


def _text(attribute: tuple[str, Any]) -> tuple[str, str]:
    """An attribute such that two are equal where they mean the same bits: -0.0 is not 0.0."""
    return attribute[0], repr(attribute[1])
