"""The elements of a group's values, one place or one short vector of places at a time.

Movements compute nothing: they say which place of their operand an element comes from. So an element of a result is
followed back through movements and functions of single elements to what the kernel reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from attrs import define, field

from sexpgpu.dialects.opdef import Constant, Dense, Index, Move, Pointwise, Random
from sexpgpu.passes.gpu.kernel import Kernel, Reg
from sexpgpu.passes.gpu.layout import Ints, Place
from sexpgpu.passes.gpu.memory import Operand, load
from sexpgpu.passes.gpu.philox import uniform, words
from sexpgpu.passes.gpu.scalar import REGISTER, apply, cast, combine, rounded
from sexpgpu.plan.dataflow import Dataflow, Node
from sexpgpu.tensortype import DType, TensorType

Known = Callable[[Place], Reg]
"""Gives the elements of a value that is made in another way."""


@define(eq=False)
class Elements:
    """Gives elements of the values of `flow`, whose arguments are `operands`, in vectors of `lanes`; 0: one by one.

    `known` are values that are made in another way: what a reduction over the block gave, say.
    """

    kernel: Kernel
    flow: Dataflow
    operands: Sequence[Operand]
    lanes: int
    known: dict[int, Known] = field(factory=dict)
    _makers: dict[int, Node] = field(init=False)
    _made: list[dict[tuple[int, int], tuple[Place, Reg]]] = field(init=False)
    _moved: list[dict[tuple[int, int, int], tuple[Place, Place]]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._makers = {out: node for node in self.flow.nodes for out in node.outs}
        self._made = [{}]
        self._moved = [{}]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is made within the block is not known outside: the body of a loop or a condition."""
        self._made.append({})
        self._moved.append({})
        try:
            yield
        finally:
            self._made.pop()
            self._moved.pop()

    def at(self, value: int, place: Place) -> Reg:
        """The elements of a value at a place: a vector where the place has lanes and they may differ."""
        key = (value, id(place))
        for made in reversed(self._made):
            if key in made:
                return made[key][1]
        found = self._element(value, place)
        self._made[-1][key] = (place, found)  # which keeps the place, so that its id stays its own
        return found

    def vector(self, value: int, place: Place) -> Reg:
        """As `at`, with all lanes of the place."""
        found = self.at(value, place)
        return self.kernel.splat(found, self.lanes) if place.lane_axis is not None else found

    def _element(self, value: int, place: Place) -> Reg:
        if value in self.known:
            return self.known[value](place)
        node = self._makers.get(value)
        if node is None:
            return load(self.kernel, self.operands[value], place, self.lanes)
        assert node.record is not None
        dtype = self.flow.types[value].dtype
        match node.record.kind:
            case Pointwise(scalar=scalar):
                return self._function(node, scalar, dtype, place)
            case Move(form=form):
                return self._move(node, form, place)
            case Constant():
                return self._constant(node, dtype, place)
            case Random():
                return self._random(node, self.flow.types[value], place)
            case Index(access="read"):
                return self._read(node, place)
            case Index(access="add", lines=True):
                return rounded(self.kernel, self._added(node, place), dtype)
            case kind:
                raise AssertionError(f"{node.name} is not made element by element: {kind}")

    def _function(self, node: Node, scalar: str, dtype: DType, place: Place) -> Reg:
        k = self.kernel
        values = [self.at(v, place) for v in node.ins]
        lanes = max(v.lanes for v in values)
        source = self.flow.types[node.ins[-1]].dtype
        found = apply(k, scalar, tuple([k.splat(v, lanes) for v in values]), source, node.attrs)
        return rounded(k, found, dtype)

    def _constant(self, node: Node, dtype: DType, place: Place) -> Reg:
        k = self.kernel
        if isinstance(dense := node.attrs.get("value"), Dense):
            assert dense.is_splat, "an array is an operand of the group"
            return k.const(dense.array().reshape(-1)[:1].item() if dense.type.size else 0, REGISTER[dtype])
        # a count along an axis
        axis: int = node.attrs["axis"]
        counted = k.reg(place.axes(k)[axis])
        if place.lane_axis == axis:
            counted = k.op("arith.addi", k.splat(counted, self.lanes), k.counting(self.lanes))
        return _number(k, counted, dtype)

    def _random(self, node: Node, type: TensorType, place: Place) -> Reg:
        k = self.kernel
        counter = [self.at(node.ins[0], Place((3,), None, known_axes=(i,))) for i in range(3)]
        numbers = self._numbers(place, type)
        given = words(k, node.attrs["key"], type.size, numbers, counter)
        return given[0] if "dtype" not in node.attrs else uniform(k, given, node.attrs["dtype"])

    def _numbers(self, place: Place, type: TensorType) -> Reg:
        """The row-major numbers of the elements, as 64-bit integers."""
        k = self.kernel
        first = k.reg(place.number(k))
        if first.type == "i32":
            first = k.op("arith.extui", first, type="i64")
        if place.lane_axis is None:
            return first
        step = 1
        for n in type.shape[place.lane_axis + 1 :]:
            step *= n
        lanes = k.op("arith.muli", k.counting(self.lanes, "i64"), k.const(step, "i64", self.lanes))
        return k.op("arith.addi", k.splat(first, self.lanes), lanes)

    def _read(self, node: Node, place: Place) -> Reg:
        """An element of the first operand, at the place along an axis that an index says."""
        k = self.kernel
        tensor, indices = node.ins
        axis: int = node.attrs["axis"]
        axes = place.axes(k)
        shape = self.flow.types[tensor].shape
        assert node.record is not None
        assert isinstance(node.record.kind, Index)
        if node.record.kind.lines:
            where = place
            kept = (*axes[:axis], 0, *axes[axis + 1 :])
            lane = place.lane_axis
        else:
            rank = len(self.flow.types[indices].shape)
            inside = place.lane_axis is not None and axis <= place.lane_axis < axis + rank
            where = Place(
                self.flow.types[indices].shape,
                place.lane_axis - axis if inside and place.lane_axis is not None else None,
                place.aligned,
                known_axes=axes[axis : axis + rank],
            )
            kept = (*axes[:axis], 0, *axes[axis + rank :])
            lane = None if inside or place.lane_axis is None else _shifted(place.lane_axis, axis, rank)
        index = self.at(indices, where)
        assert not index.lanes, "lanes that are indexed one by one are no vector"
        found = k.checked(self._index(index), shape[axis])
        return self.at(tensor, Place(shape, lane, place.aligned, (*kept[:axis], found, *kept[axis + 1 :])))

    def _added(self, node: Node, place: Place) -> Reg:
        """An element with the updates added to it that its line's indices bring, in their order."""
        k = self.kernel
        x, indices, updates = node.ins
        axis: int = node.attrs["axis"]
        axes = place.axes(k)
        size, shape = self.flow.types[x].shape[axis], self.flow.types[indices].shape
        mine = k.reg(axes[axis])
        with k.loop(0, shape[axis], 1, [self.at(x, place)]) as turn, self.scope():
            where = Place(shape, None, known_axes=(*axes[:axis], turn.index, *axes[axis + 1 :]))
            named = self._index(self.at(indices, where))
            k.report(k.outside(named, size), named, size)
            (total,) = turn.carried
            hit = k.compare("eq", named, mine)

            def add() -> list[Reg]:
                with self.scope():
                    return [combine(k, "add", total, self.at(updates, where))]

            turn.next(*k.either(hit, add, [total]))
        return turn.results[0]

    def _index(self, index: Reg) -> Reg:
        k = self.kernel
        if index.type == k.index:
            return index
        return k.op("arith.extsi" if k.index == "i64" else "arith.trunci", index, type=k.index)

    def _move(self, node: Node, form: str, place: Place) -> Reg:
        if form == "join":
            return self._join(node, place)
        (operand,) = node.ins
        moved = self._source(node, form, operand, place)
        if form != "pad":
            return self.at(operand, moved)
        k = self.kernel
        dtype = self.flow.types[operand].dtype
        inside = self._inside(node, self.flow.types[operand].shape, moved)
        value = rounded(k, k.const(node.attrs["value"], REGISTER[dtype]), dtype)
        lanes = self.lanes if place.lane_axis is not None else 0
        return self._either(inside, operand, moved, k.splat(value, lanes), lanes)

    def _either(self, condition: Reg | None, operand: int, place: Place, otherwise: Reg, lanes: int) -> Reg:
        if condition is None:
            return self.at(operand, place)

        def inside() -> Reg:
            with self.scope():
                return self.kernel.splat(self.at(operand, place), lanes)

        return self.kernel.choose(condition, inside, lambda: otherwise, otherwise.type, lanes)

    def _inside(self, node: Node, shape: Ints, place: Place) -> Reg | None:
        """Whether a place lies in what was padded; None where it always does."""
        k = self.kernel
        conditions = []
        axes = place.axes(k)
        for index, n, low, high in zip(axes, shape, node.attrs["low"], node.attrs["high"], strict=True):
            if high > 0:
                conditions.append(k.below(index, n))
            if low > 0:
                conditions.append(k.compare("ge", k.reg(index), k.reg(0)))
        if not conditions:
            return None
        found = conditions[0]
        for condition in conditions[1:]:
            found = k.op("arith.andi", found, condition)
        return found

    def _join(self, node: Node, place: Place) -> Reg:
        k = self.kernel
        axis: int = node.attrs["axis"]
        lanes = self.lanes if place.lane_axis is not None else 0
        first, second = node.ins
        size = self.flow.types[first].shape[axis]
        axes = place.axes(k)
        shape = self.flow.types[second].shape
        behind = Place(
            shape, place.lane_axis, place.aligned, (*axes[:axis], k.sub(axes[axis], size), *axes[axis + 1 :])
        )
        before = Place(self.flow.types[first].shape, place.lane_axis, place.aligned, axes)

        def part(value: int, where: Place) -> Callable[[], Reg]:
            def write() -> Reg:
                with self.scope():
                    return k.splat(self.at(value, where), lanes)

            return write

        type = REGISTER[self.flow.types[first].dtype]
        return k.choose(k.below(axes[axis], size), part(first, before), part(second, behind), type, lanes)

    def _source(self, node: Node, form: str, operand: int, place: Place) -> Place:
        """The place of the operand whose element a movement brings to `place`."""
        key = (node.outs[0], id(place), operand)
        for moved in reversed(self._moved):
            if key in moved:
                return moved[key][1]
        found = source(self.kernel, node, form, self.flow.types[operand].shape, place, self.lanes)
        self._moved[-1][key] = (place, found)
        return found


def source(k: Kernel, node: Node, form: str, shape: Ints, place: Place, lanes: int) -> Place:
    """The place in an operand of `shape` from which a movement takes the element at `place`."""
    lane = place.lane_axis
    if form == "same":
        return place
    if form == "reshape":
        if place.shape == shape:
            return place
        return Place(shape, None if lane is None else len(shape) - 1, place.aligned, known_number=place.number(k))
    axes = place.axes(k)
    match form:
        case "broadcast":
            missing = len(place.shape) - len(shape)
            kept = tuple([0 if n == 1 else index for n, index in zip(shape, axes[missing:], strict=True)])
            if place.shape == shape:
                return place
            inner = None if lane is None or lane < missing or shape[lane - missing] == 1 else lane - missing
            return Place(shape, inner, place.aligned, kept)
        case "permute":
            perm: Ints = node.attrs["perm"]
            back = [0] * len(perm)
            for at, axis in enumerate(perm):
                back[axis] = at
            return Place(shape, None if lane is None else perm[lane], place.aligned, tuple([axes[i] for i in back]))
        case "reverse":
            assert lane not in node.attrs["axes"]
            turned = [
                k.sub(n - 1, index) if axis in node.attrs["axes"] else index
                for axis, (n, index) in enumerate(zip(shape, axes, strict=True))
            ]
            return Place(shape, lane, place.aligned, tuple(turned))
        case "cut":
            starts, steps = node.attrs["start"], node.attrs["step"]
            moved = [k.add(k.mul(i, step), start) for i, start, step in zip(axes, starts, steps, strict=True)]
            whole = lane is None or (steps[lane] == 1 and starts[lane] % max(lanes, 1) == 0)
            return Place(shape, lane, place.aligned and whole, tuple(moved))
        case "pad":
            moved = [k.sub(index, low) for index, low in zip(axes, node.attrs["low"], strict=True)]
            return Place(shape, lane, place.aligned, tuple(moved))
        case _:
            raise AssertionError(form)


def _number(k: Kernel, counted: Reg, dtype: DType) -> Reg:
    """A count as a number of a dtype."""
    return rounded(k, cast(k, counted, "i64" if counted.type == "i64" else "i32", dtype), dtype)


def _shifted(lane: int, axis: int, rank: int) -> int:
    """The axis of a gather's tensor for one of its result behind or before the indices."""
    return lane if lane < axis else lane - rank + 1
