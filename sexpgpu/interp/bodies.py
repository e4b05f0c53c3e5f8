"""Steps that run a body again and again: loops over an axis, and fused groups tile by tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from sexpgpu.dialects.opdef import Array
from sexpgpu.plan.records import Tiles, Turns
from sexpgpu.plan.tiles import tile_places

if TYPE_CHECKING:
    from sexpgpu.interp.program import Program

FOLDS: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "or": np.logical_or,
    "and": np.logical_and,
}


@frozen(eq=False)
class Iteration:
    """`iteration(operands, outs)` fills `outs` with the results of a loop, last states first.

    `states` are two sets of arrays for the states, which take turns.
    """

    turns: Turns
    body: Program
    states: tuple[Sequence[Array], Sequence[Array]]

    def __call__(self, operands: Sequence[Array], outs: Sequence[Array]) -> None:
        turns = self.turns
        count = turns.states
        last = count + len(turns.items)
        # One turn reads a slice whose iterated axis comes first: a view, taken once.
        items = [np.moveaxis(x, axis, 0) for x, axis in zip(operands[count:last], turns.items, strict=True)]
        rows = [np.moveaxis(out, axis, 0) for out, axis in zip(outs[count:], turns.outs, strict=True)]
        shared = operands[last:]
        states = operands[:count]
        order = range(turns.count)
        for number, turn in enumerate(reversed(order) if turns.reverse else order):
            # The ellipsis keeps a scalar an array that shows its place.
            inputs = [*states, *[item[turn, ...] for item in items], *shared]
            into = [*self.states[number % 2], *[row[turn, ...] for row in rows]]
            states = self.body.run(inputs, into)[:count]
        for out, state in zip(outs, states, strict=False):
            np.copyto(out, state)


@frozen(eq=False)
class Tiling:
    """`tiling(operands, outs)` fills `outs` with the results of a fused group."""

    places: tuple[tuple[tuple[slice, ...], Program], ...]
    cut_operands: tuple[bool, ...]
    cut_results: tuple[bool, ...]
    folds: tuple[np.ufunc | None, ...]  # for each result, how the tiles' parts are put together

    @classmethod
    def of(cls, tiles: Tiles, bodies: Sequence[Program], operands: int) -> Tiling:
        by_shape = dict(zip(tiles.shapes, bodies, strict=True))
        places = []
        for place in tile_places(tiles.extent, tiles.shapes[0]):
            places.append((place, by_shape[tuple([part.stop - part.start for part in place])]))
        folds = tuple([FOLDS.get(fold) for fold in tiles.folds])
        return cls(tuple(places), tiles.cut[:operands], tiles.cut[operands:], folds)

    def __call__(self, operands: Sequence[Array], outs: Sequence[Array]) -> None:
        for number, (place, body) in enumerate(self.places):
            into: list[Array | None] = []
            for out, cut, fold in zip(outs, self.cut_results, self.folds, strict=True):
                part = out[place] if cut else out
                into.append(part if fold is None or number == 0 else None)
            given = body.run(self._cut(operands, place), into)
            if number:
                for out, part, fold in zip(outs, given, self.folds, strict=True):
                    if fold is not None:
                        fold(out, part, out=out)

    def tiles_of(self, operands: Sequence[Array]) -> Iterator[tuple[Program, list[Array]]]:
        """The body of each tile and what it takes."""
        for place, body in self.places:
            yield body, self._cut(operands, place)

    def _cut(self, operands: Sequence[Array], place: tuple[slice, ...]) -> list[Array]:
        return [x[place] if cut else x for x, cut in zip(operands, self.cut_operands, strict=True)]
