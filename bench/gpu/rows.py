"""One line of the record: what was measured or checked, of a part, and how it is printed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import asdict, frozen


@frozen
class Row:
    """`ours` and `theirs` are in `unit`; `ok` is None where nothing was compared that could be wrong.

    `note` says why something is absent, or what an error of `ours` was found in.
    """

    part: str
    name: str
    ours: float | None = None
    theirs: float | None = None
    unit: str = ""
    ok: bool | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Theirs by ours: above 1 where ours takes less time."""
        return self.theirs / self.ours if self.ours and self.theirs else None


def append(file: Path, row: Row) -> None:
    """Add a row to a file of one JSON object a line, at once: what comes later may be cut off."""
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(asdict(row)) + "\n")


def read(file: Path) -> list[Row]:
    """The rows that were written whole."""
    if not file.is_file():
        return []
    lines = file.read_text(encoding="utf-8").split("\n")[:-1]
    return [Row(**json.loads(line)) for line in lines]


def table(rows: Iterable[Row]) -> str:
    """A heading for each part, a line for each row."""
    lines, part = [], ""
    for row in rows:
        if row.part != part:
            part = row.part
            lines += ["", part]
        lines.append(_line(row).rstrip())
    return "\n".join(lines[1:])


def _line(row: Row) -> str:
    ratio = f"{row.ratio:.2f}x" if row.ratio is not None and row.unit in ("ms", "us") else ""
    verdict = {None: "", True: "pass", False: "FAIL"}[row.ok]
    numbers = f"{_number(row.ours):>10} {_number(row.theirs):>10} {row.unit:8} {ratio:>7}"
    return f"  {row.name:34} {numbers} {verdict:4} {row.note}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def record_of(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows for the JSON record."""
    return [asdict(row) | {"ratio": row.ratio} for row in rows]
