"""Published numbers against ours: one record a comparison, and the table that shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from attrs import frozen

PUBLISHED = Path(__file__).resolve().parent / "published"


@frozen
class Comparison:
    """`count` numbers compared; shown is the one nearest to its bound, or furthest beyond it."""

    curve: str
    what: str
    count: int
    step: int
    ours: float
    published: float
    difference: float
    bound: float

    @property
    def passed(self) -> bool:
        return self.difference <= self.bound


def compare(
    curve: str,
    what: str,
    ours: Mapping[int, float],
    published: Mapping[int, float],
    bound: float | Mapping[int, float],
    measure: Literal["absolute", "relative"] = "absolute",
) -> Comparison:
    """The worst of the published steps. A step that our run does not report is an error, a NaN a failure."""
    missing = sorted(set(published) - set(ours))
    if missing:
        raise ValueError(f"{curve}: our run reports no {what} at steps {missing[:5]}")
    rows = []
    for step, value in published.items():
        off = abs(ours[step] - value) / (abs(value) if measure == "relative" else 1.0)
        limit = bound if isinstance(bound, float) else bound[step]
        difference = off if off == off else float("inf")
        rows.append(Comparison(curve, what, len(published), step, ours[step], value, difference, limit))
    return max(rows, key=lambda row: row.difference / row.bound)


def table(comparisons: Iterable[Comparison]) -> str:
    """Ours, published, difference, bound, pass or fail; the digits are those of the comparison."""
    head = f"{'curve':25} {'number':20} {'of':>4} {'step':>5} {'ours':>20} {'published':>20}"
    head += f" {'difference':>11} {'bound':>8}"
    lines = [head, "-" * len(head)]
    for c in comparisons:
        digits = 16 if c.bound < 1e-9 else 10 if c.bound < 1e-6 else 6
        values = f"{c.ours:20.{digits}f} {c.published:20.{digits}f} {c.difference:11.2e} {c.bound:8.0e}"
        lines.append(f"{c.curve:25} {c.what:20} {c.count:4} {c.step:5} {values}  {'pass' if c.passed else 'FAIL'}")
    return "\n".join(lines)


def rows(name: str) -> list[list[str]]:
    """The rows of a published file without its comments, split at commas."""
    text = (PUBLISHED / name).read_text(encoding="utf-8")
    return [line.split(",") for line in text.splitlines() if line and not line.startswith("#")]
