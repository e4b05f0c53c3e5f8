"""Kernels over many tensors in one launch: the updates of an optimizer's parameters, whatever their shapes.

    p' = f(p, g, m, lr(step))      =>      @update_1(step, lr)          numbers that are the same for all tensors
                                           @update_1_2(lr, table)       elements, a block for each chunk of a tensor

Of every tensor whole vectors are read and written, but for the elements behind the last. A gradient is multiplied by
what clips it, and where what a step must not commit is not finite, the host is told: neither takes another pass over
the tensors.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial

from attrs import define, evolve, field, frozen

from sexpgpu.passes.gpu.elements import Elements, Known
from sexpgpu.passes.gpu.kernel import BYTES, FLOATS, Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.layout import Layout, Place
from sexpgpu.passes.gpu.lookup import Found, Lookup
from sexpgpu.passes.gpu.members import ELEMENTS, Body, Members
from sexpgpu.passes.gpu.memory import WIDEST, Operand, load, store
from sexpgpu.passes.gpu.multi_fold import Folding, folds_alone
from sexpgpu.passes.gpu.scalar import MEMORY, REGISTER, rounded
from sexpgpu.passes.gpu.task import Task
from sexpgpu.passes.gpu.threads import atomic
from sexpgpu.plan.records import FAULTS, NOT_FINITE, SCALE, Launch, Launches
from sexpgpu.plan.tables import Row, Table
from sexpgpu.tensortype import DType

THREADS = 256


@frozen
class Names:
    """The kernels of a body: of what is the same for all tensors, where there is something, and of the elements."""

    first: str
    each: str


def lower(task: Task, members: Members, written: dict[Hashable, Names]) -> Launches | None:
    """Launches for a table of the group's one tensor; None where its elements depend on others.

    `written` are the kernels that there are, by the keys of bodies.
    """
    body = Body.of(task, members)
    if body is None:
        return None
    if body.folds:
        return _folding(task, body, written) if folds_alone(body) else None
    shared = [place for place in range(len(task.results)) if place not in body.mine]
    if any(task.type(task.result(place)).size != 1 for place in shared):
        return None
    made = {value: task.temporary(body.flow.types[value]) for value in body.handed}
    targets = [*((body.flow.results[place], task.result(place)) for place in shared), *made.items()]
    kernel = _Kernel(task, body, made)
    if (names := written.get(body.key)) is None:
        names = written[body.key] = Names(task.symbol, f"{task.symbol}_2") if targets else Names("", task.symbol)
        if targets:
            _write_first(task, body, names.first, targets)
        kernel.write(names.each)
    launches = []
    if targets:
        arguments = (*body.common, *(argument for _, argument in targets))
        launches.append(Launch(names.first, (1, 1, 1), (32, 1, 1), 0, arguments))
    row = Row(kernel.lookup.arguments, kernel.size)
    table = Table((row,), kernel.lookup.capacity, kernel.chunk)
    passed = (*kernel.passed, *kernel.marks)
    launches.append(Launch(names.each, (table.blocks, 1, 1), (THREADS, 1, 1), 0, passed, table=table))
    return evolve(task.lowered(), kernels=tuple(launches))


def _folding(task: Task, body: Body, written: dict[Hashable, Names]) -> Launches:
    """Launches of a group that folds what each tensor has."""
    folding = Folding(task, body)
    if (names := written.get(body.key)) is None:
        names = written[body.key] = Names(task.symbol, f"{task.symbol}_2")
        folding.write(names.first, names.each)
    return evolve(task.lowered(), kernels=folding.launches(names.first, names.each))


def _write_first(task: Task, body: Body, name: str, targets: Sequence[tuple[int, int]]) -> None:
    """One thread computes what is the same for all tensors; `targets`: values, and the arguments they go to."""
    k = Kernel(task.module, name, 32)
    arguments = [*body.common, *(argument for _, argument in targets)]
    k.begin([(MEMORY[task.type(a).dtype], number < len(body.common)) for number, a in enumerate(arguments)], 1)
    tensors = [_single(pointer, task.type(a).dtype) for a, pointer in zip(arguments, k.pointers, strict=True)]
    with k.when(k.below(k.thread(), 1)):
        known = {value: partial(_loaded, k, tensor) for value, tensor in zip(body.common, tensors, strict=False)}
        elements, at = Elements(k, body.flow, (), 0, dict(known)), _origin()
        for (value, _), tensor in zip(targets, tensors[len(body.common) :], strict=True):
            store(k, tensor, at, elements.at(value, at), 0)
    k.end()


@define(eq=False)
class _Kernel:
    """The kernel of elements; `passed` are its parameters beside the table, the scale and what the host looks at."""

    task: Task
    body: Body
    made: Mapping[int, int]
    lookup: Lookup = field(init=False)
    passed: list[int] = field(init=False)
    size: int = field(init=False)
    lanes: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        task, members = self.task, self.body.members
        self.size = task.type(members.gradient).size
        arguments = (*sorted(members.operands), *(task.result(place) for place in self.body.mine))
        self.passed = [*self.body.passed, *self.made.values()]
        self.lookup = Lookup(arguments, len(self.passed) + len(self.marks))
        smallest = min(BYTES[MEMORY[task.type(a).dtype]] for a in arguments if self._is_wide(a))
        self.lanes = min(8, WIDEST // smallest)

    @property
    def marks(self) -> tuple[int, ...]:
        """What updates take beside tensors, and nothing else does."""
        return (SCALE, FAULTS) if self.body.members.looked else ()

    @property
    def chunk(self) -> int:
        """The elements that a block takes."""
        return THREADS * self.lanes

    def write(self, name: str) -> None:
        task, lanes = self.task, self.lanes
        k = Kernel(task.module, name, THREADS)
        arguments = [(MEMORY[task.type(a).dtype], True) for a in self.passed]
        if self.marks:
            arguments.append((self._scaled, True))
        k.begin(arguments, 0, faults=bool(self.marks), table=self.lookup.capacity * self.lookup.words)
        found = self.lookup.find(k)
        start, count = found.part(k, self.chunk)
        tensors = {argument: self._tensor(k, found, argument, start) for argument in self.lookup.arguments}
        first = k.reg(k.mul(k.thread(), lanes))
        behind = k.reg(k.add(first, lanes))
        with k.when(k.compare("le", behind, count)):
            self._elements(k, tensors, first, lanes)
        ragged = k.op("arith.andi", k.below(first, count), k.compare("gt", behind, count))
        with k.when(ragged), k.loop(first, count, 1, rolled=True) as turn:
            self._elements(k, tensors, turn.index, 0)
        self._singles(k, tensors, found.number)
        k.end()

    def _elements(self, k: Kernel, tensors: Mapping[int, Operand], first: Index, width: int) -> None:
        """The results' elements from `first` on: a vector of `width`, or one."""
        each = Elements(k, self.body.flow, (), width, self._known(k, tensors, width))
        at = Place(ELEMENTS, 0 if width else None, known_number=first)
        for value in sorted(self.body.members.operands & self.body.wide):
            each.at(value, at)  # all is read before a result is written, which may lie where the gradient does
        self._store(k, tensors, each, at, self._results(wide=True), width)

    def _singles(self, k: Kernel, tensors: Mapping[int, Operand], number: Reg) -> None:
        """The results of one element that each tensor has of its own, by one thread of its first block."""
        if not (places := self._results(wide=False)):
            return
        with k.when(k.op("arith.andi", k.compare("eq", number, k.const(0, "i32")), k.below(k.thread(), 1))):
            each, at = Elements(k, self.body.flow, (), 0, self._known(k, tensors, 0)), _origin()
            self._store(k, tensors, each, at, places, 0)

    def _store(
        self, k: Kernel, tensors: Mapping[int, Operand], each: Elements, at: Place, places: Sequence[int], width: int
    ) -> None:
        """Write results, and tell the host where one is not finite."""
        nothing: list[Reg] = []  # x - x, which is NaN for such an x, else 0
        for place in places:
            value = each.at(self.body.flow.results[place], at)
            store(k, tensors[self.task.result(place)], at, value, width)
            if place in self.body.members.looked and value.type in FLOATS:
                nothing.append(k.op("arith.subf", value, value))
        sums: dict[str, Reg] = {}
        for difference in nothing:
            for lane in range(max(difference.lanes, 1)):
                one = k.lane(difference, lane)
                sums[one.type] = k.op("arith.addf", sums[one.type], one) if one.type in sums else one
        for total in sums.values():
            assert k.faults is not None
            with k.when(k.compare("ne", total, k.const(0.0, total.type))):
                atomic(k, "max", k.faults, NOT_FINITE, k.const(1, "i32"))

    def _known(self, k: Kernel, tensors: Mapping[int, Operand], width: int) -> dict[int, Known]:
        """Where a thread has the values from that it does not compute."""
        body = self.body
        known: dict[int, Known] = {}
        for value in body.members.operands:
            wide = value in body.wide
            known[value] = (
                partial(load, k, tensors[value], lanes=width) if wide else partial(_loaded, k, tensors[value])
            )
        for value, pointer in zip([*body.passed, *self.made], k.pointers, strict=False):
            known[value] = partial(_loaded, k, _single(pointer, body.flow.types[value].dtype))
        if self.marks:
            gradient = body.members.gradient
            known[gradient] = partial(self._gradient, k, known[gradient])
        return known

    @property
    def _scaled(self) -> str:
        """The type of the number that the gradient is multiplied by, and in which."""
        return REGISTER[self.task.type(self.body.members.gradient).dtype]

    def _gradient(self, k: Kernel, loaded: Known, place: Place) -> Reg:
        """The gradient as it is clipped."""
        gradient = loaded(place)
        scale = k.splat(k.load(k.pointers[-1], 0 if self._scaled == "f64" else 2), gradient.lanes)
        return rounded(k, k.op("arith.mulf", gradient, scale), self.task.type(self.body.members.gradient).dtype)

    def _is_wide(self, argument: int) -> bool:
        return self.task.type(argument).size == self.size

    def _results(self, wide: bool) -> list[int]:
        """The places of the results that have an element for each of their tensor's, or of those that have one."""
        return [p for p in self.body.mine if self._is_wide(self.task.result(p)) == wide]

    def _tensor(self, k: Kernel, found: Found, argument: int, start: Reg) -> Operand:
        """The block's elements of a tensor, or the one that it has."""
        members = self.body.members
        dtype = self.task.type(argument).dtype
        read = argument in members.operands and argument != members.gradient
        pointer = Pointer(found.addresses[argument], MEMORY[dtype], constant=read)
        if not self._is_wide(argument):
            return _single(pointer, dtype)
        return Operand(evolve(pointer, value=k.address(pointer, start)), Layout.dense(ELEMENTS), dtype)


def _single(pointer: Pointer, dtype: DType) -> Operand:
    return Operand(pointer, Layout.dense(()), dtype)


def _origin() -> Place:
    return Place((), None, known_axes=(), known_number=0)


def _loaded(k: Kernel, single: Operand, place: Place) -> Reg:
    """A single element, wherever it is asked for."""
    return load(k, single, _origin(), 0)
