"""An open loader: the readers of its fields and the order they are read in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from sexpgpu.data.arrays import Array, array_header, read_arrays
from sexpgpu.data.order import Indices, Listed, Order, OrderName, Random, Sequential, Shuffle, Streams, order_key
from sexpgpu.data.reader import Reader
from sexpgpu.data.readers import open_source
from sexpgpu.data.source import ByStep, FieldSource, Npy, Source
from sexpgpu.diag import SxError, error


@frozen(eq=False)
class OpenLoader:
    """Named readers over the same records, and the batches they are read in.

    `turns` are readers whose rows belong to steps or evaluations. Without a `last` batch they never end.
    """

    name: str
    readers: Mapping[str, Reader]
    turns: Mapping[str, Reader]
    count: int
    order: Order
    last: int | None

    def indices(self, q: int) -> Indices:
        """The records of batch q; `E-LOAD-009` past the end of an index file that does not wrap."""
        if self.last is not None and q >= self.last:
            raise error(
                "E-LOAD-009",
                f"the index file of {self.name} has no row for batch {q}",
                expected=f"more than {q} rows",
                actual=f"{self.last} rows",
                help="`:wrap t` starts over at its first row",
            )
        return self.order.indices(q)

    def read(self, indices: Indices, turn: int) -> dict[str, Array]:
        """The fields of a batch: the records, [rows, ...], and the row of step or evaluation number `turn`."""
        self.require_turns(turn + 1)
        records = {name: reader.read(indices) for name, reader in self.readers.items()}
        return records | {name: reader.read(np.array([turn]))[0] for name, reader in self.turns.items()}

    def require_turns(self, count: int) -> None:
        """`E-LOAD-012` where a by-step field has fewer rows than there are steps or evaluations."""
        for name, reader in self.turns.items():
            if reader.count < count:
                raise error(
                    "E-LOAD-012",
                    f"the by-step field {name} of {self.name} ends too soon",
                    expected=f"{count} rows or more, one for each step or evaluation",
                    actual=f"{reader.count} rows",
                )

    @property
    def fitted(self) -> dict[str, Any]:
        """What the data told each field, for the manifest."""
        known = {**self.readers, **self.turns}
        return {name: dict(reader.fitted) for name, reader in known.items() if reader.fitted}


def open_loader(
    name: str,
    fields: Mapping[str, FieldSource],
    *,
    batch: int,
    order: OrderName,
    seed: int,
    index_file: str | None = None,
    wrap: bool = False,
    microbatches: int = 1,
    base: Path | None = None,
    opened: dict[Source, Reader] | None = None,
) -> OpenLoader:
    """Opens a loader's sources; `opened` shares what loaders of one run have in common.

    `microbatches` are those of a step, of which `streams` make rows of their own. `E-LOAD-008`: fields of different
    lengths. `E-LOAD-009`: an index file that does not fit. `E-LOAD-006`: fewer records than streams.
    """
    cache = {} if opened is None else opened
    readers: dict[str, Reader] = {}
    turns: dict[str, Reader] = {}
    for field, given in fields.items():
        source, into = (given.source, turns) if isinstance(given, ByStep) else (given, readers)
        if source not in cache:
            cache[source] = open_source(source, base)
        into[field] = cache[source]
    count = _common_count(name, readers)
    made = partial(OpenLoader, name, readers, turns, count)
    key = order_key(seed, name)
    match order:
        case "sequential":
            return made(Sequential(count, batch), None)
        case "shuffle":
            return made(Shuffle(count, batch, key), None)
        case "random":
            return made(Random(count, batch, key), None)
        case "streams":
            if count < batch * microbatches:
                raise error(
                    "E-LOAD-006",
                    f"the streams of {name} have less than one record each",
                    expected=f"{batch * microbatches} records or more, one for each row of a step",
                    actual=f"{count} records",
                    help="a smaller :batch, or windows with a smaller :stride",
                )
            return made(Streams(count, batch, microbatches), None)
        case "index-file":
            table = read_index_file(str(index_file), batch, readers, base)
            listed = Listed(table, -(-count // batch))
            return made(listed, None if wrap else len(table))


def read_index_file(path: str, batch: int, readers: Mapping[str, Reader], base: Path | None) -> Indices:
    """The record numbers of an index file, i64[rows, width <= batch], checked; `E-LOAD-009` where it does not
    fit.

    The file counts in the uncut sources (a window by the item that it starts at), so that an order written
    elsewhere holds whatever the cuts are.
    """
    source = Npy(path)
    header = array_header(source, base)
    if len(header.shape) != 2 or header.dtype not in ("i32", "i64") or not 0 < header.shape[1] <= batch:
        raise _bad_index(path, f"i32 or i64, [batches, up to {batch}]", f"{header.dtype} {list(header.shape)}")
    places = {reader.place for reader in readers.values()}
    if len(places) != 1:
        raise _bad_index(path, "fields cut alike", f"{len(places)} different cuts")
    (first, apart) = places.pop()
    count = min(reader.count for reader in readers.values())
    stored = np.concatenate(read_arrays(source, base)).astype(np.int64)
    filled = stored != -1
    table = np.where(filled, (stored - first) // apart, -1)
    for wrong, expected in (
        (filled & ((stored < first) | (table >= count)), f"from {first} to {first + (count - 1) * apart}"),
        (filled & ((stored - first) % apart != 0), f"{first} plus a multiple of {apart}"),
        (~filled[:, :1], "a record first in each row"),
        (~filled[:, :-1] & filled[:, 1:], "-1 only at the end of a row"),
    ):
        if wrong.any():
            row, column = (int(i) for i in np.argwhere(wrong)[0])
            raise _bad_index(path, expected, f"{stored[row, column]} in row {row}, column {column}")
    return table


def _bad_index(path: str, expected: str, actual: str) -> SxError:
    return error("E-LOAD-009", f"{path} does not fit this loader", expected=expected, actual=actual)


def _common_count(name: str, readers: Mapping[str, Reader]) -> int:
    counts = {field: reader.count for field, reader in readers.items()}
    if len(set(counts.values())) != 1:
        lengths = ", ".join(f"{field} {count}" for field, count in counts.items())
        raise error(
            "E-LOAD-008",
            f"the fields of {name} have different numbers of records",
            expected="one number",
            actual=lengths,
        )
    return next(iter(counts.values()))
