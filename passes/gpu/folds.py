"""Reductions as kernels fold them: accumulators in registers, and trees over lanes, warps and blocks.

An accumulator is one register, or two where the place of an element is what is looked for. NumPy's rules hold: NaN wins
a maximum or a minimum, the first of equals is the place. A bool is folded as an i32 of 0 or 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

from attrs import frozen

from sexpgpu.dialects.opdef import Reduce
from sexpgpu.passes.gpu.kernel import BYTES, FLOATS, WARP, Index, Kernel, Pointer, Reg
from sexpgpu.passes.gpu.scalar import REGISTER, combine, rounded
from sexpgpu.plan.dataflow import Node
from sexpgpu.tensortype import DType

State = tuple[Reg, ...]
_LAST = 2**31 - 1


@frozen(eq=False)
class Fold:
    """How the elements of a reduction's operand, of `dtype`, become one."""

    combine: str
    dtype: DType

    @classmethod
    def of(cls, node: Node, dtype: DType) -> Fold:
        assert node.record is not None
        assert isinstance(node.record.kind, Reduce)
        return cls(node.record.kind.combine, dtype)

    @staticmethod
    def register(dtype: DType) -> str:
        """The type in which elements are folded."""
        return "i32" if dtype == "bool" else REGISTER[dtype]

    @property
    def finds_place(self) -> bool:
        return self.combine.startswith("arg")

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the accumulator's registers."""
        value = self.register(self.dtype)
        return (value, "i32") if self.finds_place else (value,)

    def identity(self, k: Kernel, lanes: int) -> State:
        """What changes nothing that it is merged with."""
        type = self.types[0]
        value = k.const(_identity(self.combine, type), type, lanes)
        return (value, k.const(_LAST, "i32", lanes)) if self.finds_place else (value,)

    def element(self, k: Kernel, value: Reg, place: Callable[[], Reg]) -> State:
        """The accumulator of one element; `place` gives its number along the line."""
        if self.dtype == "bool":
            value = k.op("arith.extui", value, type="i32")
        if not self.finds_place:
            return (value,)
        number = place()
        if number.type != "i32":
            number = k.op("arith.trunci", number, type="i32")
        return (value, k.splat(number, value.lanes))

    def merge(self, k: Kernel, a: State, b: State) -> State:
        """The accumulator of what two have seen."""
        if not self.finds_place:
            return (combine(k, self.combine, a[0], b[0]),)
        take = self._precedes(k, a, b)
        return tuple([k.select(take, x, y) for x, y in zip(a, b, strict=True)])

    def _precedes(self, k: Kernel, a: State, b: State) -> Reg:
        """Whether a's element is the one that is looked for, of the two."""
        (x, i), (y, j) = a, b
        better = k.compare("gt" if self.combine == "argmax" else "lt", x, y)
        same = k.compare("eq", x, y)
        if x.type in FLOATS:
            missing, other = k.compare("ne", x, x), k.compare("ne", y, y)
            same = k.op("arith.ori", same, k.op("arith.andi", missing, other))
            known = k.op("arith.xori", other, k.const(1, "i1", x.lanes))
            better = k.op("arith.ori", better, k.op("arith.andi", missing, known))
        return k.op("arith.ori", better, k.op("arith.andi", same, k.compare("lt", i, j)))

    def result(self, k: Kernel, state: State) -> Reg:
        """The reduction's result, as its dtype has it."""
        if self.finds_place:
            return state[1]
        if self.dtype == "bool":
            return k.compare("ne", state[0], k.const(0, "i32", state[0].lanes))
        return rounded(k, state[0], self.dtype)

    def nothing(self, k: Kernel) -> Reg:
        """The result for a line without elements."""
        return self.result(k, self.identity(k, 0))


def _identity(combine: str, type: str) -> float | int:
    match combine:
        case "add" | "or":
            return 0
        case "mul" | "and":
            return 1
        case "max" | "argmax":
            return -math.inf if type in FLOATS else -(1 << (8 * BYTES[type] - 1))
        case _:
            return math.inf if type in FLOATS else (1 << (8 * BYTES[type] - 1)) - 1


def over_lanes(k: Kernel, fold: Fold, state: State) -> State:
    """What the lanes of a vector hold together."""
    lanes = state[0].lanes
    if not lanes:
        return state
    parts = [tuple([k.lane(register, i) for register in state]) for i in range(lanes)]
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [fold.merge(k, parts[i], parts[i + half]) for i in range(half)]
    return parts[0]


def over_warp(k: Kernel, fold: Fold, state: State, across: int) -> State:
    """What `across` neighbouring threads of a warp hold together, a power of two; each of them gets it."""
    while across > 1:
        across //= 2
        state = fold.merge(k, state, tuple([k.shuffle(register, across) for register in state]))
    return state


def over_block(k: Kernel, folds: Sequence[Fold], states: Sequence[State], thread: Reg, warps: int) -> list[State]:
    """What the threads of a block, a power of two of warps, hold together; each of them gets it."""
    held = [over_warp(k, fold, state, WARP) for fold, state in zip(folds, states, strict=True)]
    spaces = [[k.shared(type, warps) for type in fold.types] for fold in folds]
    lane = k.reg(k.rem(thread, WARP))
    with k.when(k.compare("eq", lane, k.reg(0))):
        warp = k.div(thread, WARP)
        _keep(k, spaces, held, warp)
    k.barrier()
    part = k.rem(thread, warps)
    found = [tuple([k.load(space, part) for space in each]) for each in spaces]
    return [over_warp(k, fold, state, warps) for fold, state in zip(folds, found, strict=True)]


def over_rows(
    k: Kernel, folds: Sequence[Fold], states: Sequence[State], x: Index, y: Index, across: int, beside: int
) -> list[State]:
    """What the threads (x, 0), (x, 1), ... of `across` by `beside` threads hold together, by lanes; all get it."""
    if across == 1:
        return list(states)
    lanes = states[0][0].lanes if states else 0
    width = max(lanes, 1)
    spaces = [[k.shared(type, across * beside * width) for type in fold.types] for fold in folds]
    first = k.mul(x, width)
    _keep(k, spaces, states, k.add(k.mul(y, beside * width), first))
    k.barrier()

    def row(each: Sequence[Pointer], number: int) -> State:
        return tuple([k.load(space, k.add(first, number * beside * width), lanes) for space in each])

    return [
        reduce(lambda a, b, fold=fold: fold.merge(k, a, b), [row(each, i) for i in range(across)])  # type: ignore[misc]
        for fold, each in zip(folds, spaces, strict=True)
    ]


def _keep(k: Kernel, spaces: Sequence[Sequence[Pointer]], states: Sequence[State], where: Index) -> None:
    for each, state in zip(spaces, states, strict=True):
        for space, register in zip(each, state, strict=True):
            k.store(register, space, where)
