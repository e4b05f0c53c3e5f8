"""How a group is cut on the CPU, so that what it makes on the way stays in the second-level cache.

Let `lead` be the k leading axes that all tensors of a group share. A tile is a range of places along them; the group
is computed tile after tile, in row-major order of the tiles:

    operands and results marked tiled     the tile's part of their k leading axes
    other operands                        in full, the same for every tile
    other results                         put together from the tiles, in order, by their fold

The function of a group says so in attributes: `sx.tile`, the sizes of a tile (those at the end of an axis may be
smaller); `sx.tiled`, 1 or 0 for each operand, then each result; `sx.fold`, for each result "" or how it is folded. An
empty `sx.tile` is one tile: everything is taken in full. `plan.tiles` cuts a body by them.
"""

from __future__ import annotations

import math

from sexpgpu.passes.fusing.lines import Ints

BUDGET = 512 * 1024
"""Bytes that the values of one tile may take while they are needed: half of a second-level cache of 1 MiB, and enough
work for each call of NumPy. An Adam update of 2.4 million elements takes 26 ms with half of it, 18 with this, 24 as
single operations."""
LEAST = 8192
"""Elements below which a tile costs more in calls than in work."""


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
