"""Sets of the CUDA device that begin with one operation rather than where operations meet.

    column    a reduction over the first axes, and what computes its operand by elements for nobody else
    product   a contraction, the casts of its operands, and what follows it by elements: bias, activation, residual
    update    all of an optimizer's update of one tensor

What a product's epilogue takes leaves no more results than before: the contraction's own has no other reader, or what
was computed of it is read by no group, so that it would have been written anyway.
"""

from __future__ import annotations

from typing import Any

from mlir import ir

from sexpgpu.dialects.builder import Builder, Val
from sexpgpu.dialects.context import Context
from sexpgpu.dialects.opdef import Dense, Move, Pointwise
from sexpgpu.dialects.read import attrs_of, definition_of
from sexpgpu.dialects.signature import input_roles, terminator_of
from sexpgpu.passes.fusing.clusters import MOST, Cluster, Clustering, holds
from sexpgpu.passes.fusing.lines import Treatment
from sexpgpu.passes.fusing.reading import ARGUMENT, Reading, shape_of


def make_constants(func: Any, context: Context) -> None:
    """Have an update, which takes a gradient, compute the constants of several elements that it gives.

    Nothing of one number is kept in full: it is written in each step, by the kernel of the update like all else.
    """
    if "grad" not in input_roles(func):
        return
    end = terminator_of(func)
    for place, value in enumerate(end.operands):
        record = None if isinstance(value.owner, ir.Block) else definition_of(value.owner)
        dense = attrs_of(value.owner).get("value") if record is not None else None
        if isinstance(dense, Dense) and dense.is_splat and dense.type.size > 1:
            builder = Builder(context, ir.InsertionPoint(end), value.owner.location)
            end.operands[place] = builder("cast", Val(builder, value, dense.type), dtype=dense.type.dtype).value


def start_update(clustering: Clustering) -> bool:
    """Make one set of an update graph, which takes a gradient; whether the function was one that may be."""
    reading = clustering.reading
    if "grad" not in input_roles(reading.function):
        return False
    computing = [op for op in range(reading.end) if not reading.free[op]]
    if not computing or any(not isinstance(reading.kinds[op], Pointwise) for op in computing):
        return False
    if any(not reading.treatments[op] for op in computing):
        return False
    first, *rest = computing
    cluster = clustering.start(first, reading.treatments[first][0])
    cluster.seed = "update"
    for op in rest:
        clustering.add(op, reading.treatments[op][0], cluster, ())
    return True


def start_columns(clustering: Clustering) -> None:
    """A set for every reduction over the first axes, with the operations by elements that only it reads."""
    reading = clustering.reading
    for op in range(reading.end):
        folds = [t for t in reading.treatments[op] if t.fold]
        if not folds or any(holds(t) and t.trailing for t in reading.treatments[op] if not t.fold):
            continue
        cluster = clustering.start(op, folds[0])
        cluster.seed = "column"
        clustering.reasons[op] = "alone: nothing beside it is computed for it only"
        pending = list(reading.operands[op])
        while pending and len(cluster.ops) < MOST:
            maker = reading.maker_of(value := pending.pop())
            if maker == ARGUMENT or not _only_for(clustering, maker, value, cluster):
                continue
            clustering.add(maker, reading.treatments[maker][0], cluster, cluster.lead)
            pending += reading.operands[maker]
        _join_others(clustering, op, cluster)


def _only_for(clustering: Clustering, op: int, value: int, cluster: Cluster) -> bool:
    """Whether an operation by elements serves the set alone, in the same places."""
    reading = clustering.reading
    if not isinstance(reading.kinds[op], Pointwise) or clustering.home[op] is not None or reading.clone[op]:
        return False
    if reading.passed[value] < len(shape_of(reading, value)) or reading.types[value].size != cluster.largest:
        return False
    return all(clustering.home[reader] is cluster for reader in reading.outer_readers(reading.root[value]))


def _join_others(clustering: Clustering, op: int, cluster: Cluster) -> None:
    """Make one of two sets over the same places that read the same tensor."""
    reading = clustering.reading
    read = [v for member in cluster.ops for v in reading.operands[member]]
    for value in dict.fromkeys(read):
        for reader in reading.readers[value]:
            near = clustering.home[reader]
            if (
                near is not None
                and near is not cluster
                and (near.lead, near.largest) == (cluster.lead, cluster.largest)
            ):
                clustering.merge(near, cluster, op + 1)
                return


def start_product(clustering: Clustering, op: int) -> None:
    """A set for a contraction, with what casts its operands for nobody else."""
    reading = clustering.reading
    shape = shape_of(reading, reading.results[op][0])
    cluster = clustering.start(op, Treatment(shape, reading.types[reading.results[op][0]].size))
    cluster.seed = "product"
    for value in reading.operands[op]:
        maker = reading.maker_of(value)
        if maker == ARGUMENT or not isinstance(reading.kinds[maker], Pointwise) or len(reading.operands[maker]) != 1:
            continue
        home = clustering.home[maker]
        alone = home is not None and home.ops == [maker] and not home.seed
        if alone and not _magnifies(reading, maker) and reading.outer_readers(reading.root[value]) == [op]:
            clustering.add(maker, reading.treatments[maker][0], cluster, cluster.lead)


def _magnifies(reading: Reading, op: int) -> bool:
    kind = reading.kinds[op]
    return isinstance(kind, Pointwise) and kind.wide


def join_product(clustering: Clustering, op: int, cluster: Cluster) -> bool:
    """Add an operation to a product's epilogue where it belongs there."""
    reading = clustering.reading
    treatment = reading.treatments[op][0]
    product = reading.types[reading.results[cluster.ops[0]][0]]
    if not isinstance(reading.kinds[op], Pointwise) or treatment.largest != product.size or len(cluster.ops) >= MOST:
        return False
    if reading.clone[op] != cluster.region:
        return False
    tail = _ends(reading, op)
    served = []
    for value in reading.operands[op]:
        maker = reading.maker_of(value)
        if maker == ARGUMENT:
            continue
        if clustering.home[maker] is not cluster:
            if serves(clustering, maker) and reading.outer_readers(reading.root[value]) == [op]:
                served.append(maker)
            continue
        if not _in_order(reading, value):
            clustering.reasons[op] = "shape: it reads the product in another order than it is made"
            return False
        if not tail and set(reading.outer_readers(reading.root[value])) != {op}:
            clustering.reasons[op] = "other readers: the product would be written as well as what is made of it"
            return False
    if not clustering.make_room(op, cluster):
        clustering.reasons[op] = "other readers: the product is read before all that it would need is made"
        return False
    for member in (*served, op):
        clustering.add(member, reading.treatments[member][0], cluster, cluster.lead)
    return True


def follows(clustering: Clustering, op: int, cluster: Cluster) -> bool:
    """Whether a product's epilogue can compute an operation by elements of what is repeated, in the product's shape."""
    reading = clustering.reading
    product = reading.types[reading.results[cluster.ops[0]][0]]
    return len(cluster.ops) < MOST and reading.treatments[op][0].largest == product.size and _repeats(reading, op)


def _repeats(reading: Reading, op: int) -> bool:
    """Whether all that an operation reads repeats something smaller."""
    return all(reading.moved[v] < reading.types[v].nbytes for v in reading.operands[op])


def serves(clustering: Clustering, op: int) -> bool:
    """Whether an operation by elements is alone and of what is repeated: a bias that is cast, say."""
    reading = clustering.reading
    home = clustering.home[op]
    if home is None or home.ops != [op] or home.seed or not isinstance(reading.kinds[op], Pointwise):
        return False
    return _repeats(reading, op)


def _ends(reading: Reading, op: int) -> bool:
    """Whether what an operation makes, or a function of it alone, is read by no group."""
    for made in reading.results[op]:
        for reader in reading.outer_readers(made):
            alone = isinstance(reading.kinds[reader], Pointwise) and len(reading.operands[reader]) == 1
            if reading.treatments[reader] and not (alone and _ends(reading, reader)):
                return False
    return True


def _in_order(reading: Reading, value: int) -> bool:
    """Whether a value has the elements of its root in the same order."""
    while (op := reading.maker[value]) != ARGUMENT and reading.view[op]:
        kind = reading.kinds[op]
        if not (isinstance(kind, Move) and kind.form in ("reshape", "same")):
            return False
        value = reading.operands[op][0]
    return True
