"""Cutting a fused group into tiles: the same operations on part of the leading axes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import product
from typing import Any

from sexpgpu.dialects.opdef import Dense, OpDef
from sexpgpu.plan.dataflow import Dataflow, Node, Structure
from sexpgpu.tensortype import TensorType

Ints = tuple[int, ...]


def tile_shapes(extent: Ints, tile: Ints) -> tuple[Ints, ...]:
    """The shapes that tiles of `extent` have, the whole tile first; ragged ones where `tile` does not divide it."""
    sizes = [sorted({min(t, n), n % t or t}, reverse=True) for n, t in zip(extent, tile, strict=True)]
    return tuple(product(*sizes))


def tile_places(extent: Ints, tile: Ints) -> list[tuple[slice, ...]]:
    """Where each tile lies along the leading axes, in row-major order."""
    ranges = [[slice(i, min(i + t, n)) for i in range(0, n, t)] for n, t in zip(extent, tile, strict=True)]
    return list(product(*ranges))


def cut_type(type: TensorType, shape: Ints) -> TensorType:
    """The type of one tile of `shape` of a tensor that carries the leading axes."""
    return TensorType((*shape, *type.shape[len(shape) :]), type.dtype)


def cut_flow(whole: Dataflow, extent: Ints, shape: Ints, cut: Sequence[bool]) -> Dataflow:
    """The body of a group for one tile: `cut` says for each argument, then each result, whether it is cut."""
    if shape == extent:
        return whole
    types, attrs = _cut(whole.structure, extent, shape, tuple(cut[: whole.given]))
    nodes = []
    for node, known in zip(whole.nodes, attrs, strict=True):
        # The values of constants are no part of the structure.
        given = cut_attrs(node.record, node.attrs, extent, shape) if node.record and node.is_constant else known
        nodes.append(Node(node.name, node.record, given, node.ins, node.outs, span=node.span, path=node.path))
    return Dataflow(types, whole.given, tuple(nodes), whole.results)


@functools.lru_cache(maxsize=1024)
def _cut(
    structure: Structure, extent: Ints, shape: Ints, cut: tuple[bool, ...]
) -> tuple[tuple[TensorType, ...], tuple[dict[str, Any], ...]]:
    """The types of a tile's values and the attributes of its operations."""
    whole = structure.flow
    types = [cut_type(type, shape) if flag else type for type, flag in zip(whole.types, cut, strict=False)]
    attrs = []
    for node in whole.nodes:
        assert node.record is not None, "groups hold operations of the table"
        attrs.append(cut_attrs(node.record, node.attrs, extent, shape))
        inferred = node.record.infer(*[types[v] for v in node.ins], **attrs[-1])
        types += inferred if isinstance(inferred, tuple) else (inferred,)
    return tuple(types), tuple(attrs)


def cut_attrs(record: OpDef, attrs: dict[str, Any], extent: Ints, shape: Ints) -> dict[str, Any]:
    """The attributes with which an operation does for a tile what it does for the whole.

    Attributes that speak of positions (`shape`, `stop`) have the tile's sizes where they had the leading axes' own.
    """
    result = dict(attrs)
    count = len(extent)
    for attr in record.attrs:
        value = attrs[attr.name]
        if attr.type == "tensor":
            if isinstance(value, Dense) and value.is_splat and value.type.shape[:count] == extent:
                result[attr.name] = Dense(cut_type(value.type, shape), value.data)
        elif attr.name in ("shape", "stop") and value[:count] == extent:
            result[attr.name] = (*shape, *value[count:])
    return result
