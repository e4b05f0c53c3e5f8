"""Comma-separated tables of numbers."""

from __future__ import annotations

import csv
import io
from itertools import islice
from pathlib import Path

import numpy as np
from attrs import frozen

from sexpgpu.data.arrays import NUMPY_DTYPE, Array
from sexpgpu.data.files import bad_file, opened, read_text, shards
from sexpgpu.data.source import Csv
from sexpgpu.diag import error, nearest
from sexpgpu.tensortype import FLOATS, DType

_WHAT = "a table of comma-separated numbers"


@frozen
class Table:
    """The cells of a file as text; `lines` are the line numbers of the rows, where they end."""

    path: Path
    header: tuple[str, ...] | None
    rows: list[list[str]]
    lines: list[int]

    @property
    def width(self) -> int:
        return len(self.rows[0])


def read_tables(source: Csv, base: Path | None) -> list[Table]:
    """The tables of all files."""
    return [_read_table(source, path) for path in shards(source.path, base)]


def require_columns(source: Csv, base: Path | None) -> None:
    """`E-LOAD-004` for a column that the head of a file lacks. Reads no more than a header and a row, and leaves what
    is no table to whoever reads all of it.
    """
    for path in shards(source.path, base):
        try:
            with opened(path, _WHAT) as stream:
                lines = io.TextIOWrapper(stream, encoding="utf-8-sig")
                rows = [row for row in islice(filter(None, csv.reader(islice(lines, source.skip, None))), 2)]
        except (csv.Error, UnicodeDecodeError):
            continue
        named = bool(rows) and not all(map(_is_number, rows[0]))
        header = tuple(cell.strip() for cell in rows[0]) if named else None
        if len(rows) > named:
            column_places(Table(path, header, [rows[named]], []), source.columns)


def _read_table(source: Csv, path: Path) -> Table:
    """The file's rows, all of one length; blank lines are left out."""
    lines = read_text(path, _WHAT).splitlines()
    try:
        reader = csv.reader(lines[source.skip :])
        numbered = [(source.skip + reader.line_num, row) for row in reader if row]
    except csv.Error as fault:
        raise bad_file(path, _WHAT, str(fault)) from None
    rows, at = [row for _, row in numbered], [number for number, _ in numbered]
    header = None
    if rows and not all(map(_is_number, rows[0])):
        header = tuple(cell.strip() for cell in rows.pop(0))
        at.pop(0)
    if not rows:
        raise bad_file(path, _WHAT, "it has no rows of numbers")
    for number, row in zip(at, rows, strict=True):
        if len(row) != len(rows[0]):
            reason = f"line {number} has {len(row)} cells, line {at[0]} has {len(rows[0])}"
            raise bad_file(path, _WHAT, reason)
    return Table(path, header, rows, at)


def column_places(table: Table, columns: tuple[str | int, ...]) -> list[int]:
    """Which cells of a row the columns are, all of them when none is named."""
    return [_place(table, column) for column in columns] or list(range(table.width))


def numbers(table: Table, places: list[int], dtype: DType) -> Array:
    """The chosen cells, [rows, columns], as `dtype`; a cell that is no such number, or a number so large that it
    would be read as infinity, is an error that says where, lines and columns counted from 1.
    """
    cells = [row[place] for row in table.rows for place in places]
    target = NUMPY_DTYPE[dtype]
    if not _is_plain("".join(cells)):
        wrong = next((i for i, cell in enumerate(cells) if not _is_number(cell)), None)
        if wrong is not None:
            raise _bad_cell(table, places, wrong, cells, "no number")
    try:
        values = np.array(cells, np.float64 if dtype in FLOATS else np.int64)
    except (ValueError, OverflowError):
        values = _floats(table, places, cells)
    with np.errstate(over="ignore", invalid="ignore"):  # what does not fit differs below, and is told there
        result = values.astype(target)
    if dtype not in FLOATS:
        if (unfit := np.flatnonzero(result != values)).size:
            raise _bad_cell(table, places, int(unfit[0]), cells, f"no {dtype}")
    elif beyond := [int(i) for i in np.flatnonzero(np.isinf(result)) if any(map(str.isdigit, cells[int(i)]))]:
        raise _bad_cell(table, places, beyond[0], cells, f"beyond the numbers of {dtype}")
    return result.reshape(len(table.rows), len(places))


def _floats(table: Table, places: list[int], cells: list[str]) -> Array:
    try:
        return np.array(cells, np.float64)
    except ValueError:
        wrong = next(i for i, cell in enumerate(cells) if not _is_number(cell))
        raise _bad_cell(table, places, wrong, cells, "no number") from None


def _bad_cell(table: Table, places: list[int], flat: int, cells: list[str], reason: str) -> Exception:
    row, column = divmod(flat, len(places))
    where = f"line {table.lines[row]}, column {places[column] + 1}: {cells[flat]!r} is {reason}"
    return bad_file(table.path, _WHAT, where)


def _place(table: Table, column: str | int) -> int:
    if isinstance(column, int):
        if not -table.width <= column < table.width:
            raise error(
                "E-LOAD-004",
                f"{table.path} has no column {column}",
                expected=f"a column from 0 to {table.width - 1}",
                actual=str(column),
            )
        return column % table.width
    if table.header is None:
        raise error(
            "E-LOAD-004",
            f"{table.path} has no column named {column}",
            expected="columns by place: the file names none",
            actual=column,
        )
    if len(table.header) != table.width:
        raise error(
            "E-LOAD-004",
            f"{table.path} has no column named {column}: its header does not fit its rows",
            expected=f"{len(table.header)} cells in a row, as the header has",
            actual=f"{table.width} cells",
        )
    # Names are compared in lower case because symbols of the language fold to it.
    places = [place for place, name in enumerate(table.header) if name.lower() == column.lower()]
    if len(places) > 1:
        raise error(
            "E-LOAD-004",
            f"{table.path} has several columns named {column}",
            expected="one column of that name",
            actual=f"columns {' and '.join(str(place + 1) for place in places)}",
            help=f"a column can be named by its place, counted from 0: {' or '.join(map(str, places))}",
        )
    if not places:
        near = nearest(column, table.header)
        raise error(
            "E-LOAD-004",
            f"{table.path} has no column named {column}",
            expected=", ".join(table.header),
            actual=column,
            help=f"did you mean {near}?" if near else None,
        )
    return places[0]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return _is_plain(cell.strip())


def _is_plain(text: str) -> bool:
    """Whether there is nothing in it that only Python takes for a part of a number: `1_0`, digits of other scripts."""
    return "_" not in text and text.isascii()
