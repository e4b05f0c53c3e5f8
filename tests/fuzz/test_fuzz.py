"""Whatever a file holds, `check` ends soon with a value or a coded error, in bounded memory."""

from __future__ import annotations

import pytest

from tests.fuzz.running import BUSY_CPU_SECONDS, Sums, results

FEW = {"bytes": 500, "soup": 400, "calls": 400, "mutation": 120, "traced": 80}
MANY = {"bytes": 12_000, "soup": 14_000, "calls": 16_000, "mutation": 5_000, "traced": 3_000}


def _tried(kind: str, first: int, last: int) -> Sums:
    sums = Sums()
    for told in results(kind, first, last):
        sums.add(told, BUSY_CPU_SECONDS)
    return sums


@pytest.mark.parametrize("kind", FEW)
def test_some_cases(kind: str) -> None:
    sums = _tried(kind, 0, FEW[kind])
    assert sums.faults == []
    assert sums.cases == FEW[kind]
    assert sums.families


@pytest.mark.slow
@pytest.mark.parametrize("kind", MANY)
def test_fifty_thousand_cases(kind: str) -> None:
    sums = _tried(kind, FEW[kind], MANY[kind])
    assert sums.faults == []
    assert sums.cases == MANY[kind] - FEW[kind]
