"""Which operation goes where: each, in program order, joins the set with which it shares most of what it moves.

    a set that makes an operand            saves reading it, and writing it where nothing else reads it
    a set that reads the same operand      saves reading it again

Sets that an operation brings together become one where they can. What no set takes is a set of its own; the reason
stays with it.
"""

from __future__ import annotations

from typing import Literal

from sexpgpu.dialects.opdef import Contract, Move, Scan
from sexpgpu.passes.fusing.clusters import SMALL, Cluster, Clustering, holds
from sexpgpu.passes.fusing.lines import Treatment
from sexpgpu.passes.fusing.reading import ARGUMENT, Reading, shape_of
from sexpgpu.passes.fusing.seeds import join_product, serves, start_columns, start_product, start_update

Target = Literal["cpu", "cuda"]

NEAR = 32
"""How many readers of an operand are looked at."""


def grow(clustering: Clustering, target: Target) -> None:
    """Give every operation that may be in a group a set."""
    reading = clustering.reading
    if target == "cuda" and not start_update(clustering):
        start_columns(clustering)
    for op in range(reading.end):
        if target == "cuda" and isinstance(reading.kinds[op], Contract) and reading.types[reading.results[op][0]].size:
            start_product(clustering, op)
        if clustering.home[op] is not None or not reading.treatments[op]:
            continue
        options, reason = usable(reading, op, target)
        if not options:
            clustering.reasons[op] = reason
            continue
        candidates = _candidates(clustering, op)
        joined = next((c for c in candidates if _joins(clustering, op, options, c)), None)
        if joined is None:
            clustering.start(op, next((t for t in options if t.line <= SMALL), options[-1]))
            clustering.reasons.setdefault(op, "alone: nothing beside it is computed by elements or lines")
            continue
        for other in candidates:
            home = clustering.home[op]
            if home is not None and other is not joined:
                clustering.merge(home, other, op + 1)


def usable(reading: Reading, op: int, target: Target) -> tuple[tuple[Treatment, ...], str]:
    """The treatments of an operation that the target has kernels for, and why not where there is none."""
    found = tuple(t for t in reading.treatments[op] if holds(t))
    if not found:
        longest = max(t.line for t in reading.treatments[op])
        return (), f"shape: its lines of {longest} elements are too long for a part, or the only one"
    if target == "cpu":
        dtype = reading.types[reading.results[op][0]].dtype
        kept = tuple(t for t in found if dtype != "bf16" or t.fold not in ("add", "mul"))
        return kept, "dtype: the parts of a bf16 sum would be rounded one by one"
    kind = reading.kinds[op]
    if isinstance(kind, Scan):
        return (), "shape: an element comes from all before it"
    if isinstance(kind, Move):  # elements are read where they were, which nothing in the group may make
        shape = shape_of(reading, reading.results[op][0])
        return (Treatment(shape, found[0].largest, whole=tuple(range(len(reading.operands[op])))),), ""
    kept = tuple(t for t in found if not t.fold and t.trailing)
    return kept, "shape: what it works along is neither the last axes nor the first"


def _candidates(clustering: Clustering, op: int) -> list[Cluster]:
    """Sets that share something with the operation, the one that saves most first."""
    reading = clustering.reading
    saved: dict[Cluster, int] = {}
    for value in dict.fromkeys(reading.operands[op]):
        size = reading.moved[value]
        if not size:
            continue
        maker = reading.maker_of(value)
        home = None if maker == ARGUMENT else clustering.home[maker]
        if home is not None:
            alone = reading.outer_readers(reading.root[value]) == [op]
            saved[home] = saved.get(home, 0) + size * (2 if alone else 1)
        if size < reading.types[value].nbytes:  # it repeats something smaller, which a set reads once anyway
            continue
        for reader in reversed(reading.readers[value][:NEAR]):
            if reader < op and (near := clustering.home[reader]) is not None and near is not home:
                saved[near] = saved.get(near, 0) + size
    return sorted(saved, key=lambda c: (-saved[c], clustering.even and serves(clustering, c.ops[0]), -c.place))


def _joins(clustering: Clustering, op: int, options: tuple[Treatment, ...], cluster: Cluster) -> bool:
    if cluster.seed:
        return cluster.seed == "product" and join_product(clustering, op, cluster)
    for treatment in options:
        fit = clustering.unfit(op, treatment, cluster)
        if isinstance(fit, str):
            clustering.reasons[op] = fit
        elif clustering.make_room(op, cluster):
            clustering.add(op, treatment, cluster, fit)
            return True
        else:
            clustering.reasons[op] = "other readers: what the group makes is read before all that it would need is made"
    return False
