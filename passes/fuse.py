"""fuse: what can be computed in one go without its intermediate values becomes a group, for one target.

    %a = sx.exp %x                                     %b = func.call @pointwise_1(%x, %y)
    %b = sx.mul %a, %y                           =>    func.func private @pointwise_1(%x, %y) -> %b
                                                           attributes {sx.group = "pointwise", ...}

A group is a convex set of operations of a graph (`dialects.groups`); which sets those are, `fusing.grow` decides, and
how the CPU runs one by tiles, `fusing.tiling` says. Operations that a family matched but no group took carry
`sx.fell_back` with the reason. Graphs carry the bytes that their operations, and then their groups, read and write.
A graph without arguments runs once and is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from attrs import define, field

from sexpgpu.diag import error
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.groups import Outliner
from sexpgpu.passes.base import Pass, graphs
from sexpgpu.passes.fusing.bodies import Body, Cut, bodies, cut, units
from sexpgpu.passes.fusing.clusters import Cluster, Clustering
from sexpgpu.passes.fusing.emit import emit, explain, write_bytes
from sexpgpu.passes.fusing.grow import Target, grow
from sexpgpu.passes.fusing.reading import Reading, read
from sexpgpu.passes.fusing.recurrences import group_recurrences
from sexpgpu.passes.fusing.repeat import repeat, widen
from sexpgpu.passes.fusing.seeds import make_constants

TARGETS = ("cpu", "cuda")


@define
class _Tally:
    """What the pass did to all graphs together."""

    sizes: list[int] = field(factory=list)
    before: int = 0
    after: int = 0

    def __str__(self) -> str:
        if not self.sizes:
            return "no groups"
        least, most = min(self.sizes), max(self.sizes)
        span = f"{least}" if least == most else f"{least} to {most}"
        moved = f"{_bytes(self.after)} moved instead of {_bytes(self.before)}"
        return f"{len(self.sizes)} group{'s' * (len(self.sizes) > 1)} of {span} operations, {moved}"


@dataclass(frozen=True)
class Fuse(Pass):
    """Groups of every graph that has arguments."""

    name: ClassVar[str] = "fuse"
    target: str = "cpu"

    def run(self, module: Any, context: Context) -> str:
        if self.target not in TARGETS:
            raise error(
                "E-IR-011",
                f"`sx-fuse`: `{self.target}` is no value for `target`",
                expected=" or ".join(TARGETS),
            )
        tally = _Tally()
        outliner = Outliner(module, context)
        for func in graphs(module):
            if len(func.regions[0].blocks[0].arguments):
                if self.target == "cuda":
                    group_recurrences(func, outliner, context)
                    make_constants(func.operation, context)
                _fuse(read(func.operation, cut=self.target == "cpu"), cast(Target, self.target), outliner, tally)
        return str(tally)


def _fuse(reading: Reading, target: Target, outliner: Outliner, tally: _Tally) -> None:
    clustering = Clustering(reading, even=target == "cuda")
    before = _moved(reading)
    grow(clustering, target)
    if target == "cuda":
        widen(clustering)
    repeat(clustering)
    order = units(clustering)
    groups = _groups(clustering, target)
    after = _moved_in_groups(reading, order, groups)
    explain(reading, clustering, {op for body, _ in groups.values() for op in body.ops})
    if groups:
        emit(reading, order, groups, outliner)
    write_bytes(reading, before, after)
    tally.sizes += [len(body.ops) for body, _ in groups.values()]
    tally.before += before
    tally.after += after


def _groups(clustering: Clustering, target: Target) -> dict[Cluster, tuple[Body, Cut | None]]:
    """The sets that become groups, by their last results."""
    reading = clustering.reading
    found: dict[Cluster, tuple[Body, Cut | None]] = {}
    for cluster, body in bodies(clustering).items():
        computing = sum(1 for op in body.ops if op not in body.copied)
        if computing < 2 and not (target == "cuda" and body.broadcasts):
            continue
        found[cluster] = cut(reading, cluster, body) if target == "cpu" else (body, None)
    return found


def _moved(reading: Reading) -> int:
    """Bytes that the operations of a function read and write when each runs alone."""
    return sum(_moved_by(reading, op) for op in range(reading.end) if not reading.free[op])


def _moved_by(reading: Reading, op: int) -> int:
    return sum(reading.moved[v] for v in {*reading.operands[op], *reading.results[op]})


def _moved_in_groups(
    reading: Reading, order: list[Cluster | int], groups: Mapping[Cluster, tuple[Body, Cut | None]]
) -> int:
    total = 0
    for unit in order:
        if isinstance(unit, Cluster) and unit in groups:
            body = groups[unit][0]
            total += sum(reading.moved[v] for v in (*body.operands, *body.results))
        else:
            ops = unit.ops if isinstance(unit, Cluster) else [unit]
            total += sum(_moved_by(reading, op) for op in ops if op != reading.end)
    return total


def _bytes(count: int) -> str:
    """A count of bytes in the unit that leaves one to three digits before the point."""
    size, steps = float(count), 0
    while size >= 999.5 and steps < 4:
        size, steps = size / 1000, steps + 1
    return f"{size:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[steps]}"
