"""An open loader: the readers of its fields and the order they are read in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from sexpgpu.data.arrays import Array, array_header, read_array
from sexpgpu.data.order import Indices, Listed, Order, OrderName, Random, Sequential, Shuffle, Streams, order_key
from sexpgpu.data.readers import Reader, open_source
from sexpgpu.data.source import Npy, Source
from sexpgpu.diag import SxError, error


@frozen(eq=False)
class OpenLoader:
    """Named readers over the same records, and the batches they are read in.

    `batch(q)` reads batch q: a field's records, [rows, ...], under its name. `wrap` says that the batches
    start over after the last; without it `last` is the number of those there are.
    """

    name: str
    readers: Mapping[str, Reader]
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

    def read(self, indices: Indices) -> dict[str, Array]:
        return {name: reader.read(indices) for name, reader in self.readers.items()}

    @property
    def fitted(self) -> dict[str, Any]:
        """What the data told each field, for the manifest."""
        return {name: dict(reader.fitted) for name, reader in self.readers.items() if reader.fitted}


def open_loader(
    name: str,
    fields: Mapping[str, Source],
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
    readers = {}
    for field, source in fields.items():
        if source not in cache:
            cache[source] = open_source(source, base)
        readers[field] = cache[source]
    count = _common_count(name, readers)
    key = order_key(seed, name)
    match order:
        case "sequential":
            return OpenLoader(name, readers, count, Sequential(count, batch), None)
        case "shuffle":
            return OpenLoader(name, readers, count, Shuffle(count, batch, key), None)
        case "random":
            return OpenLoader(name, readers, count, Random(count, batch, key), None)
        case "streams":
            if count < batch * microbatches:
                raise error(
                    "E-LOAD-006",
                    f"the streams of {name} have less than one record each",
                    expected=f"{batch * microbatches} records or more, one for each row of a step",
                    actual=f"{count} records",
                    help="a smaller :batch, or windows with a smaller :stride",
                )
            return OpenLoader(name, readers, count, Streams(count, batch, microbatches), None)
        case "index-file":
            table = read_index_file(str(index_file), batch, readers, base)
            listed = Listed(table, -(-count // batch))
            return OpenLoader(name, readers, count, listed, None if wrap else len(table))


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
    stored = np.asarray(read_array(source, base)).astype(np.int64)
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
