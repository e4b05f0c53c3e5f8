"""Names of declarations that are wrong under a selection: told with everything else, and not twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexpgpu.lang.selection import Selection
from tests.trace.experiments import codes, write

VARIANTS = "(defvariant big (width 6))\n(defsweep sizes (width 1 2))\n(defrun :steps 4 :seed 1)"


@pytest.mark.parametrize("selection", [Selection(), Selection(variant="big"), Selection(sweep="sizes", point=1)])
def test_a_knob_misspelt_where_it_is_declared_is_told_at_each_use(selection: Selection, tmp_path: Path) -> None:
    file = write(tmp_path, knobs="(defknobs (widht 3))", run=VARIANTS)
    lines = file.read_text().split("\n")
    uses = [("E-NAME-001" if "linear" in row else "E-KNOB-001", n + 1) for n, row in enumerate(lines) if "width" in row]
    assert codes(file, selection) == uses
    assert len(uses) == 3


@pytest.mark.parametrize(
    ("knobs", "code"),
    [("(defknobs (width 3)\n  (steps 4)", "E-READ-001"), ("(defknbos (width 3) (steps 4))", "E-NAME-002")],
)
@pytest.mark.parametrize(
    "selection", [Selection(), Selection(variant="smoke"), Selection(sweep="s", point=0), Selection(sets=("steps=2",))]
)
def test_knobs_that_could_not_be_read_are_not_unknown(
    knobs: str, code: str, selection: Selection, tmp_path: Path
) -> None:
    run = "(defvariant smoke (steps 2))\n(defsweep s (steps 1 2))\n(defrun :steps steps :seed 1)"
    assert [found for found, _ in codes(write(tmp_path, knobs=knobs, run=run), selection)] == [code]


def test_a_misspelt_variant_is_told_where_it_is_written(tmp_path: Path) -> None:
    file = write(tmp_path, run="(defvarinat smoke (width 6))\n(defrun :steps 4 :seed 1)")
    assert [code for code, _ in codes(file, Selection(variant="smoke"))] == ["E-NAME-002"]
