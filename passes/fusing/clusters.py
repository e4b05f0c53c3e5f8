"""Sets of operations that grow while the graph is read in program order, such that running each at once has an order.

Every set, a lone operation included, has a place in one linear order: what it reads is made at earlier places, what
reads it stands at later ones. An operation joins a set, and two sets become one, only where the order stays possible,
perhaps after one of them moved; so no cycle can arise and no reachability is ever searched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from attrs import define, field

from sexpgpu.passes.fusing.lines import Ints, Treatment, common
from sexpgpu.passes.fusing.reading import ARGUMENT, Reading

SMALL = 8192
"""Elements of a part below which cutting it further gains nothing."""
LONGEST = 1 << 18
"""Elements of a line that a group may hold at once; a tensor of one line may have SMALL."""
MOST = 64
"""The most operations of a set."""
LAST = float("inf")
Seed = Literal["", "column", "product", "update"]


@define(eq=False)
class Cluster:
    """Operations run at once over the same `lead`; `largest` is the most elements of a tensor among them.

    `line` is the longest line that a member needs: growing must not make lines much longer. `folded` are the values put
    together from parts, which nothing inside may read, `whole` the roots of values that every part reads in full, which
    nothing inside may make. `rows`: a member works on whole lines; `seed`: what it was begun for, which decides who
    joins. `region` is what its operations compute again, 0 for none; `plain` and `again` are the first operation that
    does not and the last that does.
    """

    ops: list[int]
    place: float
    lead: Ints
    largest: int
    line: int
    sizes: set[int]
    folded: dict[int, str] = field(factory=dict)
    whole: set[int] = field(factory=set)
    rows: bool = False
    seed: Seed = ""
    region: int = 0
    plain: int | None = None
    again: int = -1


@define(eq=False)
class Clustering:
    """The sets of one function, by operation. `even`: all lines of a set are of one length, or of one element."""

    reading: Reading
    even: bool
    home: list[Cluster | None] = field(init=False)
    reasons: dict[int, str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.home = [None] * len(self.reading.ops)

    def place(self, op: int) -> float:
        """Where the operation stands in the order; arguments and constants before all."""
        if op == ARGUMENT or self.reading.is_constant(op):
            return -1
        home = self.home[op]
        return op if home is None else home.place

    def start(self, op: int, treatment: Treatment) -> Cluster:
        """A set of one operation."""
        again = self.reading.clone[op]
        cluster = Cluster([], op, treatment.lead, 0, treatment.line, set(), plain=None if again else op)
        self.add(op, treatment, cluster, treatment.lead)
        return cluster

    def add(self, op: int, treatment: Treatment, cluster: Cluster, lead: Ints) -> None:
        """Put an operation into a set, whose lead becomes `lead`."""
        reading = self.reading
        cluster.ops.append(op)
        cluster.lead = lead
        cluster.largest = max(cluster.largest, treatment.largest)
        cluster.line = max(cluster.line, treatment.line)
        cluster.rows = cluster.rows or (not treatment.fold and treatment.line > 1)
        made = reading.results[op]
        if treatment.fold:
            cluster.folded.update(dict.fromkeys(made, treatment.fold))
            made = reading.operands[op]
        cluster.sizes.update(reading.types[v].size for v in made)
        if reading.clone[op]:
            cluster.region = reading.clone[op]
            cluster.again = max(cluster.again, op)
        elif cluster.plain is None:
            cluster.plain = op
        cluster.whole.update(reading.root[reading.operands[op][i]] for i in treatment.whole)
        self.home[op] = cluster

    def unfit(self, op: int, treatment: Treatment, cluster: Cluster) -> str | Ints:
        """Why the operation, the latest so far, cannot join; otherwise the lead that all share then."""
        reading = self.reading
        if len(cluster.ops) >= MOST:
            return f"size: the group has {MOST} operations already"
        if (again := reading.clone[op]) != cluster.region and (again or cluster.again > op):
            return "recompute: it would run before the gradients that need it"
        if again and cluster.plain is not None:
            return "recompute: it would run before the gradients that need it"
        lead = common(cluster.lead, treatment.lead)
        for i, value in enumerate(reading.operands[op]):
            if not self._inside(value, cluster):
                continue
            if reading.root[value] in cluster.folded:
                return "shape: it reads a sum that is complete after the last part only"
            if i in treatment.whole:
                return "shape: it reads in full what the group makes by parts"
            lead = lead[: reading.passed[value]]
        if self._mixed(*_uses(reading, op, treatment), cluster):
            return "shape: it reads in full what the group reads by parts"
        return self._length(lead, max(cluster.largest, treatment.largest), max(cluster.line, treatment.line)) or (
            self._uneven(lead, cluster.sizes | {reading.types[v].size for v in reading.results[op]}) or lead
        )

    def _mixed(self, parts: set[int], whole: set[int], cluster: Cluster) -> bool:
        """Whether the set reads in full what is read by `parts`, or the other way round."""
        return not cluster.whole.isdisjoint(parts) or (bool(whole) and not whole.isdisjoint(self._parts(cluster)))

    def _parts(self, cluster: Cluster) -> set[int]:
        """The roots of all that a set reads by parts."""
        reading = self.reading
        return {reading.root[v] for op in cluster.ops for v in reading.operands[op]} - cluster.whole

    def _inside(self, value: int, cluster: Cluster) -> bool:
        maker = self.reading.maker_of(value)
        return maker != ARGUMENT and self.home[maker] is cluster

    def _length(self, lead: Ints, largest: int, line: int) -> str | None:
        if largest // math.prod(lead) <= max(line, SMALL):
            return None
        if not lead:
            return "shape: it shares no leading axis with the group"
        return f"shape: parts along {list(lead)} would have {largest // math.prod(lead)} elements"

    def _uneven(self, lead: Ints, sizes: Iterable[int]) -> str | None:
        if not self.even:
            return None
        lines = sorted({size // math.prod(lead) for size in sizes})
        if len(lines) <= 1 or (len(lines) == 2 and lines[0] == 1):
            return None
        return f"shape: lines of {lines[-2]} and of {lines[-1]} elements"

    def make_room(self, op: int, cluster: Cluster) -> bool:
        """Whether the set stands, perhaps after moving, behind all that the operation reads."""
        needed = self._behind((op,), cluster)
        if needed < cluster.place:
            return True
        return self._move(cluster, needed, self._before(cluster, None, op))

    def _move(self, cluster: Cluster, low: float, high: float) -> bool:
        place = min(low + 0.5, (low + high) / 2)  # no later than it has to: what comes next may read it
        if not low < place < high:
            return False
        cluster.place = place
        return True

    def _behind(self, ops: Iterable[int], *inside: Cluster) -> float:
        """The latest place of what `ops` read from outside of the sets."""
        reading = self.reading
        latest = -1.0
        for op in ops:
            for value in reading.operands[op]:
                maker = reading.maker_of(value)
                if maker != ARGUMENT and self.home[maker] not in inside:
                    latest = max(latest, self.place(maker))
        return latest

    def _before(self, cluster: Cluster, other: Cluster | None, latest: int) -> float:
        """The earliest place of what reads the set from outside of both, among operations before `latest`."""
        earliest = LAST
        for op in cluster.ops:
            for value in self.reading.results[op]:
                for reader in self.reading.outer_readers(value):
                    home = self.home[reader]
                    if home is cluster or (other is not None and home is other):
                        continue
                    if reader < latest or home is not None:
                        earliest = min(earliest, self.place(reader))
        return earliest

    def merge(self, a: Cluster, b: Cluster, latest: int) -> bool:
        """Make one of two sets where that is possible; `latest` is the operation that is being looked at."""
        if a is b or a.seed != b.seed or a.seed in ("product", "update") or len(a.ops) + len(b.ops) > MOST:
            return False
        if a.region != b.region:
            computing, other = (a, b) if a.region else (b, a)
            if other.region or other.plain is None or other.plain < computing.again:
                return False
        lead = self._lead_of_both(a, b)
        if lead is None or self._mixed(self._parts(b), b.whole, a):
            return False
        first, second = (a, b) if a.place < b.place else (b, a)
        if second.place < self._before(first, second, latest):
            place = second.place
        elif self._behind(second.ops, first, second) < first.place:
            place = first.place
        else:
            return False
        into, gone = (a, b) if len(a.ops) >= len(b.ops) else (b, a)
        for op in gone.ops:
            self.home[op] = into
        into.ops += gone.ops
        into.place, into.lead = place, lead
        into.largest, into.line = max(a.largest, b.largest), max(a.line, b.line)
        into.sizes |= gone.sizes
        into.folded |= gone.folded
        into.whole |= gone.whole
        into.rows = a.rows or b.rows
        into.region, into.again = max(a.region, b.region), max(a.again, b.again)
        plain = [c.plain for c in (a, b) if c.plain is not None]
        into.plain = min(plain, default=None)
        return True

    def _lead_of_both(self, a: Cluster, b: Cluster) -> Ints | None:
        reading = self.reading
        lead = common(a.lead, b.lead)
        for cluster, other in ((a, b), (b, a)):
            for op in cluster.ops:
                for value in reading.operands[op]:
                    if self._inside(value, other):
                        if reading.root[value] in other.folded or reading.root[value] in cluster.whole:
                            return None
                        lead = lead[: reading.passed[value]]
        if self._length(lead, max(a.largest, b.largest), max(a.line, b.line)):
            return None
        return None if self._uneven(lead, a.sizes | b.sizes) else lead


def holds(treatment: Treatment) -> bool:
    """Whether a part of an operation can be held at once, and is not all of it."""
    return treatment.line <= (SMALL if math.prod(treatment.lead) == 1 else LONGEST)


def _uses(reading: Reading, op: int, treatment: Treatment) -> tuple[set[int], set[int]]:
    """The roots of what an operation reads by parts, and of what it reads in full."""
    roots = [reading.root[v] for v in reading.operands[op]]
    whole = {roots[i] for i in treatment.whole}
    return set(roots) - whole, whole
