"""Values that a group computes for itself instead of reading them: cheaper where it reads already what they come from.

    group 1:  %n = sx.mul %x, %r   (and more)          group 1:  (more)
    group 2:  ... = sx.mul %g, %n                =>    group 2:  %m = sx.mul %x, %r
                                                                 ... = sx.mul %g, %m

Reading %n goes, and so does writing it where nothing else reads it; reading what group 2 did not read before comes
instead. Only operations by elements that cost next to nothing are repeated, and only where bytes are saved.

On a GPU a cast to a wider dtype, or of what is repeated, goes to all groups that read it, where that saves bytes: no
group then writes what is larger than what it was made of.
"""

from __future__ import annotations

from mlir import ir

from sexpgpu.dialects.opdef import Pointwise
from sexpgpu.passes.fusing.clusters import MOST, Cluster, Clustering
from sexpgpu.passes.fusing.lines import Ints
from sexpgpu.passes.fusing.reading import ARGUMENT, Reading, add_operation, add_value
from sexpgpu.passes.fusing.seeds import follows


def repeat(clustering: Clustering) -> int:
    """Repeat what saves bytes, set by set, the last first; how many operations that were."""
    clusters = {home: None for home in clustering.home if home is not None and not home.seed and len(home.ops) > 1}
    count = 0
    for cluster in sorted(clusters, key=lambda c: -c.place):
        tried: set[int] = set()
        while len(cluster.ops) < MOST:
            roots = _read_from_others(clustering, cluster)
            best = max(
                (root for root in roots if root not in tried),
                key=lambda root: _rank(clustering.reading, root),
                default=None,
            )
            if best is None:
                break
            tried.add(best)
            lead = _worthwhile(clustering, cluster, best, roots)
            if lead is not None:
                _repeat(clustering, cluster, best, lead)
                count += 1
    return count


def widen(clustering: Clustering) -> None:
    """Repeat functions of one narrower value in the sets that read what they give."""
    reading = clustering.reading
    for op in range(reading.end):
        home = clustering.home[op]
        kind = reading.kinds[op]
        if home is None or not isinstance(kind, Pointwise) or kind.wide or len(reading.operands[op]) != 1:
            continue
        if reading.moved[reading.results[op][0]] > reading.moved[reading.operands[op][0]]:
            for taker, lead in _takers(clustering, op, home).items():
                _repeat(clustering, taker, reading.results[op][0], lead)


def _takers(clustering: Clustering, op: int, home: Cluster) -> dict[Cluster, Ints]:
    """The sets that compute `op` for themselves, with the leads they then have; none where nothing is saved."""
    reading = clustering.reading
    (root,), (value,) = reading.results[op], reading.operands[op]
    readers = dict.fromkeys(clustering.home[reader] for reader in reading.outer_readers(root))
    readers.pop(home, None)
    source = reading.root[value]
    saved = 0
    takers: dict[Cluster, Ints] = {}
    for cluster in readers:
        if cluster is None or cluster.seed == "update":
            continue
        roots = _read_from_others(clustering, cluster)
        fit = _fit(clustering, cluster, op) if roots[root] else None
        if fit is not None:
            takers[cluster] = fit
            saved += reading.moved[root] - (0 if source in roots else reading.moved[value])
    if len(takers) == len(readers):
        saved += reading.moved[root]
    maker = reading.maker[source]
    if maker != ARGUMENT and clustering.home[maker] is home and not _leaves(clustering, source, home):
        saved -= reading.moved[source]
    return takers if saved > 0 else {}


def _fit(clustering: Clustering, cluster: Cluster, op: int) -> Ints | None:
    """The lead of the set with a copy of `op` in it, None where it cannot be."""
    reading = clustering.reading
    if cluster.region or reading.clone[op]:
        return None
    if cluster.seed == "product":
        return cluster.lead if follows(clustering, op, cluster) else None
    fit = clustering.unfit(op, reading.treatments[op][0], cluster)
    if isinstance(fit, str):
        return None
    parts = reading.cut and bool(fit)
    return None if parts and not cluster.whole.isdisjoint(reading.results[op]) else fit  # each part reads it in full


def _rank(reading: Reading, root: int) -> int:
    maker = reading.maker[root]
    return -1 if maker == ARGUMENT else reading.rank[maker]


def _read_from_others(clustering: Clustering, cluster: Cluster) -> dict[int, bool]:
    """The values made outside that a set reads, views looked through: whether it reads the value itself and no view."""
    reading = clustering.reading
    found: dict[int, bool] = {}
    for op in cluster.ops:
        for value in reading.operands[op]:
            root = reading.root[value]
            maker = reading.maker[root]
            if maker == ARGUMENT or clustering.home[maker] is not cluster:
                found[root] = found.get(root, True) and root == value
    return found


def _worthwhile(clustering: Clustering, cluster: Cluster, root: int, roots: dict[int, bool]) -> Ints | None:
    """The lead of the set with the maker of `root` repeated in it; None where it cannot be, or saves nothing."""
    reading = clustering.reading
    op = reading.maker[root]
    if op == ARGUMENT or not roots[root]:
        return None
    kind = reading.kinds[op]
    home = clustering.home[op]
    if not isinstance(kind, Pointwise) or kind.wide or home is None:
        return None
    fit = _fit(clustering, cluster, op)
    if fit is None:
        return None
    saved = reading.moved[root]
    if all(clustering.home[reader] in (home, cluster) for reader in reading.outer_readers(root)):
        saved *= 2
    for value in dict.fromkeys(reading.operands[op]):
        source = reading.root[value]
        maker = reading.maker[source]
        if source not in roots and not (maker != ARGUMENT and clustering.home[maker] is cluster):
            saved -= reading.moved[value]
        if maker != ARGUMENT and clustering.home[maker] is home and not _leaves(clustering, source, home):
            saved -= reading.moved[source]
    return fit if saved > 0 else None


def _leaves(clustering: Clustering, root: int, home: Cluster) -> bool:
    """Whether a value is written anyway, for readers outside of the set that makes it."""
    return any(clustering.home[reader] is not home for reader in clustering.reading.outer_readers(root))


def _repeat(clustering: Clustering, cluster: Cluster, root: int, lead: Ints) -> None:
    """Put a copy of the maker of `root` into the set, and make what is there read it."""
    reading = clustering.reading
    op = reading.maker[root]
    number = len(reading.ops)
    made = reading.ops[op].clone(ir.InsertionPoint(reading.ops[op]))
    reading.ops.append(made)
    reading.rank.append(reading.rank[op])
    value = add_value(reading, made.results[0], number)
    for operand in reading.operands[op]:
        reading.readers[operand].append(number)
    for reader in [r for r in reading.readers[root] if clustering.home[r] is cluster]:
        reading.readers[root].remove(reader)
        reading.readers[value].append(reader)
        for i, operand in enumerate(reading.operands[reader]):
            if operand == root:
                reading.operands[reader][i] = value
                reading.ops[reader].operands[i] = reading.values[value]
    add_operation(reading, reading.kinds[op], reading.attrs[op], list(reading.operands[op]), [value])
    clustering.home.append(None)
    clustering.add(number, reading.treatments[number][0], cluster, lead)
