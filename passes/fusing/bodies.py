"""What each set of operations becomes: the operations inside, what is read from outside and what is read there.

Views and constants go where they are read: a set has its own copies of those between its operations, and of a
broadcast (or a constant of one number) in front of them, so that the small tensor is its operand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from attrs import evolve, frozen

from sexpgpu.dialects.opdef import Move, numpy_dtype
from sexpgpu.passes.fusing.clusters import Cluster, Clustering
from sexpgpu.passes.fusing.lines import Ints, leading, repeated
from sexpgpu.passes.fusing.reading import ARGUMENT, Reading, shape_of
from sexpgpu.passes.fusing.tiling import least_axes, tile_sizes

FOLDING = 4
"""Tensors as large as the largest that a group which folds is taken to need at once."""


@frozen
class Body:
    """A group to be: numbers of operations in order, of operands and of results.

    `copied` are those of the operations that stay where they are as well, all of them views and constants; `broadcasts`
    are those of them that stretch an operand to what is read inside.
    """

    ops: tuple[int, ...]
    copied: frozenset[int]
    operands: tuple[int, ...]
    results: tuple[int, ...]
    broadcasts: tuple[int, ...]


@frozen
class Cut:
    """How a body is tiled: the tile's sizes, which operands and results it cuts, and the folds of the results."""

    tile: Ints
    tiled: tuple[bool, ...]
    folds: tuple[str, ...]


def bodies(clustering: Clustering) -> dict[Cluster, Body]:
    """The body of every set whose results are read, the last set first; what nothing reads any more is left out."""
    reading = clustering.reading
    wanted: set[int] = set()
    found: dict[Cluster, Body] = {}
    for unit in reversed(units(clustering)):
        if isinstance(unit, Cluster):
            body = found[unit] = _body(reading, unit, wanted)
            wanted.update(reading.root[v] for v in body.operands)
        else:
            wanted.update(reading.root[v] for v in reading.operands[unit])
    return found


def units(clustering: Clustering) -> list[Cluster | int]:
    """The sets and the operations in none of them, in their order; views and constants left out."""
    placed: dict[Cluster | int, float] = {}
    for op in range(len(clustering.home)):
        home = clustering.home[op]
        if home is not None:
            placed[home] = home.place
        elif not clustering.reading.free[op]:
            placed[op] = op
    return sorted(placed, key=placed.__getitem__)


def _body(reading: Reading, cluster: Cluster, wanted: set[int]) -> Body:
    rank = reading.rank.__getitem__
    makers = set(cluster.ops)
    free: set[int] = set()
    live: list[int] = []
    needed: set[int] = set()
    broadcasts: set[int] = set()
    for op in sorted(makers, key=rank, reverse=True):
        if not any(v in needed or v in wanted for v in reading.results[op]):
            continue
        live.append(op)
        for value in reading.operands[op]:
            needed.add(reading.root[value])
            _take_views(reading, value, makers, free, broadcasts)
    ops = tuple(sorted([*live, *free], key=rank))
    results = tuple(v for op in reversed(live) for v in reading.results[op] if v in wanted)
    return Body(ops, frozenset(free), _operands(reading, ops), results, tuple(sorted(broadcasts)))


def _take_views(reading: Reading, value: int, makers: set[int], free: set[int], broadcasts: set[int]) -> None:
    """Add the views and constants between `value` and what is made inside, or the broadcast of an operand."""
    inside = reading.maker_of(value) in makers
    while (op := reading.maker[value]) != ARGUMENT and reading.free[op]:
        kind = reading.kinds[op]
        broadcast = isinstance(kind, Move) and kind.form == "broadcast"
        if not (inside or broadcast or _travels(reading, op)):
            return
        free.add(op)
        if not inside:
            if not broadcast:
                return
            broadcasts.add(op)
            source = reading.maker[reading.operands[op][0]]
            if source == ARGUMENT or not _travels(reading, source):
                return
        value = reading.operands[op][0]


def _travels(reading: Reading, op: int) -> bool:
    """Whether the operation is a constant of one number, or a count, which every group makes for itself."""
    if not reading.is_constant(op):
        return False
    dense = reading.attrs[op].get("value")
    return dense is None or bool(dense.is_splat)


def _operands(reading: Reading, ops: Iterable[int]) -> tuple[int, ...]:
    inside = set(ops)
    return tuple(dict.fromkeys(v for op in ops for v in reading.operands[op] if reading.maker[v] not in inside))


def without(reading: Reading, body: Body, outside: Iterable[int]) -> Body:
    """The body with some of its broadcasts left outside: what they make is an operand."""
    gone = set(outside)
    kept = [op for op in body.ops if op not in gone]
    read = {v for op in kept for v in reading.operands[op]}
    ops = tuple(op for op in kept if op not in body.copied or reading.results[op][0] in read)
    broadcasts = tuple(op for op in body.broadcasts if op in ops)
    return evolve(body, ops=ops, copied=body.copied & set(ops), operands=_operands(reading, ops), broadcasts=broadcasts)


@frozen
class _Span:
    """Of how many leading axes a broadcast passes on the parts of its operand, and of how many it repeats it whole."""

    parts: int
    whole: int

    @property
    def most(self) -> int:
        return max(self.parts, self.whole)


def _span(reading: Reading, op: int) -> _Span:
    kind, value = reading.kinds[op], reading.operands[op][0]
    assert isinstance(kind, Move)
    operand, result = shape_of(reading, value), shape_of(reading, reading.results[op][0])
    if (maker := reading.maker[value]) != ARGUMENT and reading.is_constant(maker):
        return _Span(0, 0)
    return _Span(leading(kind, reading.attrs[op], operand, result), repeated(operand, result))


def cut(reading: Reading, cluster: Cluster, body: Body) -> tuple[Body, Cut]:
    """Tiles for a body; what the tiles cannot make for themselves stays outside and becomes an operand."""
    live = _folded_bytes(reading, cluster) if cluster.folded else live_bytes(reading, body)
    spans = {op: _span(reading, op) for op in body.broadcasts}
    needed = least_axes(cluster.lead, live)
    body = without(reading, body, [op for op, span in spans.items() if span.most < needed])
    axes = min([len(cluster.lead), *(spans[op].most for op in body.broadcasts)])
    sizes = tile_sizes(cluster.lead[:axes], live, cluster.largest)
    axes = len(sizes)
    if not axes:
        return body, _uncut(body)
    lead = cluster.lead[:axes]
    body = without(reading, body, [op for op in body.ops if _counts_along(reading, op, lead)])
    repeating = {op for op in body.broadcasts if spans[op].parts < axes}
    by_parts = {v for op in body.ops if op not in repeating for v in reading.operands[op]}
    clashing = [op for op in repeating if reading.operands[op][0] in by_parts]
    body = without(reading, body, clashing)
    in_full = {reading.operands[op][0] for op in repeating.difference(clashing)}
    tiled = [v not in in_full and reading.root[v] not in cluster.whole for v in body.operands]
    folds = tuple(cluster.folded.get(v, "") for v in body.results)
    if not any(tiled) and all(folds):  # sums of what is the same for every tile
        return body, _uncut(body)
    return body, Cut(sizes, (*tiled, *(not fold for fold in folds)), folds)


def _folded_bytes(reading: Reading, cluster: Cluster) -> int:
    """What a group that folds is taken to need, whatever else is in it: a sum has the same parts in any group."""
    width = max(numpy_dtype(reading.types[v].dtype).itemsize for v in cluster.folded)
    return FOLDING * cluster.largest * width


def _uncut(body: Body) -> Cut:
    """One tile."""
    return Cut((), (False,) * (len(body.operands) + len(body.results)), ("",) * len(body.results))


def _counts_along(reading: Reading, op: int, lead: Ints) -> bool:
    """Whether the operation is a constant of which a part is not like the whole."""
    if not reading.is_constant(op):
        return False
    same = shape_of(reading, reading.results[op][0])[: len(lead)] == lead
    return not same or reading.attrs[op].get("axis", len(lead)) < len(lead)


def live_bytes(reading: Reading, body: Body) -> int:
    """The most bytes that what the operations make takes at once, by the sizes that NumPy gives it."""
    last: dict[int, int] = {}
    for i, op in enumerate(body.ops):
        for v in (*reading.operands[op], *reading.results[op]):
            last[reading.root[v]] = i
    sizes: dict[int, int] = {}
    live = most = 0
    ending: dict[int, list[int]] = {}
    for root, i in last.items():
        ending.setdefault(i, []).append(root)
    for i, op in enumerate(body.ops):
        if not reading.free[op]:
            for v in reading.results[op]:
                type = reading.types[v]
                sizes[v] = math.prod(type.shape) * numpy_dtype(type.dtype).itemsize
                live += sizes[v]
            most = max(most, live)
        for root in ending.get(i, ()):
            live -= sizes.pop(root, 0)
    return most
