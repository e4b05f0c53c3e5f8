"""What a stretch of a loop's turns makes of any states that come in, put together before they are known.

Of an associative loop that is the value that its items combine to. The derivative of such a loop is linear: the next
states are a matrix times the states, and a term, so a stretch is a matrix and a term as well, found by following what
each operation does with them:

    g = (g + x) * a                    (1, 0)  ->  (1, x)  ->  (a, a x)
    (m, v), then (n, w)                (n m, n v + w)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Protocol

from attrs import define, field, frozen

from sexpgpu.dialects.opdef import Move, Pointwise
from sexpgpu.passes.gpu.elements import Elements
from sexpgpu.passes.gpu.kernel import BYTES, Index, Kernel, Reg
from sexpgpu.passes.gpu.layout import Place
from sexpgpu.passes.gpu.memory import load
from sexpgpu.passes.gpu.scalar import MEMORY, REGISTER, apply
from sexpgpu.passes.gpu.turns import Recurrence, Turns, kept
from sexpgpu.plan.dataflow import Dataflow, Node
from sexpgpu.tensortype import DType

_MOST = 2
"""States of a linear loop whose matrices are small enough for registers."""


class Summaries(Protocol):
    """Stretches of turns as registers of `dtypes`, of the element with a number."""

    @property
    def dtypes(self) -> Sequence[DType]: ...

    @property
    def bytes(self) -> int:
        """What one takes in memory."""
        ...

    def along(self, turns: Turns, number: Index, first: Index, count: Index) -> list[Reg]:
        """That of so many turns, at least one, from turn `first` on."""
        ...

    def combine(self, turns: Turns, number: Index, left: Sequence[Reg], right: Sequence[Reg]) -> list[Reg]:
        """That of a stretch and the one behind it."""
        ...

    def apply(self, turns: Turns, number: Index, summary: Sequence[Reg], states: Sequence[Reg]) -> list[Reg]:
        """The states behind a stretch that these came into."""
        ...


def summaries_of(recurrence: Recurrence) -> Summaries | None:
    """How stretches of a loop are summed up, None where its turns have to run in order."""
    loop, body = recurrence.loop, recurrence.body
    if loop.associative:
        return _Combined(recurrence)
    if loop.linear and 0 < loop.states <= _MOST and (carried := _linear(body, loop.states)) is not None:
        return _Linear(recurrence, carried)
    return None


def _bytes(dtypes: Sequence[DType]) -> int:
    return sum(BYTES[MEMORY[dtype]] for dtype in dtypes)


@frozen(eq=False)
class _Combined:
    """Of an associative loop: what the items of a stretch combine to."""

    recurrence: Recurrence

    @property
    def dtypes(self) -> list[DType]:
        return [self.recurrence.body.types[v].dtype for v in range(self.recurrence.loop.states)]

    @property
    def bytes(self) -> int:
        return _bytes(self.dtypes)

    def along(self, turns: Turns, number: Index, first: Index, count: Index) -> list[Reg]:
        k, states = turns.kernel, self.recurrence.loop.states
        items = turns.given(turns.place(first))[states : 2 * states]
        begun = [load(k, item, turns.at(number), 0) for item in items]

        def turn(first: Index, count: int, found: list[Reg]) -> list[Reg]:
            for _, each in turns.side_by_side(number, first, count):
                found = turns.made(each, turns.at(number), found)[:states]
            return found

        return turns.along(k.add(first, 1), k.sub(count, 1), begun, turn)

    def combine(self, turns: Turns, number: Index, left: Sequence[Reg], right: Sequence[Reg]) -> list[Reg]:
        states = self.recurrence.loop.states
        items = {states + i: partial(kept, value) for i, value in enumerate(right)}
        elements = Elements(turns.kernel, self.recurrence.body, turns.operands, 0, dict(items))
        return turns.made(elements, turns.at(number), left)[:states]

    def apply(self, turns: Turns, number: Index, summary: Sequence[Reg], states: Sequence[Reg]) -> list[Reg]:
        return self.combine(turns, number, states, summary)


Form = Sequence[Reg | None]
"""A value as a sum: a factor of each state, then a term; None is 0."""


def _linear(body: Dataflow, states: int) -> frozenset[int] | None:
    """The values that depend on the states, where the next states depend on them linearly; None where they do not."""
    dtypes = {body.types[value].dtype for value in range(states)}
    carried = set(range(states))
    for node in body.nodes:
        if carried.isdisjoint(node.ins):
            continue
        if not _keeps_linear(node, [value in carried for value in node.ins]):
            # It may be read by outs alone.
            continue
        carried.update(node.outs)
        dtypes |= {body.types[value].dtype for value in node.outs}
    made = {out: node for node in body.nodes for out in node.outs}
    pending, seen = list(body.results[:states]), set()
    while pending:
        value = pending.pop()
        if value in seen or value not in made:
            continue
        seen.add(value)
        if value not in carried and any(v in carried for v in made[value].ins):
            return None
        pending += made[value].ins
    return frozenset(carried) if dtypes in ({"f32"}, {"f64"}) else None


def _keeps_linear(node: Node, carried: Sequence[bool]) -> bool:
    if node.record is None:
        return False
    match node.record.kind:
        case Move(form="same" | "reshape" | "broadcast") | Pointwise(scalar="add" | "sub" | "neg"):
            return True
        case Pointwise(scalar="mul"):
            return not all(carried)
        case Pointwise(scalar="div"):
            return not carried[1]
        case Pointwise(scalar="select"):
            return not carried[0]
        case _:
            return False


@frozen(eq=False)
class _Linear:
    """Of a linear loop: a matrix and a term, for each state its factors of all states and the term behind them."""

    recurrence: Recurrence
    carried: frozenset[int]

    @property
    def dtypes(self) -> list[DType]:
        states = self.recurrence.loop.states
        return [self.recurrence.body.types[0].dtype] * (states * (states + 1))

    @property
    def bytes(self) -> int:
        return _bytes(self.dtypes)

    def along(self, turns: Turns, number: Index, first: Index, count: Index) -> list[Reg]:
        k, states = turns.kernel, self.recurrence.loop.states
        type = REGISTER[self.recurrence.body.types[0].dtype]
        one, zero = k.const(1, type), k.const(0, type)
        unit: list[Form] = [[one if i == j else None for j in range(states + 1)] for i in range(states)]

        def turn(first: Index, count: int, found: list[Reg]) -> list[Reg]:
            return self._turns(turns, number, first, count, self._rows(found), zero)

        begun = self._turns(turns, number, first, 1, unit, zero)
        return turns.along(k.add(first, 1), k.sub(count, 1), begun, turn)

    def _turns(
        self, turns: Turns, number: Index, first: Index, count: int, forms: Sequence[Form], zero: Reg
    ) -> list[Reg]:
        """What so many turns make of states that are these sums, as registers."""
        for _, elements in turns.side_by_side(number, first, count):
            turn = _Followed(turns.kernel, self, elements, turns.at(number), forms)
            forms = [turn.form(value) for value in self.recurrence.body.results[: self.recurrence.loop.states]]
        return [zero if part is None else part for form in forms for part in form]

    def _rows(self, summary: Sequence[Reg]) -> list[Sequence[Reg]]:
        width = self.recurrence.loop.states + 1
        return [summary[i : i + width] for i in range(0, len(summary), width)]

    def combine(self, turns: Turns, number: Index, left: Sequence[Reg], right: Sequence[Reg]) -> list[Reg]:
        rows = self._rows(left)
        columns = list(zip(*rows, strict=True))
        found = []
        for *factors, term in self._rows(right):
            found += [self._sum(turns.kernel, factors, column) for column in columns[:-1]]
            found.append(self._sum(turns.kernel, factors, columns[-1], term))
        return found

    def apply(self, turns: Turns, number: Index, summary: Sequence[Reg], states: Sequence[Reg]) -> list[Reg]:
        return [self._sum(turns.kernel, factors, states, term) for *factors, term in self._rows(summary)]

    def _sum(self, k: Kernel, factors: Sequence[Reg], values: Sequence[Reg], term: Reg | None = None) -> Reg:
        products = [k.op("arith.mulf", a, b) for a, b in zip(factors, values, strict=True)]
        return reduce(partial(k.op, "arith.addf"), [*products, *([term] if term is not None else [])])


@define(eq=False)
class _Followed:
    """The values of one turn as sums."""

    kernel: Kernel
    linear: _Linear
    elements: Elements
    at: Place
    states: Sequence[Form]
    _found: dict[int, Form] = field(factory=dict)

    def form(self, value: int) -> Form:
        if value < len(self.states):
            return self.states[value]
        if value not in self._found:
            carried = value in self.linear.carried
            self._found[value] = self._made(value) if carried else [None] * len(self.states) + [self._element(value)]
        return self._found[value]

    def _element(self, value: int) -> Reg:
        shape = self.linear.recurrence.body.types[value].shape
        same = shape == self.at.shape
        return self.elements.at(value, self.at if same else Place(shape, None, known_number=self.at.known_number))

    def _made(self, value: int) -> Form:
        body = self.linear.recurrence.body
        node = next(node for node in body.nodes if value in node.outs)
        assert node.record is not None
        first = node.ins[0]
        match node.record.kind:
            case Pointwise(scalar="add" | "sub" | "neg" as scalar):
                return self._each(scalar, *map(self.form, node.ins))
            case Pointwise(scalar="mul" as scalar) if first not in self.linear.carried:
                return self._scaled(scalar, self.form(node.ins[1]), self._element(first))
            case Pointwise(scalar="mul" | "div" as scalar):
                return self._scaled(scalar, self.form(first), self._element(node.ins[1]))
            case Pointwise(scalar="select"):
                return self._chosen(self._element(first), *map(self.form, node.ins[1:]))
            case _:
                return self.form(first)

    def _each(self, scalar: str, a: Form, b: Form | None = None) -> Form:
        return [self._part(scalar, x, y) for x, y in zip(a, b if b is not None else [None] * len(a), strict=True)]

    def _part(self, scalar: str, a: Reg | None, b: Reg | None) -> Reg | None:
        """A sum, difference or negative of parts that may be 0."""
        if a is None and b is None:
            return None
        if scalar == "neg":
            return self._applied("neg", a)
        if a is None:
            return b if scalar == "add" else self._applied("neg", b)
        return a if b is None else self._applied(scalar, a, b)

    def _scaled(self, scalar: str, form: Form, factor: Reg) -> Form:
        return [None if part is None else self._applied(scalar, part, factor) for part in form]

    def _chosen(self, condition: Reg, a: Form, b: Form) -> Form:
        zero = self.kernel.const(0, REGISTER[self.linear.dtypes[0]])
        return [
            None if x is None and y is None else self.kernel.select(condition, x or zero, y or zero)
            for x, y in zip(a, b, strict=True)
        ]

    def _applied(self, scalar: str, *operands: Reg | None) -> Reg:
        given = tuple([operand for operand in operands if operand is not None])
        return apply(self.kernel, scalar, given, self.linear.dtypes[0], {})
