"""The table of what passes cost: for `sexpgpu passes` and `sexpgpu-opt --timing`."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen


@frozen
class Cost:
    """A row. What a pass that did not run would have cost is not known."""

    name: str
    ms: float | None
    before: int | None
    after: int | None
    did: str = ""


def table_lines(rows: Sequence[Cost], heading: str) -> list[str]:
    """A heading, a line a pass, a total; shares are of the total time."""
    total = sum(row.ms or 0.0 for row in rows)
    name = max(len(row.name) for row in (*rows, Cost(heading, None, None, None), Cost("total", None, None, None)))
    lines = [f"{heading:{name}}  {'ms':>9}  {'%':>5}  {'before':>7}  {'after':>7}  did"]
    for row in rows:
        share = "" if row.ms is None else f"{100 * row.ms / total if total else 0:.1f}"
        lines.append(_line(name, row.name, row.ms, share, row.before, row.after, row.did))
    counts = [row for row in rows if row.after is not None]
    if counts:
        first, last = counts[0], counts[-1]
        before = first.after if first.before is None else first.before
        lines.append(_line(name, "total", total, "", before, last.after, ""))
    return lines


def _line(width: int, name: str, ms: float | None, share: str, before: int | None, after: int | None, did: str) -> str:
    time = "" if ms is None else f"{ms:.2f}"
    counts = ["" if n is None else str(n) for n in (before, after)]
    return f"{name:{width}}  {time:>9}  {share:>5}  {counts[0]:>7}  {counts[1]:>7}  {did}".rstrip()
