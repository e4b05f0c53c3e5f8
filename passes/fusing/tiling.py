"""How a group is cut on the CPU, so that what it makes on the way stays in the second-level cache.

Let `lead` be the k leading axes that all tensors of a group share. A tile is a range of places along them; the group
is computed tile after tile, in row-major order of the tiles:

    operands and results marked tiled     the tile's part of their k leading axes
    other operands                        in full, the same for every tile
    other results                         put together from the tiles, in order, by their fold

The function of a group says so in attributes: `sx.tile`, the sizes of a tile (those at the end of an axis may be
smaller); `sx.tiled`, 1 or 0 for each operand, then each result; `sx.fold`, for each result "" or how it is folded. An
empty `sx.tile` is one tile: everything is taken in full.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from sexpgpu.dialects.opdef import Constant, Dense, Move, OpDef
from sexpgpu.passes.fusing.lines import Ints
from sexpgpu.tensortype import TensorType

BUDGET = 256 * 1024
"""Bytes that the values of one tile may take while they are needed."""
LEAST = 8192
"""Elements below which a tile costs more in calls than in work."""


@frozen
class Tile:
    """A part of the leading axes: `lead` are their sizes, `sizes` those of the part."""

    lead: Ints
    sizes: Ints

    def shape(self, shape: Ints) -> Ints:
        """The part of a tensor of `shape`; all of it where the leading axes are others."""
        k = len(self.lead)
        return self.sizes + shape[k:] if shape[:k] == self.lead else shape

    def type(self, type: TensorType) -> TensorType:
        return TensorType(self.shape(type.shape), type.dtype)


def least_axes(lead: Ints, live: int) -> int:
    """The fewest leading axes whose places, one at a time, keep `live` bytes of the whole within the budget."""
    places = 1
    for k, n in enumerate(lead):
        if live <= BUDGET * places:
            return k
        places *= n
    return len(lead)


def tile_sizes(lead: Ints, live: int, largest: int) -> Ints:
    """The sizes of a tile along some of the axes of `lead`, the first ones; none where one tile is enough.

    `live` bytes of all places are needed at once, `largest` elements has the largest tensor. The last axes are cut
    last, so that a tile is one stretch of memory where that can be, and into parts of nearly one size.
    """
    places = math.prod(lead)
    wanted = max(1, BUDGET * places // max(1, live), -(-LEAST * places // largest))
    sizes: list[int] = []
    for n in reversed(lead):
        parts = -(-n // min(n, wanted))
        sizes.append(-(-n // parts))
        wanted //= sizes[-1]
        wanted = max(1, wanted)
    sizes.reverse()
    while sizes and sizes[-1] == lead[len(sizes) - 1]:
        sizes.pop()
    return tuple(sizes)


def tile_attrs(record: OpDef, attrs: Mapping[str, Any], tile: Tile) -> dict[str, Any]:
    """The attributes of an operation of the group for one tile: `record.infer` on them and the tile's operand types
    gives the tile's result types."""
    k = len(tile.lead)
    changed = dict(attrs)
    match record.kind:
        case Move(form="broadcast" | "reshape"):
            changed["shape"] = tile.shape(attrs["shape"])
        case Move(form="cut"):
            changed["stop"] = tile.sizes + attrs["stop"][k:]
        case Constant() if "shape" in attrs:
            changed["shape"] = tile.shape(attrs["shape"])
        case Constant() if "value" in attrs:
            value: Dense = attrs["value"]
            changed["value"] = Dense(tile.type(value.type), value.data)
        case _:
            pass
    return changed
