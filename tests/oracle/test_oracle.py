"""SBCL's answers to the forms of the corpus, one test an area.

`APART` holds the entries whose answer the language decides otherwise (flagged `impl` in the corpus).
"""

from __future__ import annotations

import pytest

from tests.oracle.adapter import evaluate
from tests.oracle.runner import entries, verdict

AREAS = {
    "backquote": 23,
    "binding": 38,
    "characters": 9,
    "closures": 15,
    "conditions": 20,
    "conses": 53,
    "control": 51,
    "equality": 6,
    "errors": 85,
    "format": 46,
    "hash-tables": 9,
    "iteration": 20,
    "lambda-lists": 28,
    "loop": 53,
    "macros": 38,
    "multiple-values": 34,
    "numbers": 60,
    "programs": 20,
    "reader": 84,
    "reader-errors": 11,
    "sequences": 72,
    "setf": 35,
    "strings": 30,
    "symbols": 22,
    "types": 7,
}


def test_the_corpus_is_whole() -> None:
    assert {area: sum(e["area"] == area for e in entries()) for area in AREAS} == AREAS


@pytest.mark.parametrize("area", AREAS)
def test_answers_are_those_of_sbcl(area: str) -> None:
    wrong = []
    for entry in entries():
        if entry["area"] == area:
            outcome, got = verdict(entry, evaluate)
            if outcome not in ("pass", "apart"):
                wrong.append((entry["id"], entry["form"], outcome, got))
    assert wrong == []
