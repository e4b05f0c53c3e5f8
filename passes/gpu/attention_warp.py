"""What the kernels of attention share: which keys a row sees, the scores, and the rows that a warp keeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from attrs import define, evolve, field, frozen

from sexpgpu.passes.gpu.kernel import WARP, Index, Kernel, Reg
from sexpgpu.passes.gpu.layout import Layout, Place, layout_before
from sexpgpu.passes.gpu.memory import Operand, load, store
from sexpgpu.passes.gpu.scalar import rounded
from sexpgpu.passes.gpu.task import Task
from sexpgpu.plan.dataflow import Node
from sexpgpu.tensortype import DType

ROWS = 4
"""Rows that a warp keeps: each is multiplied with what is read once."""
WARPS = 4
THREADS = WARPS * WARP


@frozen
class Form:
    """What scores are multiplied by, and which keys a row sees: `dialects.attention` says how."""

    scale: float
    causal: bool
    window: int
    rounded: bool


@define(eq=False)
class Sight:
    """Which keys which queries see, of `rows` queries and `keys` keys: the last query stands at the last key."""

    k: Kernel
    form: Form
    rows: int
    keys: int
    offset: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.offset = self.keys - self.rows

    @property
    def ahead(self) -> int | None:
        """How far beyond its own place a row sees; None: without end."""
        if self.form.causal:
            return 0
        return self.form.window - 1 if self.form.window else None

    @property
    def behind(self) -> int | None:
        return self.form.window - 1 if self.form.window else None

    def keys_of(self, first: Index) -> tuple[Index, Index]:
        """The first key that any of the rows from `first` on sees, and the one behind the last."""
        k = self.k
        low: Index = 0
        high: Index = self.keys
        if self.behind is not None:
            low = greater(k, k.add(first, self.offset - self.behind), 0)
        if self.ahead is not None:
            high = lesser(k, k.add(first, ROWS + self.offset + self.ahead), self.keys)
        return low, high

    def rows_of(self, first: Index) -> tuple[Index, Index]:
        """The first row that sees any of the keys from `first` on, and the one behind the last."""
        k = self.k
        low: Index = 0
        high: Index = self.rows
        if self.ahead is not None:
            low = greater(k, k.add(first, -self.offset - self.ahead), 0)
        if self.behind is not None:
            high = lesser(k, k.add(first, ROWS - self.offset + self.behind), self.rows)
        return low, high

    def seen(self, row: Index, key: Index) -> Reg | None:
        """Whether a row sees a key that exists; None where it always does."""
        k = self.k
        if self.ahead is None and self.behind is None:
            return None
        distance = k.reg(k.sub(key, k.add(row, self.offset)))
        tests = []
        if self.ahead is not None:
            tests.append(k.compare("le", distance, k.reg(self.ahead)))
        if self.behind is not None:
            tests.append(k.compare("ge", distance, k.reg(-self.behind)))
        return tests[0] if len(tests) == 1 else k.op("arith.andi", *tests)


def greater(k: Kernel, a: Index, b: Index) -> Index:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else k.op("arith.maxsi", k.reg(a), k.reg(b))


def lesser(k: Kernel, a: Index, b: Index) -> Index:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else k.op("arith.minsi", k.reg(a), k.reg(b))


def form_of(node: Node) -> Form:
    return Form(**{name: node.attrs[name] for name in ("scale", "causal", "window", "rounded")})


@define(eq=False)
class Warp:
    """A warp's part of a kernel over [batch, heads, rows, ...]: `ROWS` rows of one head, from `first` on."""

    k: Kernel
    count: int  # of rows
    batch: Index = field(init=False)
    head: Index = field(init=False)
    first: Index = field(init=False)
    lane: Reg = field(init=False)
    heads: int = 1

    def __attrs_post_init__(self) -> None:
        k = self.k
        thread = k.thread()
        self.lane = k.reg(k.rem(thread, WARP))
        tiles = -(-self.count // (ROWS * WARPS))
        block = k.block_number()
        above = k.div(block, tiles)
        self.batch, self.head = k.div(above, self.heads), k.rem(above, self.heads)
        tile = k.add(k.mul(k.rem(block, tiles), WARPS), k.div(thread, WARP))
        self.first = k.mul(tile, ROWS)

    @property
    def rows(self) -> list[Index]:
        """The numbers of the rows; those behind the end are the last row again, and are not written."""
        k = self.k
        given = [k.add(self.first, i) for i in range(ROWS)]
        return given if self.count % (ROWS * WARPS) == 0 else [lesser(k, row, self.count - 1) for row in given]

    def write(self, place: int, action: Callable[[], None]) -> None:
        """What is written of one row."""
        k = self.k
        if self.count % (ROWS * WARPS) == 0:
            action()
        else:
            with k.when(k.below(k.add(self.first, place), self.count)):
                action()


def blocks_of(batch: int, heads: int, rows: int) -> int:
    return batch * heads * -(-rows // (ROWS * WARPS))


def swept_row(k: Kernel, first: Index, lane: Reg, last: Index, count: int) -> tuple[Index, Reg]:
    """The lane's row of a tile, one that exists, and whether it is one of those to sweep over."""
    row = k.reg(k.add(first, lane))
    return lesser(k, row, count - 1), k.below(row, last)


def finite(k: Kernel, peak: Reg) -> Reg:
    """A maximum to subtract: 0 for that of a row that sees nothing."""
    absolute = k.op("math.absf", peak)
    return k.select(k.compare("lt", absolute, k.const(math.inf, peak.type)), peak, k.const(0, peak.type))


@frozen(eq=False)
class Scores:
    """Scores of pairs of a row and a key under one batch and head of queries."""

    k: Kernel
    form: Form
    sight: Sight
    bias: Operand | None
    batch: Index
    head: Index

    def of(self, product: Reg, row: Index, key: Index, exists: Reg) -> Reg:
        """The score made of a product of q and k: -inf where the row does not see the key."""
        k = self.k
        dtype: DType = "bf16" if self.form.rounded else "f32"
        score = rounded(k, product, dtype)
        if self.form.scale != 1:
            score = k.op("arith.mulf", score, k.const(self.form.scale, score.type))
        if self.bias is not None:
            shape = self.bias.layout.shape
            full = (self.batch, self.head, row, key)
            axes = tuple([0 if n == 1 else index for n, index in zip(shape, full, strict=True)])
            score = k.op("arith.addf", score, load(k, self.bias, Place(shape, None, known_axes=axes), 0))
        seen = self.sight.seen(row, key)
        seen = exists if seen is None else k.op("arith.andi", exists, seen)
        return k.select(seen, score, k.const(-math.inf, score.type))


def write_row(k: Kernel, tensor: Operand, where: tuple[Index, ...], sums: list[Reg], lane: Reg) -> None:
    """Writes the columns that the lanes hold to a row."""
    shape = tensor.layout.shape
    for part, value in enumerate(sums):
        column = k.add(lane, part * WARP)
        place = Place(shape, None, known_axes=(*where, column))
        if (part + 1) * WARP <= shape[-1]:
            store(k, tensor, place, value, 0)
        else:
            with k.when(k.below(column, shape[-1])):
                store(k, tensor, place, value, 0)


@frozen(eq=False)
class Result:
    """Where a result of the operation is written: an argument, in which it lies as `layout` says."""

    argument: int
    layout: Layout

    def of(self, tensors: Mapping[int, Operand]) -> Operand:
        return evolve(tensors[self.argument], layout=self.layout)


def written(task: Task, node: Node) -> list[Result]:
    """The results of the group's operation: where each lies in a result of the group, of which it may be a part."""
    flow = task.flow
    lies: dict[int, Result] = {}
    for place, value in enumerate(task.results):
        lies[value] = Result(task.result(place), Layout.dense(flow.types[value].shape))
    for other in reversed(flow.nodes[1:]):
        result = lies[other.outs[0]]
        for value in other.ins:
            before = layout_before(other.record, other.attrs, result.layout, flow.types[value])
            assert before is not None, "axes that were joined are parted again"
            lies[value] = evolve(result, layout=before)
    return [lies[value] for value in node.outs]


def arguments_of(results: Sequence[Result]) -> list[int]:
    """The arguments that results are written to, each once."""
    return list(dict.fromkeys(result.argument for result in results))


def say(task: Task, how: str, shared: int = 0) -> None:
    """What the latest kernel is, and the dynamic shared memory that it was found to need, in bytes."""
    task.launches[-1] = evolve(task.launches[-1], how=how, shared=shared)
