"""Pools and their derivatives: a thread for each element of the result looks at the windows that it has to do with.

Sums are in the order of the interpreter's, by the places of a window, so that they are equal bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import define, field

from sexpgpu.dialects.opdef import Window
from sexpgpu.dialects.window import Windows
from sexpgpu.passes.gpu.kernel import Index, Kernel, Reg
from sexpgpu.passes.gpu.layout import Ints, Place, coordinates, dense_strides, offset_of
from sexpgpu.passes.gpu.memory import Operand, load, store
from sexpgpu.passes.gpu.scalar import REGISTER
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.records import Launches

THREADS = 256
UNROLLED = 16
"""Places of a window up to which a kernel has the operations of each; above, a loop."""


def lower(task: Task) -> Launches:
    """One kernel for one pool, or the derivative of one."""
    (node,) = task.flow.nodes
    assert node.record is not None
    kind = node.record.kind
    assert isinstance(kind, Window)
    size = task.type(task.result(0)).size
    if not size:
        return task.lowered()
    given = dict(zip(node.record.operands, node.ins, strict=True))
    k, tensors = task.begin(list(dict.fromkeys(node.ins)), [task.result(0)], -(-size // THREADS), THREADS)
    result = tensors[task.result(0)]
    space = node.attrs["size"] if "size" in node.attrs else task.type(given["x"]).shape[2:]
    kernel, stride, low, high = (node.attrs[name] for name in ("kernel", "stride", "low", "high"))
    windows = Windows(space, kernel, stride, low, high, (1,) * len(space))
    number = k.add(k.mul(k.block_number(), THREADS), k.thread())
    with k.when(k.below(number, size)):
        place = Place(task.type(task.result(0)).shape, None, known_number=number)
        axes = place.axes(k)
        pool = _Pool(k, windows, axes[:2], axes[2:])
        x, g = (tensors[given[name]] if name in given else None for name in ("x", "g"))
        match kind.combine, kind.side:
            case "mean", "result":
                assert x is not None
                value = pool.mean(x)
            case "mean", _:
                assert g is not None
                value = pool.spread(g)
            case "max", "operand":
                assert x is not None
                assert g is not None
                value = pool.to_greatest(x, g)
            case how, _:
                assert x is not None
                greatest, chosen = pool.greatest(x, pool.own)
                value = greatest if how == "max" else chosen
        store(k, result, place, value, 0)
    k.end()
    return task.lowered()


@define(eq=False)
class _Pool:
    """One element of a result: its batch and channel, and its place in space, that of a window or of an element."""

    k: Kernel
    windows: Windows
    lead: tuple[Index, ...]
    own: tuple[Index, ...]
    flat: Ints = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.flat = dense_strides(self.windows.sizes)

    def over_places(self, begin: list[Reg], turn: Callable[[tuple[Index, ...], list[Reg]], list[Reg]]) -> list[Reg]:
        """Goes through the places of a window in row-major order."""
        k, kernel = self.k, self.windows.kernel
        count = math.prod(kernel)
        held = begin
        if count <= UNROLLED:
            for number in range(count):
                held = turn(coordinates(k, number, kernel), held)
            return held
        with k.loop(0, count, 1, begin) as each:
            each.next(*turn(coordinates(k, each.index, kernel), each.carried))
        return each.results

    def where(self, window: tuple[Index, ...], place: tuple[Index, ...]) -> tuple[tuple[Index, ...], Reg | None]:
        """The element of a window at a place, and whether it is no padding; None where it cannot be."""
        k = self.k
        found: list[Index] = []
        tests = []
        w = self.windows
        spans = zip(window, place, w.stride, w.low, w.high, w.sizes, strict=True)
        for i, p, stride, low, high, n in spans:
            at = k.sub(k.add(k.mul(i, stride), p), low)
            if low or high:
                tests.append(k.op("arith.xori", k.outside(k.reg(at), n), k.const(1, "i1")))
            found.append(at)
        return tuple(found), _all(k, tests)

    def element(self, x: Operand, at: tuple[Index, ...]) -> Reg:
        return load(self.k, x, Place(x.layout.shape, None, known_axes=(*self.lead, *at)), 0)

    def greatest(self, x: Operand, window: tuple[Index, ...]) -> tuple[Reg, Reg]:
        """The greatest element of a window, NaN if one is, and where the first such is among the elements of space."""
        k = self.k
        type = REGISTER[x.dtype]

        def turn(place: tuple[Index, ...], held: list[Reg]) -> list[Reg]:
            at, inside = self.where(window, place)

            def look() -> list[Reg]:
                value = self.element(x, at)
                best, chosen, met = held
                # A NaN beats all but an earlier one; the first element is chosen even if it is -inf.
                better = k.op("arith.ori", k.compare("gt", value, best), k.compare("ne", value, value))
                better = k.op("arith.andi", better, k.compare("eq", best, best))
                better = k.op("arith.ori", better, k.op("arith.xori", met, k.const(1, "i1")))
                flat = k.reg(offset_of(k, at, self.flat))
                if flat.type != "i32":
                    flat = k.op("arith.trunci", flat, type="i32")
                return [k.select(better, value, best), k.select(better, flat, chosen), k.const(1, "i1")]

            return look() if inside is None else k.either(inside, look, held)

        begin = [k.const(-math.inf, type), k.const(0, "i32"), k.const(0, "i1")]
        best, chosen, _ = self.over_places(begin, turn)
        return best, chosen

    def mean(self, x: Operand) -> Reg:
        k = self.k

        def turn(place: tuple[Index, ...], held: list[Reg]) -> list[Reg]:
            at, inside = self.where(self.own, place)

            def look() -> list[Reg]:
                return [k.op("arith.addf", held[0], self.element(x, at))]

            return look() if inside is None else k.either(inside, look, held)

        (total,) = self.over_places([k.const(0, REGISTER[x.dtype])], turn)
        return k.op("arith.divf", total, self.population(self.own, total.type))

    def population(self, window: tuple[Index, ...], type: str) -> Reg:
        """How many elements a window holds, padding apart."""
        k, w = self.k, self.windows
        count: Index = 1
        for i, kernel, stride, low, high, n in zip(window, w.kernel, w.stride, w.low, w.high, w.sizes, strict=True):
            if not (low or high):
                count = k.mul(count, kernel)
                continue
            start = k.reg(k.sub(k.mul(i, stride), low))
            end = k.op("arith.minsi", k.reg(k.add(start, kernel)), k.reg(n))
            count = k.mul(count, k.sub(end, k.op("arith.maxsi", start, k.reg(0))))
        return k.const(count, type) if isinstance(count, int) else k.op("arith.sitofp", count, type=type)

    def over_windows(self, begin: list[Reg], turn: Callable[[tuple[Index, ...], list[Reg]], list[Reg]]) -> list[Reg]:
        """Goes through the windows that hold the own element, by its place in them."""
        k, w = self.k, self.windows

        def at_place(place: tuple[Index, ...], held: list[Reg]) -> list[Reg]:
            window: list[Index] = []
            tests = []
            for e, p, stride, low, n in zip(self.own, place, w.stride, w.low, w.count, strict=True):
                begins = k.reg(k.sub(k.add(e, low), p))
                tests.append(k.compare("ge", begins, k.reg(0)))
                if stride > 1:
                    tests.append(k.compare("eq", k.reg(k.rem(begins, stride)), k.reg(0)))
                number = k.reg(k.div(begins, stride))
                tests.append(k.below(number, n))
                window.append(number)
            met = _all(k, tests)
            assert met is not None
            return k.either(met, lambda: turn(tuple(window), held), held)

        return self.over_places(begin, at_place)

    def spread(self, g: Operand) -> Reg:
        """What the windows' means give to the element."""
        k = self.k

        def turn(window: tuple[Index, ...], held: list[Reg]) -> list[Reg]:
            value = self.element(g, window)
            share = k.op("arith.divf", value, self.population(window, value.type))
            return [k.op("arith.addf", held[0], share)]

        return self.over_windows([k.const(0, REGISTER[g.dtype])], turn)[0]

    def to_greatest(self, x: Operand, g: Operand) -> Reg:
        """What the windows give to the element that have it as the first of their greatest."""
        k = self.k
        mine = k.reg(offset_of(k, self.own, self.flat))
        if mine.type != "i32":
            mine = k.op("arith.trunci", mine, type="i32")

        def turn(window: tuple[Index, ...], held: list[Reg]) -> list[Reg]:
            _, chosen = self.greatest(x, window)
            hit = k.compare("eq", chosen, mine)
            return k.either(hit, lambda: [k.op("arith.addf", held[0], self.element(g, window))], held)

        return self.over_windows([k.const(0, REGISTER[x.dtype])], turn)[0]


def _all(k: Kernel, tests: list[Reg]) -> Reg | None:
    if not tests:
        return None
    found = tests[0]
    for test in tests[1:]:
        found = k.op("arith.andi", found, test)
    return found
