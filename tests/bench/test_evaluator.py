"""The programs that evaluation is measured by: both languages agree, and every turn stays within a session's budget."""

from __future__ import annotations

from bench.evaluator import PROGRAMS, table
from sexpgpu.lang.limits import run_deep


def test_every_program_is_measured() -> None:
    assert [m.name for m in run_deep(table)] == [p.name for p in PROGRAMS]
