"""The text of the lowering report: one block, the same for the same plan."""

from __future__ import annotations

from collections.abc import Iterator

from sexpgpu.driver.explain_text import plural, size
from sexpgpu.driver.lowering import GraphRow, Launch, Lowering, fallen_back, findings, fused, sizes
from sexpgpu.driver.paths import listed

NAME = 25
"""Columns of a row's name and of a note's."""

FAMILY = 18
KERNELS = 28
"""Columns of a family's name and of its kernels."""

LAUNCH, TYPE = 24, 24
"""Columns of a launch's kernel and of what it gives."""

INDENT = " " * (4 + FAMILY + 1)
"""What stands before what more there is to say of a family."""


def text_of(report: Lowering) -> str:
    """`lowering: DEVICE`, a row a graph with its families below it, and the notes on the run."""
    return "\n".join(_lines(report))


def _lines(report: Lowering) -> Iterator[str]:
    yield f"lowering: {report.device}"
    for row in report.rows:
        yield f"  {row.name:{NAME}} {_counts(row)}"
        yield from _families(row)
        yield from _memory(row)
        yield from map(_launch, row.launches)
    for note in report.notes:
        yield note_line(*note)


def note_line(name: str, text: str) -> str:
    """A note on the run, as a line of the report."""
    return f"  {name:{NAME}} {text}"


def _launch(launch: Launch) -> str:
    return f"      {launch.kernel:{LAUNCH}} {launch.type:{TYPE}} {launch.path}".rstrip()


def _counts(row: GraphRow) -> str:
    several = f"{row.graphs} graphs: " if row.graphs > 1 else ""
    found = f"{several}{plural(row.nodes, 'node')}, {plural(row.kernels, 'kernel')}"
    if (span := sizes(row)) is not None:
        smallest, largest, middle = span
        between = f"{smallest} to {largest}" if smallest != largest else str(smallest)
        groups = f"{plural(len(fused(row)), 'fused group')} of {between} nodes"
        found += f": {groups}" + (f" (median {middle:g})" if smallest != largest else "")
    if row.products:
        found += f", {plural(row.products, 'GEMM')}"
    return found + (", captured" if row.captured else "")


def _families(row: GraphRow) -> Iterator[str]:
    for found in findings(row):
        kernels = ", ".join(name if n == 1 else f"{name} {n}" for name, n in found.kernels)
        yield f"    {found.family:{FAMILY}} {kernels:{KERNELS}} {listed(found.paths)}".rstrip()
        for form in found.forms:
            yield f"{INDENT}as {form}"
    for left in fallen_back(row):
        where = f"{listed(left.paths)}: " if left.paths else ""
        yield f"    {left.family:{FAMILY}} fell back {where}{left.reason}"


def _memory(row: GraphRow) -> Iterator[str]:
    yield f"    {'moves':{FAMILY}} {size(row.bytes_after)}, {size(row.bytes_before)} without groups"
    if row.arena:
        peak = f", at {row.peak_place}" if row.peak_place else ""
        yield f"    {'memory':{FAMILY}} {size(row.arena)}, {size(row.lower_bound)} alive at once{peak}"
    if row.again:
        yield f"    {'computed again':{FAMILY}} {plural(row.again, 'operation')}{_budget(row)}"
    elif row.budget:
        yield f"    {'computed again':{FAMILY}} nothing{_budget(row)}"


def _budget(row: GraphRow) -> str:
    if not row.budget:
        return ""
    instead = f", {size(row.kept_all)} without" if row.kept_all else ""
    over = row.arena - row.budget
    fits = f": {size(over)} more than it" if over > 0 else ""
    return f"{instead}, for a budget of {size(row.budget)}{fits}"
