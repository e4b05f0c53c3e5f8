"""The comparison with published numbers must be able to fail."""

from __future__ import annotations

import pytest

from bench.curves.compare import compare, rows, table
from bench.curves.product import Events


def test_the_worst_step_decides() -> None:
    row = compare("c", "loss", {0: 1.0, 1: 2.5, 2: 3.0}, {0: 1.0, 1: 2.0, 2: 3.1}, 0.2)
    assert (row.step, row.difference, row.passed, row.count) == (1, 0.5, False, 3)
    assert "FAIL" in table([row])


def test_a_bound_may_depend_on_the_step() -> None:
    row = compare("c", "loss", {0: 1.1, 1: 2.5}, {0: 1.0, 1: 2.0}, {0: 0.01, 1: 1.0})
    assert (row.step, row.passed) == (0, False)


def test_relative_differences() -> None:
    assert compare("c", "loss", {0: 100.0}, {0: 101.0}, 0.01, "relative").passed
    assert not compare("c", "loss", {0: 0.1}, {0: 0.11}, 0.01, "relative").passed


def test_a_nan_and_a_missing_step_do_not_pass() -> None:
    assert not compare("c", "loss", {0: float("nan")}, {0: 1.0}, 1e9).passed
    with pytest.raises(ValueError, match="no loss at steps"):
        compare("c", "loss", {0: 1.0}, {1: 1.0}, 1.0)


def test_every_published_file_is_read() -> None:
    assert len(rows("digits.csv")) == 7
    assert [int(row[0]) for row in rows("nanogpt.csv")] == list(range(0, 2001, 250))
    assert len(rows("microgpt.csv")) == 15


def test_a_series_is_read_from_events() -> None:
    records = (
        {"event": "open"},
        {"event": "step", "step": 0, "metrics": {"train/loss": 1.5}},
        {"event": "eval", "step": 1, "metrics": {"val/loss": 2.5}},
    )
    events = Events(records)
    assert events.series("step", "train/loss") == {0: 1.5}
    assert events.series("eval", "val/loss") == {1: 2.5}
    with pytest.raises(ValueError, match="twice"):
        Events((*records, records[1])).series("step", "train/loss")
