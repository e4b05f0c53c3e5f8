"""Writes what was decided back into the module: every operation moves to its place, sets become groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlir import ir

from sexpgpu.dialects.groups import FOLD, REASON, TILE, TILED, Family, Outliner
from sexpgpu.passes.fusing.bodies import Body, Cut
from sexpgpu.passes.fusing.clusters import Cluster, Clustering
from sexpgpu.passes.fusing.reading import ARGUMENT, Reading

BEFORE, AFTER = "sx.bytes_before", "sx.bytes_after"


def family_of(cluster: Cluster) -> Family:
    if cluster.seed:
        return cluster.seed
    if cluster.rows:
        return "row"
    return "column" if cluster.folded else "pointwise"


def emit(
    reading: Reading, order: list[Cluster | int], groups: Mapping[Cluster, tuple[Body, Cut | None]], outliner: Outliner
) -> None:
    """Put the operations into `order`; the sets that `groups` has become calls."""
    moved: set[int] = set()
    end = reading.ops[reading.end]
    for unit in order:
        if isinstance(unit, Cluster) and unit in groups:
            _group(reading, unit, *groups[unit], outliner, moved)
            continue
        for op in sorted(unit.ops, key=reading.rank.__getitem__) if isinstance(unit, Cluster) else (unit,):
            for value in reading.operands[op]:
                _fetch(reading, value, moved)
            if reading.ops[op] is not end:
                reading.ops[op].move_before(end)
    _remove_unread(reading, {op for body, _ in groups.values() for op in body.ops if op not in body.copied})


def _fetch(reading: Reading, value: int, moved: set[int]) -> None:
    """Bring the views and constants that `value` is made by to the end of what has been placed."""
    chain = []
    while (op := reading.maker[value]) != ARGUMENT and reading.free[op] and op not in moved:
        moved.add(op)
        chain.append(op)
        if not reading.operands[op]:
            break
        value = reading.operands[op][0]
    for op in reversed(chain):
        reading.ops[op].move_before(reading.ops[reading.end])


def _group(
    reading: Reading, cluster: Cluster, body: Body, cut: Cut | None, outliner: Outliner, moved: set[int]
) -> None:
    for value in body.operands:
        _fetch(reading, value, moved)
    values = reading.values
    call, func = outliner.outline(
        family_of(cluster),
        [reading.ops[op] for op in body.ops],
        reading.ops[reading.end],
        copied={i for i, op in enumerate(body.ops) if op in body.copied},
        operands=[values[v] for v in body.operands],
        results=[values[v] for v in body.results],
    )
    for number, result in zip(body.results, call.results, strict=True):
        values[number] = result
    if cut is not None:
        _write(func, cut)


def _write(func: Any, cut: Cut) -> None:
    context = func.context
    func.attributes[TILE] = ir.DenseI64ArrayAttr.get(cut.tile, context)
    func.attributes[TILED] = ir.DenseI64ArrayAttr.get([int(t) for t in cut.tiled], context)
    if any(cut.folds):
        folds = [ir.StringAttr.get(fold, context) for fold in cut.folds]
        func.attributes[FOLD] = ir.ArrayAttr.get(folds, context)


def _remove_unread(reading: Reading, grouped: set[int]) -> None:
    """Erase what lost its last reader to the groups: views, constants, and what they compute for themselves."""
    for i in sorted(range(len(reading.ops)), key=reading.rank.__getitem__, reverse=True):
        op = reading.ops[i]
        if i in grouped or not (reading.free[i] or reading.treatments[i]):
            continue
        if all(next(iter(result.uses), None) is None for result in op.results):
            op.erase()


def explain(reading: Reading, clustering: Clustering, grouped: set[int]) -> None:
    """Write on each operation that a family matched and no group took why that is, unless `raise` said more of it."""
    context = reading.function.context
    for op, reason in clustering.reasons.items():
        if op not in grouped and REASON not in reading.ops[op].attributes:
            reading.ops[op].attributes[REASON] = ir.StringAttr.get(reason, context)


def write_bytes(reading: Reading, before: int, after: int) -> None:
    i64 = ir.IntegerType.get_signless(64, context=reading.function.context)
    reading.function.attributes[BEFORE] = ir.IntegerAttr.get(i64, before)
    reading.function.attributes[AFTER] = ir.IntegerAttr.get(i64, after)
