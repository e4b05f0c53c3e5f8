"""A model or a trace without end is told once, and nothing that was not examined is said to be at fault."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.trace.experiments import PARTS, codes, write

LINE = {name: number for number, name in enumerate(PARTS, 1)}


@pytest.mark.parametrize(
    ("part", "text", "line"),
    [
        ("model", "(defmodel net () (defsub out (linear width 2)) (defsub in (net)) (forward (x) (out x)))", "model"),
        ("objective", "(defun objective (logits labels) (loop) (mean logits))", "objective"),
        ("objective", "(defun objective (logits labels) (loop (exp logits)) (mean logits))", "objective"),
        ("prepare", "(defun prepare (batch) (loop (field batch 'x)))", "prepare"),
        ("evaluate", "(defun evaluate (logits labels) (loop (mean logits)) (metric 'loss (mean logits)))", "evaluate"),
    ],
)
def test_what_does_not_end_is_told_once(part: str, text: str, line: str, tmp_path: Path) -> None:
    begun = time.process_time()
    told = codes(write(tmp_path, **{part: text}))
    assert time.process_time() - begun < 4  # with garbage collection, which `check` leaves out
    assert told in ([("E-LIMIT-001", LINE[line])], [("E-LIMIT-002", LINE[line])])
