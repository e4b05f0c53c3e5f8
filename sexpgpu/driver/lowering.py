"""The lowering report as data: what a device made of each graph that a step runs.

A device gives one `GraphRow` a graph with one `GroupRow` a region that it formed or left alone; the report sums update
graphs, and tells families, forms and reasons apart by the model paths where they were found.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from attrs import evolve, frozen


@frozen
class GroupRow:
    """A region of a graph: `size` operations of the model part at `path`, one kernel of the kind `kernel`.

    `family` is what the region was recognized as. `form` says in which of several forms its mathematics was written.
    With a reason in `fell_back` the family matched but the region was left to the generic lowering.
    """

    family: str
    kernel: str
    size: int
    path: str
    form: str | None = None
    fell_back: str | None = None


@frozen
class Launch:
    """One kernel of a graph, in the order in which they run: its name, what it gives, the model part it serves."""

    kernel: str
    type: str
    path: str


@frozen
class GraphRow:
    """A graph on a device: operations, kernels that one call launches, its regions, its products, its memory.

    `bytes_before` is what its operations read and write one by one, `bytes_after` what its kernels do. `arena` is the
    memory planned for its values, `lower_bound` the most that is alive at once, at `peak_place`. `again` counts the
    operations that the gradients compute again; where that was for a `budget`, in bytes of the arena, `kept_all` is
    what the arena would take without. `graphs` counts those that a sum is made of, `captured` tells that the device
    submits it whole.
    """

    name: str
    nodes: int
    kernels: int
    groups: tuple[GroupRow, ...]
    products: int
    bytes_before: int
    bytes_after: int
    arena: int
    lower_bound: int
    peak_place: str
    graphs: int = 1
    captured: bool = False
    launches: tuple[Launch, ...] = ()  # of the first of its graphs, where they are asked for
    again: int = 0
    kept_all: int = 0
    budget: int = 0


@frozen
class Lowering:
    """The report: the device in words (`cpu x86-64, 16 threads`), a row a graph, and notes on the run as a whole."""

    device: str
    rows: tuple[GraphRow, ...]
    notes: tuple[tuple[str, str], ...] = ()


@frozen
class Finding:
    """What became of one family in a graph: kernels and how often each, and the paths of their regions."""

    family: str
    kernels: tuple[tuple[str, int], ...]
    paths: tuple[str, ...]
    forms: tuple[str, ...]


@frozen
class FellBack:
    """Regions of a family that were left to the generic lowering for one reason."""

    family: str
    reason: str
    paths: tuple[str, ...]


def summed(name: str, rows: Iterable[GraphRow]) -> GraphRow:
    """The rows of several graphs as one, as of the updates of a group: one runs after the other, in one arena."""
    every = tuple(rows)
    widest = max(every, key=lambda row: row.arena)
    return evolve(
        widest,
        name=name,
        nodes=sum(row.nodes for row in every),
        kernels=sum(row.kernels for row in every),
        groups=tuple(group for row in every for group in row.groups),
        products=sum(row.products for row in every),
        bytes_before=sum(row.bytes_before for row in every),
        bytes_after=sum(row.bytes_after for row in every),
        graphs=sum(row.graphs for row in every),
        captured=all(row.captured for row in every),
    )


def formed(row: GraphRow) -> tuple[GroupRow, ...]:
    """The regions that became kernels of their own."""
    return tuple(group for group in row.groups if group.fell_back is None)


def fused(row: GraphRow) -> tuple[GroupRow, ...]:
    """The regions of several operations."""
    return tuple(group for group in formed(row) if group.size > 1)


def sizes(row: GraphRow) -> tuple[int, int, float] | None:
    """The smallest and largest region and the median size; None where there is none."""
    found = [group.size for group in fused(row)]
    return (min(found), max(found), median(found)) if found else None


def findings(row: GraphRow) -> list[Finding]:
    """The families that fired, in order of their first region."""
    by_family: dict[str, list[GroupRow]] = {}
    for group in formed(row):
        by_family.setdefault(group.family, []).append(group)
    found = []
    for family, groups in by_family.items():
        kernels: dict[str, int] = {}
        for group in groups:
            kernels[group.kernel] = kernels.get(group.kernel, 0) + 1
        forms = dict.fromkeys(group.form for group in groups if group.form is not None)
        found.append(Finding(family, tuple(kernels.items()), _paths(groups), tuple(forms)))
    return found


def fallen_back(row: GraphRow) -> list[FellBack]:
    """The regions that were left to the generic lowering, by family and reason."""
    by_reason: dict[tuple[str, str], list[GroupRow]] = {}
    for group in row.groups:
        if group.fell_back is not None:
            by_reason.setdefault((group.family, group.fell_back), []).append(group)
    return [FellBack(family, reason, _paths(groups)) for (family, reason), groups in by_reason.items()]


def _paths(groups: Iterable[GroupRow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(group.path for group in groups if group.path))
